//! What clients were told, judged: did the store keep its promises?
//!
//! A history says when each operation was asked for, when its answer came, and what it was. Nothing else
//! is believed: no log of a node, no clock of a node. The judges are of three kinds, one for each kind of
//! promise.
//!
//! ```text
//! record     lines of a recorded file, and the histories in them
//! register   compare-and-set: is it linearizable (P3, P4, P5)?     linear   the same, for any values
//! siblings   is what was acknowledged there (P1), and told (P2)?
//! ownership  one tenure to a term (P6), and no late write (P7)
//! finding    what a judge found wrong, with the operations that show it
//! ```
//!
//! Times are nanoseconds on one clock. An operation without an answer may have happened at any time after
//! it was asked for, also later than everything else in the history, or not at all.

pub mod finding;
pub mod linear;
pub mod ownership;
pub mod record;
pub mod register;
pub mod siblings;
