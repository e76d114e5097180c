//! The promises, one file each.

pub mod p1;
pub mod p10;
pub mod p11;
pub mod p2;
pub mod p3;
pub mod p4;
pub mod p5;
pub mod p6;
pub mod p7;
pub mod p8;
pub mod p9;
