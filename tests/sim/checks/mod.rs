//! The promises, one file each.

pub mod p1;
pub mod p11;
pub mod p2;
pub mod p4;
pub mod p8;
pub mod p9;
