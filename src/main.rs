//! The `tanist` binary.

fn main() {}
