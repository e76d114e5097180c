//! The driver on a disk in memory: what leaves when the disk does not do what it should.

use std::sync::Mutex;
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::*;
use crate::core::chain::{Chain, ConfigChange, Entry, Mode, NamespacePolicy, SignedEntry};
use crate::core::chain::{ENTRY_FORMAT, Grant, Member, Rights, Voters};
use crate::core::hash::Hash;
use crate::core::identity::{ClusterId, SecretKey};
use crate::core::object::{Key, NamespaceId};
use crate::core::signature::sign_one;
use crate::core::verified::RootCache;
use crate::core::version::SignedWrite;
use crate::core::write::{Body, WRITE_FORMAT, Write};
use crate::engine::arrival;
use crate::engine::store::View;
use crate::node::disk;
use crate::storage::memory::Memory;
use crate::storage::{CommitError, Store};
use crate::wire::client::{AskStatus, Failure, OnConflict, Propose, Proposed, Read, Submit, Submitted};
use crate::wire::registry::Request;

const SOON: Duration = Duration::from_secs(20);

/// What fails besides batches.
#[derive(Debug, Clone)]
enum Fault {
    Read(StoreError),
    Mark,
}

/// A disk in memory, as a node's data.
struct Data(Memory, Arc<Mutex<Option<Fault>>>);

