//! What every store does, run on each of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::memory::Memory;
use super::{CommitError, Store};
use crate::engine::store::{Batch, Change, View as _};

/// A place for one store, which can be opened again after it was dropped.
trait Ground: Sized {
    type Store: Store;
    fn fresh() -> Self;
    fn open(&self) -> Self::Store;
}

struct MemoryGround(Memory);

impl Ground for MemoryGround {
    type Store = Memory;

    fn fresh() -> Self {
        MemoryGround(Memory::new())
    }

    fn open(&self) -> Memory {
        self.0.crash(0);
        self.0.clone()
    }
}

#[cfg(feature = "node")]
mod on_disk {
    use super::Ground;
    use crate::core::identity::Incarnation;
    use crate::storage::directory::{Directory, Settings};
    use crate::storage::reserve::Room;
    use crate::storage::rocks::{Rocks, Tuning};

    pub(super) struct RocksGround(tempfile::TempDir);

    impl Ground for RocksGround {
        type Store = Rocks;

        fn fresh() -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            Rocks::create(&dir.path().join("data"), &Tuning::default()).expect("creates");
            RocksGround(dir)
        }

        fn open(&self) -> Rocks {
            Rocks::open(&self.0.path().join("data"), &Tuning::default()).expect("opens")
        }
    }

    pub(super) struct DirectoryGround(tempfile::TempDir);

    fn settings() -> Settings {
        Settings { room: Room { reserve: 1 << 20, threshold: 1 << 20 }, ..Settings::default() }
    }

    impl Ground for DirectoryGround {
        type Store = Directory;

        fn fresh() -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            Directory::create(dir.path(), Incarnation([5; 16]), &settings()).expect("creates");
            DirectoryGround(dir)
        }

        fn open(&self) -> Directory {
            Directory::open(self.0.path(), &settings()).expect("opens").directory
        }
    }
}

fn put(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Change {
    Change::Put { key: Bytes::copy_from_slice(key.as_ref()), value: Bytes::copy_from_slice(value.as_ref()) }
}

fn delete(key: impl AsRef<[u8]>) -> Change {
    Change::Delete { key: Bytes::copy_from_slice(key.as_ref()) }
}

fn commit(store: &impl Store, changes: Vec<Change>) {
    store.commit(&Batch { number: store.last_batch() + 1, changes }).expect("commits");
}

fn get(store: &impl Store, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    store.get(key.as_ref()).expect("reads").map(|value| value.to_vec())
}

fn keys(store: &impl Store, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Vec<Vec<u8>> {
    store.scan(prefix, after, limit).expect("scans").into_iter().map(|(key, _)| key.to_vec()).collect()
}

fn a_fresh_store_is_empty<G: Ground>() {
    let store = G::fresh().open();
    assert_eq!(store.last_batch(), 0);
    assert_eq!(get(&store, "key"), None);
    assert_eq!(keys(&store, b"", None, 10), [b""; 0], "the store's own rows are nobody's");
    assert_eq!(get(&store, ""), None);
}

fn scans_are_in_byte_order<G: Ground>() {
    let store = G::fresh().open();
    let sorted: [&[u8]; 9] = [b"", b"\0", b"\0\0", b"\x01", b"a", b"a\0", b"b", b"\xff", b"\xff\xff"];
    commit(&store, [4, 8, 1, 6, 0, 2, 7, 5, 3].map(|index| put(sorted[index], [index as u8])).into());
    let rows = store.scan(b"", None, 100).expect("scans");
    assert_eq!(rows.len(), sorted.len());
    for (index, (key, value)) in rows.iter().enumerate() {
        assert_eq!((key.as_ref(), value.as_ref()), (sorted[index], [index as u8].as_slice()));
    }
    assert_eq!(keys(&store, b"\xff", None, 10), [b"\xff".as_slice(), b"\xff\xff"]);
}

fn case_21_prefix_is_not_erased<G: Ground>() {
    let store = G::fresh().open();
    commit(&store, vec![put("foobar", "1"), put("fo", "2"), put("fop", "3")]);
    commit(&store, vec![put("foo", "4")]);
    assert_eq!(keys(&store, b"foo", None, 10), [b"foo".as_slice(), b"foobar"]);
    commit(&store, vec![delete("foo")]);
    assert_eq!(get(&store, "foobar"), Some(b"1".to_vec()));
    assert_eq!(keys(&store, b"foo", None, 10), [b"foobar"]);
    assert_eq!(keys(&store, b"foobars", None, 10), [b""; 0]);
}

fn later_changes_of_a_batch_win<G: Ground>() {
    let store = G::fresh().open();
    commit(&store, vec![put("kept", "old"), put("gone", "old"), put("back", "old")]);
    commit(
        &store,
        vec![
            put("kept", "new"),
            put("gone", "new"),
            delete("gone"),
            delete("back"),
            put("back", "new"),
            put("back", "newest"),
            delete("never there"),
        ],
    );
    assert_eq!(get(&store, "kept"), Some(b"new".to_vec()));
    assert_eq!(get(&store, "gone"), None);
    assert_eq!(get(&store, "back"), Some(b"newest".to_vec()));
    assert_eq!(keys(&store, b"", None, 10), [b"back", b"kept"]);
}

fn an_empty_value_is_a_value<G: Ground>() {
    let ground = G::fresh();
    let store = ground.open();
    commit(&store, vec![put("empty", "")]);
    assert_eq!(get(&store, "empty"), Some(Vec::new()));
    assert_eq!(keys(&store, b"", None, 10), [b"empty"]);
    drop(store);
    assert_eq!(get(&ground.open(), "empty"), Some(Vec::new()));
}

fn after_and_limit_page_through<G: Ground>() {
    let store = G::fresh().open();
    commit(&store, ["a1", "b1", "b2", "b3", "c1"].map(|key| put(key, "")).into());
    assert_eq!(keys(&store, b"b", None, 2), [b"b1", b"b2"]);
    assert_eq!(keys(&store, b"b", Some(b"b2"), 2), [b"b3"]);
    assert_eq!(keys(&store, b"b", Some(b"b1x"), 9), [b"b2", b"b3"], "what follows need not be there");
    assert_eq!(keys(&store, b"b", Some(b"a"), 9), [b"b1", b"b2", b"b3"], "before the prefix: all of it");
    assert_eq!(keys(&store, b"b", Some(b"b"), 9), [b"b1", b"b2", b"b3"]);
    assert_eq!(keys(&store, b"b", Some(b"b3"), 9), [b""; 0]);
    assert_eq!(keys(&store, b"b", Some(b"c"), 9), [b""; 0], "behind the prefix: none of it");
    assert_eq!(keys(&store, b"", Some(b"b2"), 9), [b"b3", b"c1"]);
    assert_eq!(keys(&store, b"b", None, 0), [b""; 0]);
    assert_eq!(keys(&store, b"b", None, usize::MAX).len(), 3);
}

fn numbers_have_no_gaps_and_outlive_a_restart<G: Ground>() {
    let ground = G::fresh();
    let store = ground.open();
    for number in [0, 2, u64::MAX] {
        let refused = store.commit(&Batch { number, changes: vec![put("refused", "")] });
        assert_eq!(refused, Err(CommitError::OutOfOrder { expected: 1, given: number }));
    }
    commit(&store, vec![]);
    commit(&store, vec![put("taken", "")]);
    assert_eq!(store.last_batch(), 2);
    drop(store);
    let store = ground.open();
    assert_eq!(store.last_batch(), 2);
    let again = store.commit(&Batch { number: 2, changes: vec![put("refused", "")] });
    assert_eq!(again, Err(CommitError::OutOfOrder { expected: 3, given: 2 }));
    assert_eq!(keys(&store, b"", None, 10), [b"taken"], "a refused batch leaves nothing");
    commit(&store, vec![]);
}

fn a_batch_is_seen_whole_or_not_at_all<G: Ground>() {
    let store = G::fresh().open();
    let seen = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while seen.load(Ordering::Acquire) < 300 {
                match store.scan(b"", None, 10).expect("scans").as_slice() {
                    [] => {}
                    [(_, first), (_, second)] => {
                        assert_eq!(first, second, "half of a batch");
                        seen.fetch_add(1, Ordering::AcqRel);
                    }
                    rows => panic!("half of a batch: {rows:?}"),
                }
            }
        });
        let mut number = 0u64;
        while !reader.is_finished() {
            number += 1;
            commit(&store, vec![put("a", number.to_be_bytes()), put("z", number.to_be_bytes())]);
            assert_eq!(get(&store, "z"), Some(number.to_be_bytes().to_vec()), "visible when committed");
        }
        reader.join().expect("the reader saw whole batches only");
    });
}

