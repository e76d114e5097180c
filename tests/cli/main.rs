//! The command line with real processes: exit codes, stdout, and what is left behind.
#![cfg(feature = "cli")]

mod alone;
mod cases;
mod nodes;
mod registers;
mod shows;
