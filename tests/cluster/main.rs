//! Clusters of real nodes in one process: real sockets, real disks, and no SDK between.

mod actors;
mod forged;
mod house;
mod registers;
mod siblings;