impl Data {
    fn check_read(&self) -> Result<(), StoreError> {
        match &*self.1.lock().unwrap() {
            Some(Fault::Read(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

impl View for Data {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.check_read()?;
        self.0.get(key)
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.check_read()?;
        self.0.scan(prefix, after, limit)
    }
}

impl Store for Data {
    fn commit(&self, batch: &Batch) -> Result<(), CommitError> {
        self.0.commit(batch)
    }

    fn last_batch(&self) -> u64 {
        self.0.last_batch()
    }
}

impl disk::Data for Data {
    fn renew(&self, _: Incarnation) -> Result<(), StoreError> {
        Ok(())
    }

    fn sync_mark(&self) -> Result<(), StoreError> {
        match &*self.1.lock().unwrap() {
            Some(Fault::Mark) => Err(StoreError::Failed("injected".to_owned())),
            _ => Ok(()),
        }
    }

    fn is_short(&self) -> Result<bool, StoreError> {
        Ok(false)
    }
}

/// Keeps the configuration.
struct Nobody(Arc<Mutex<Option<Arc<Configuration>>>>);

impl Outlets for Nobody {
    fn send(&self, _: MemberId, _: Frame) {}

    fn configured(&self, config: Arc<Configuration>) {
        *self.0.lock().unwrap() = Some(config);
    }
}

/// A cluster of one node, driven.
struct Driven {
    disk: Memory,
    fault: Arc<Mutex<Option<Fault>>>,
    mailbox: Arc<Mailbox>,
    config: Arc<Mutex<Option<Arc<Configuration>>>>,
    driver: JoinHandle<Result<(), EngineError>>,
    admin: SecretKey,
}

impl Driven {
    fn start() -> Self {
        let (admin, key) = (SecretKey::from_seed(&[1; 32]), SecretKey::from_seed(&[2; 32]));
        let (member, incarnation) = (MemberId([3; 16]), Incarnation([4; 16]));
        let me =
            Member { id: member, name: "a".to_owned(), key: key.public(), incarnation, zone: String::new() };
        let voters = Voters {
            nonce: [5; 16],
            recovery: 0,
            members: vec![me],
            electorate: vec![member],
            replicas: 3,
            admins: vec![admin.public()],
            grants: vec![Grant {
                author: Some(admin.public()),
                namespace: None,
                prefix: Vec::new(),
                rights: Rights::ALL,
            }],
        };
        let entry = Entry {
            format: ENTRY_FORMAT,
            chain: Chain::Voters,
            number: 1,
            previous: Hash([0; 32]),
            change: ConfigChange::Voters(voters),
        };
        let genesis = Decided::genesis(signed(&admin, ClusterId(entry.hash().0), entry));
        let identity = Identity { member, incarnation, key, software: "test".to_owned(), first_operation: 0 };
        let origin = Origin { identity, genesis, timing: Timing::default() };
        let disk = Memory::new();
        let fault = Arc::default();
        let data: Arc<dyn disk::Data> = Arc::new(Data(disk.clone(), Arc::clone(&fault)));
        let (mailbox, config) = (Arc::new(Mailbox::default()), Arc::default());
        let clock = Clock::start();
        let machine = origin.machine(0, &*data).unwrap();
        let (hands, _) = disk::start(&data, &mailbox).unwrap();
        let outlets = Box::new(Nobody(Arc::clone(&config)));
        let driver = Driver::new(machine, origin, data, hands, Arc::clone(&mailbox), outlets, clock);
        let driver = thread::spawn(move || driver.run());
        Driven { disk, fault, mailbox, config, driver, admin }
    }

    fn config(&self) -> Arc<Configuration> {
        let until = Clock::start();
        loop {
            if let Some(config) = self.config.lock().unwrap().clone() {
                return config;
            }
            assert!(until.now() < 20_000, "no configuration");
            thread::yield_now();
        }
    }

    /// Asks, and gives what the answer will come out of.
    fn ask(&self, request: impl Into<Request>) -> oneshot::Receiver<Reply> {
        let frame = request.into().encode();
        let len = frame.encoded_len();
        let request = arrival::request(frame, self.admin.public(), &self.config(), &RootCache::default());
        let room = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let (reply, answer) = oneshot::channel();
        self.mailbox.post([Letter::Request { request: Box::new(request.unwrap()), len, reply, room }]);
        answer
    }

    fn answer(&self, request: impl Into<Request>) -> Reply {
        answer(self.ask(request)).expect("an answer")
    }

    fn namespace(&self) -> NamespaceId {
        let config = self.config();
        let policy =
            NamespacePolicy { name: "carts".parse().unwrap(), mode: Mode::Siblings, write_quorum: None };
        let entry = Entry {
            format: ENTRY_FORMAT,
            chain: Chain::Policy,
            number: 1,
            previous: config.head(Chain::Policy),
            change: ConfigChange::CreateNamespace(policy),
        };
        let id = NamespaceId(entry.hash().0);
        let signed = signed(&self.admin, config.cluster(), entry);
        assert_eq!(self.answer(Propose { signed }), Reply::Proposed(Proposed::Chosen));
        id
    }

    fn write(&self, namespace: NamespaceId, key: &str) -> Submit {
        let cluster = self.config().cluster();
        let write = Write {
            format: WRITE_FORMAT,
            cluster,
            namespace,
            key: Key::try_from(key).unwrap(),
            epoch: 1,
            generation: 1,
            parents: Vec::new(),
            body: Body::put(b"value"),
            author: self.admin.public(),
            nonce: [6; 16],
            fence: None,
            wall_ms: 0,
        };
        let proof = sign_one(&self.admin, cluster, write.id().into());
        Submit {
            signed: Arc::new(SignedWrite::new(write, proof, None)),
            on_conflict: OnConflict::Refuse,
            presented: Vec::new(),
            tenure: None,
            value: [Bytes::from_static(b"value")].into_iter().collect(),
        }
    }

    fn end(self) -> Result<(), EngineError> {
        self.driver.join().expect("no panic")
    }
}

fn signed(admin: &SecretKey, cluster: ClusterId, entry: Entry) -> SignedEntry {
    let proof = sign_one(admin, cluster, entry.hash());
    SignedEntry { entry, admin: Some((admin.public(), proof)) }
}

/// The answer, or `None` if there will be none.
fn answer(receiver: oneshot::Receiver<Reply>) -> Option<Reply> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(SOON, receiver).await.expect("no hang").ok() })
}

fn is_applied(reply: &Reply) -> bool {
    matches!(reply, Reply::Submitted(Submitted::Applied { .. }))
}

#[test]
fn case_31_nothing_leaves_after_a_failed_sync_and_the_engine_ends() {
    for fail in [Memory::fail_next_sync, Memory::fail_next_write] {
        let driven = Driven::start();
        let namespace = driven.namespace();
        assert!(is_applied(&driven.answer(driven.write(namespace, "durable"))));
        fail(&driven.disk);
        let lost = driven.ask(driven.write(namespace, "lost"));
        assert_eq!(answer(lost), None, "neither acknowledged nor refused: unknown");
        let after = [driven.ask(driven.write(namespace, "lost")), driven.ask(AskStatus {})];
        let error = driven.end().unwrap_err();
        assert!(matches!(error, EngineError::Failed(_)), "{error}");
        assert!(after.into_iter().all(|after| poll(after).is_err()), "nothing is answered any more");
    }
}

#[test]
fn a_read_that_fails_is_no_answer_and_ends_the_engine() {
    for error in [StoreError::Failed("injected".to_owned()), StoreError::Damaged("injected".to_owned())] {
        let driven = Driven::start();
        let namespace = driven.namespace();
        assert!(is_applied(&driven.answer(driven.write(namespace, "k"))));
        *driven.fault.lock().unwrap() = Some(Fault::Read(error));
        let key = Key::try_from("k").unwrap();
        let read = driven.ask(Read { namespace, key, local: true, history: false });
        assert_eq!(answer(read), None, "neither absent nor an older one");
        let error = driven.end().unwrap_err();
        assert!(matches!(error, EngineError::Store(_)), "{error}");
        assert!(error.to_string().contains("move `data`"), "{error}");
    }
}

#[test]
fn a_mark_that_cannot_be_synced_ends_the_engine() {
    let driven = Driven::start();
    let namespace = driven.namespace();
    *driven.fault.lock().unwrap() = Some(Fault::Mark);
    // Its batch is synced, so this is true.
    assert!(is_applied(&driven.answer(driven.write(namespace, "k"))));
    let error = driven.end().unwrap_err();
    assert!(matches!(error, EngineError::Failed(_)), "{error}");
}

#[test]
fn case_33_a_full_disk_refuses_writes_serves_reads_and_goes_on_when_there_is_room() {
    let driven = Driven::start();
    let namespace = driven.namespace();
    driven.disk.disk_full(true);
    let caught = driven.ask(driven.write(namespace, "caught"));
    // The batch that met the full disk waits; what comes after it is refused at once.
    let until = Clock::start();
    loop {
        match driven.ask(driven.write(namespace, "refused")) {
            receiver if until.now() < 10_000 => {
                if let Ok(reply) = poll(receiver) {
                    assert_eq!(reply, Reply::Failure(Failure::DiskFull));
                    break;
                }
            }
            _ => panic!("writes are still taken"),
        }
    }
    assert!(matches!(driven.answer(AskStatus {}), Reply::Status(_)), "reads go on");
    driven.disk.disk_full(false);
    assert!(is_applied(&answer(caught).expect("an answer")), "the batch that waited is written after all");
    assert!(is_applied(&driven.answer(driven.write(namespace, "after"))));
    driven.mailbox.signal(Signal::Stop);
    driven.end().unwrap();
}

#[test]
fn stopping_steps_and_syncs_what_was_waiting_and_answers_it() {
    let driven = Driven::start();
    let namespace = driven.namespace();
    let writes: Vec<_> = (0..50).map(|n| driven.write(namespace, &format!("k{n}"))).collect();
    let waiting: Vec<_> = writes.into_iter().map(|write| driven.ask(write)).collect();
    driven.mailbox.signal(Signal::Stop);
    driven.end().unwrap();
    let answered = waiting.into_iter().filter_map(answer).filter(is_applied).count();
    assert_eq!(answered, 50);
}

/// What came within a moment.
fn poll(receiver: oneshot::Receiver<Reply>) -> Result<Reply, ()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let moment = Duration::from_millis(50);
    runtime.block_on(async { tokio::time::timeout(moment, receiver).await.map_err(drop)?.map_err(drop) })
}