fn ten_thousand_rows<G: Ground>() {
    let ground = G::fresh();
    let store = ground.open();
    let mut model = BTreeMap::new();
    for round in 0..10u64 {
        let mut changes = Vec::new();
        for index in 0..1_000u64 {
            // 7919 is prime: the rows come in no order.
            let key = ((round * 1_000 + index) * 7_919 % 10_000).to_be_bytes();
            changes.push(put(key, index.to_be_bytes()));
            model.insert(key.to_vec(), index.to_be_bytes().to_vec());
        }
        commit(&store, changes);
    }
    assert_eq!(model.len(), 10_000);
    drop(store);
    let store = ground.open();
    let mut found = BTreeMap::new();
    let mut after: Option<Bytes> = None;
    loop {
        let page = store.scan(b"", after.as_deref(), 700).expect("scans");
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        found.extend(page.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
    }
    assert_eq!(found, model);
}

fn the_largest_values_come_back<G: Ground>() {
    let ground = G::fresh();
    let store = ground.open();
    let value = |index: u8| -> Vec<u8> {
        (0..crate::core::limits::VALUE_LEN).map(|at| (at / 3) as u8 ^ index).collect()
    };
    for index in 0..12u8 {
        commit(&store, vec![put([index], value(index)), put([index, 0], [])]);
    }
    drop(store);
    let store = ground.open();
    for index in 0..12u8 {
        assert!(get(&store, [index]) == Some(value(index)), "value {index} changed");
    }
    assert_eq!(store.scan(b"", None, 100).expect("scans").len(), 24);
}

/// One test for each rule and store.
macro_rules! conformance {
    ($($store:ident: $ground:ty),*; $rules:tt) => { $( conformance!(@one $store: $ground; $rules); )* };
    (@one $store:ident: $ground:ty; ($($rule:ident),* $(,)?)) => {
        mod $store {
            use super::*;
            $( #[test] fn $rule() { super::$rule::<$ground>(); } )*
        }
    };
}

macro_rules! rules {
    ($($store:ident: $ground:ty),*) => {
        conformance!($($store: $ground),*; (
            a_fresh_store_is_empty,
            scans_are_in_byte_order,
            case_21_prefix_is_not_erased,
            later_changes_of_a_batch_win,
            an_empty_value_is_a_value,
            after_and_limit_page_through,
            numbers_have_no_gaps_and_outlive_a_restart,
            a_batch_is_seen_whole_or_not_at_all,
            ten_thousand_rows,
            the_largest_values_come_back,
        ));
    };
}

rules!(memory: MemoryGround);
#[cfg(feature = "node")]
rules!(rocks: on_disk::RocksGround, directory: on_disk::DirectoryGround);
