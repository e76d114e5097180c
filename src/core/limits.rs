//! Every limit of the protocol, and how they hang together.

/// Bytes of a value at most; a larger one is refused before anything is stored.
pub const VALUE_LEN: usize = 1 << 20;
/// Bytes of a key at most; a key has at least one.
pub const KEY_LEN: usize = 1024;
/// Bytes of a frame at most: header and values together. Larger answers come in pages.
pub const FRAME_LEN: usize = 2 << 20;
/// Live siblings of a key at admission: past it only a write that names a live one is taken.
/// A merge has no such cap.
pub const SIBLINGS_ADMITTED: usize = 64;
/// Bytes of all held versions of a key at admission, roughly, values aside: so a healed partition still
/// fits into one answer.
pub const ROW_ADMITTED: usize = FRAME_LEN / 4;
/// Versions of one key, and parents of one write, that a decoder accepts.
pub const VERSIONS: usize = 1024;
/// Stamps of one version at most.
pub const STAMPS: usize = 16;
/// Actors in a past at most.
pub const PAST_ACTORS: usize = 512;
/// Above this many actors in a past only an actor already in it stamps; others forward.
pub const PAST_ACTORS_ADMITTED: usize = 256;
/// Ranges in a past at most, over all its actors.
pub const PAST_RANGES: usize = 4096;
/// Hashes in a Merkle path at most: batches of up to 65,536 signed items.
pub const PATH_LEN: usize = 16;
/// Items under one batch signature at most.
pub const BATCH_ITEMS: usize = 1 << PATH_LEN;
/// Inputs that one storage batch takes at most.
pub const BATCH_INPUTS: usize = 1024;
/// Bytes of inputs that one storage batch takes at most.
pub const BATCH_LEN: usize = 4 << 20;
/// Members of a cluster at most.
pub const MEMBERS: usize = 64;
/// Replicas of a key unless the cluster says otherwise.
pub const REPLICAS: usize = 3;
/// Characters of a namespace's name at most.
pub const NAMESPACE_LEN: usize = 63;
/// Grants and namespaces of a cluster at most, each.
pub const POLICY_ITEMS: usize = 4096;
/// Keys in one page of a listing at most.
pub const LIST_PAGE: usize = 1000;
/// Operations that a node is in the middle of at most; past it requests are answered `Overloaded`.
pub const OPERATIONS: usize = 16_384;
/// Writes of a register that its state remembers: what became of them can be told exactly.
pub const RECENT: usize = 32;
/// Writes that a register's state forbids at most.
pub const VOID: usize = 32;
/// The shortest lease of a tenure, in milliseconds.
pub const LEASE_MIN_MS: u32 = 1_000;
/// The longest lease of a tenure, in milliseconds.
pub const LEASE_MAX_MS: u32 = 300_000;
/// Counters of events and ballots are below this: a claimed one above it is not believed.
pub const COUNTERS: u64 = 1 << 62;
/// Counters that a node reserves durably at a time.
pub const COUNTER_BLOCK: u64 = 1 << 16;

const _: () =
    assert!(VALUE_LEN + (VALUE_LEN / 2) < FRAME_LEN, "a value travels in one frame with its header");
const _: () = assert!(VALUE_LEN < BATCH_LEN && FRAME_LEN <= BATCH_LEN, "the largest input fits into a batch");
const _: () = assert!(SIBLINGS_ADMITTED < VERSIONS, "a healed partition stays within what a decoder accepts");
const _: () = assert!(PAST_ACTORS_ADMITTED < PAST_ACTORS && PAST_ACTORS <= PAST_RANGES);
const _: () = assert!(MEMBERS < PAST_ACTORS_ADMITTED, "every member may stamp every key");
const _: () = assert!(BATCH_INPUTS < BATCH_ITEMS, "one batch of inputs is one batch of signatures");
