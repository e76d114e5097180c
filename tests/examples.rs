//! The examples run, and say what they should.

#![allow(clippy::duplicate_mod, reason = "each example brings what it needs, as it does when it is run")]

#[path = "../examples/cart.rs"]
mod cart;
#[path = "../examples/counter.rs"]
mod counter;

#[test]
fn a_cart_is_merged_after_a_partition() {
    cart::main().unwrap();
}

#[test]
fn a_counter_counts() {
    counter::main().unwrap();
}
