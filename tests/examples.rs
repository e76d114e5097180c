//! The examples run, and say what they should.

#![allow(clippy::duplicate_mod, reason = "each example brings what it needs, as it does when it is run")]

#[path = "../examples/cart.rs"]
mod cart;
#[path = "../examples/counter.rs"]
mod counter;
#[allow(dead_code, reason = "its main makes a folder, and so does its test")]
#[path = "../examples/fenced_dir.rs"]
mod fenced_dir;

#[test]
fn a_cart_is_merged_after_a_partition() {
    cart::main().unwrap();
}

#[test]
fn a_counter_counts() {
    counter::main().unwrap();
}

#[test]
fn an_owner_of_the_past_changes_no_file() {
    fenced_dir::run(tempfile::tempdir().unwrap().path()).unwrap();
}
