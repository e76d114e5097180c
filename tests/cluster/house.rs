//! What the tests of clusters share: nodes that come and go, and a client that speaks the bare protocol.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tanist::core::chain::{Chain, ConfigChange, ENTRY_FORMAT, Entry, Mode, NamespacePolicy, SignedEntry};
use tanist::core::cluster::Configuration;
use tanist::core::hash::Hash;
use tanist::core::identity::SecretKey;
use tanist::core::object::{Key, NamespaceId};
use tanist::core::signature::sign_one;
use tanist::core::version::SignedWrite;
use tanist::core::write::{Body, WRITE_FORMAT, Write, WriteId};
use tanist::node::config::Limits;
use tanist::node::{ClusterPlan, Founded, Handle, Node, NodeError, files};
use tanist::transport::{Connection, Endpoint};
use tanist::wire::client::{
    AskConfig, AskStatus, OnConflict, Propose, Proposed, Read, Status, Submit, Submitted,
};
use tanist::wire::registry::{Reply, Request};
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Far longer than anything here takes, so that a hang is a failure.
const SOON: Duration = Duration::from_secs(30);

/// A cluster of nodes 1, 2 and so on, and a client of it.
pub(crate) struct Cluster {
    _dir: tempfile::TempDir,
    pub(crate) founded: Founded,
    nodes: Vec<Option<Running>>,
    pub(crate) admin: SecretKey,
    pub(crate) author: SecretKey,
    endpoint: Endpoint,
    connections: Mutex<Vec<Option<Connection>>>,
}

pub(crate) struct Running {
    pub(crate) handle: Handle,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), NodeError>>,
}

impl Running {
    /// Asks it to stop, and waits until it has.
    pub(crate) async fn stop(self) -> Result<(), NodeError> {
        self.stop.send(()).expect("it runs");
        soon(self.task).await.expect("it does not panic")
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(self) -> Result<(), NodeError> {
        soon(self.task).await.expect("it does not panic")
    }
}

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.expect("it should not take so long")
}

/// Asks again until the answer is `Some`.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(mut ask: impl FnMut() -> F) -> T {
    soon(async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

/// Limits for disks of any size.
pub(crate) fn limits() -> Limits {
    Limits { disk_free_mib: 0, disk_reserve_mib: 0, checkers: 2, ..Limits::default() }
}

/// A node that runs from a folder, at a free port.
pub(crate) async fn run(dir: &std::path::Path) -> Result<Running, NodeError> {
    let node = Node::builder(dir).listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).open().await?;
    let handle = node.handle();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(node.run(async {
        // A handle that is dropped unasked asks for nothing.
        if stopped.await.is_err() {
            std::future::pending::<()>().await;
        }
    }));
    Ok(Running { handle, stop, task })
}

impl Cluster {
    /// Three nodes that run and know each other.
    pub(crate) async fn three() -> Self {
        Cluster::with(limits()).await
    }

    pub(crate) async fn with(limits: Limits) -> Self {
        let mut cluster = Cluster::founded(limits);
        for n in 1..=3 {
            cluster.start(n).await;
        }
        for n in 1..=3 {
            cluster.counts(n).await;
        }
        cluster
    }

    /// Three nodes that do not run yet.
    pub(crate) fn founded(limits: Limits) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().join("c");
        let founded = ClusterPlan { limits, ..ClusterPlan::local(3, 0) }.found(&home).expect("founds");
        let author = files::load_key(&home.join("client.key")).expect("a key");
        let endpoint = Endpoint::client(&author).expect("a socket");
        Cluster {
            founded,
            nodes: (0..3).map(|_| None).collect(),
            admin: files::load_key(&home.join("admin.key")).expect("a key"),
            author,
            endpoint,
            connections: Mutex::new(vec![None, None, None]),
            _dir: dir,
        }
    }

    /// Starts node `n`, and tells everybody where everybody is.
    pub(crate) async fn start(&mut self, n: usize) {
        self.start_alone(n).await;
        self.introduce();
    }

    /// Starts node `n`, and tells nobody.
    pub(crate) async fn start_alone(&mut self, n: usize) {
        let running = run(self.founded.nodes[n - 1].path()).await.expect("starts");
        self.nodes[n - 1] = Some(running);
        self.connections.lock().await[n - 1] = None;
    }

    /// Tells everybody where everybody is.
    pub(crate) fn introduce(&self) {
        let handles: Vec<&Handle> = self.nodes.iter().flatten().map(|node| &node.handle).collect();
        for a in &handles {
            for b in handles.iter().filter(|b| b.member() != a.member()) {
                a.find(b.member(), vec![b.address()]);
            }
        }
    }

    /// Takes node `n` out, running.
    pub(crate) fn take(&mut self, n: usize) -> Running {
        self.nodes[n - 1].take().expect("it runs")
    }

    pub(crate) fn node(&self, n: usize) -> &Running {
        self.nodes[n - 1].as_ref().expect("it runs")
    }

    /// Ends node `n` without asking it.
    pub(crate) async fn kill(&mut self, n: usize) {
        let Running { task, .. } = self.take(n);
        task.abort();
        assert!(soon(task).await.is_err_and(|error| error.is_cancelled()), "it was running");
    }

    /// Waits until node `n` counts, and is connected to all others that run.
    pub(crate) async fn counts(&self, n: usize) {
        let others = self.nodes.iter().flatten().count() - 1;
        eventually(async || {
            let status = self.status(n).await;
            let up = status.peers.iter().filter(|(_, up)| *up).count();
            (status.counts.is_ok() && up >= others).then_some(())
        })
        .await;
    }

    /// A connection to node `n`.
    pub(crate) async fn connection(&self, n: usize) -> Connection {
        let mut connections = self.connections.lock().await;
        if let Some(open) = connections[n - 1].as_ref().filter(|c| c.close_reason().is_none()) {
            return open.clone();
        }
        let handle = &self.node(n).handle;
        let config = self.config_of(n);
        let key = config.member(handle.member()).expect("a member").key;
        let connection = soon(self.endpoint.dial(handle.address(), key)).await.expect("connects");
        connections[n - 1] = Some(connection.clone());
        connection
    }

    /// What node `n` answers.
    pub(crate) async fn ask(&self, n: usize, request: impl Into<Request>) -> Reply {
        self.try_ask(n, request).await.expect("an answer")
    }

    pub(crate) async fn try_ask(
        &self,
        n: usize,
        request: impl Into<Request>,
    ) -> Result<Reply, tanist::transport::ConnectionError> {
        let connection = self.connection(n).await;
        let frame = soon(connection.request(request.into().encode())).await?;
        Ok(Reply::decode(frame).expect("a reply"))
    }

    pub(crate) async fn status(&self, n: usize) -> Status {
        match self.ask(n, AskStatus {}).await {
            Reply::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    /// A counter in the status of node `n`.
    pub(crate) async fn counter(&self, n: usize, name: &str) -> u64 {
        let status = self.status(n).await;
        let found = status.counters.iter().find(|(named, _)| named == name);
        found.unwrap_or_else(|| panic!("no {name} in {:?}", status.counters)).1
    }

    fn config_of(&self, n: usize) -> Arc<Configuration> {
        self.node(n).handle.configuration().borrow().clone()
    }

    /// Creates a namespace through node `n`, and waits until all nodes that run know it.
    pub(crate) async fn namespace(&self, n: usize, name: &str) -> NamespaceId {
        self.namespace_in(n, name, Mode::Siblings).await
    }

    /// As [`namespace`](Self::namespace), in a mode.
    pub(crate) async fn namespace_in(&self, n: usize, name: &str, mode: Mode) -> NamespaceId {
        let policy = NamespacePolicy { name: name.parse().expect("a name"), mode, write_quorum: None };
        let config = self.config_of(n);
        let entry = Entry {
            format: ENTRY_FORMAT,
            chain: Chain::Policy,
            number: config.length(Chain::Policy) + 1,
            previous: config.head(Chain::Policy),
            change: ConfigChange::CreateNamespace(policy),
        };
        let id = NamespaceId(entry.hash().0);
        let proof = sign_one(&self.admin, config.cluster(), entry.hash());
        let signed = SignedEntry { entry, admin: Some((self.admin.public(), proof)) };
        assert_eq!(self.ask(n, Propose { signed }).await, Reply::Proposed(Proposed::Chosen));
        for node in self.nodes.iter().flatten() {
            let mut config = node.handle.configuration();
            let known = config.wait_for(|config| config.policy().namespace_by_id(id).is_some());
            soon(known).await.expect("it runs");
        }
        match self.ask(n, AskConfig { have: [1, 0, 0] }).await {
            Reply::Config(config) => assert!(config.lengths[1] > 0),
            other => panic!("{other:?}"),
        }
        id
    }

    /// A write of `value`, as its author signs it.
    pub(crate) fn write(
        &self,
        namespace: NamespaceId,
        key: &str,
        value: &[u8],
        parents: &[(u64, WriteId)],
        on_conflict: OnConflict,
    ) -> Submit {
        let cluster = Configuration::found(self.founded.genesis.clone()).expect("a cluster").cluster();
        let mut ids: Vec<WriteId> = parents.iter().map(|(_, id)| *id).collect();
        ids.sort();
        let write = Write {
            format: WRITE_FORMAT,
            cluster,
            namespace,
            key: Key::try_from(key).expect("a key"),
            epoch: 1,
            generation: 1 + parents.iter().map(|(generation, _)| *generation).max().unwrap_or(0),
            parents: ids,
            body: Body::put(value),
            author: self.author.public(),
            nonce: Hash::of_value(value).0[..16].try_into().expect("16 bytes"),
            fence: None,
            wall_ms: 0,
        };
        let proof = sign_one(&self.author, cluster, write.id().into());
        Submit {
            signed: Arc::new(SignedWrite::new(write, proof, None)),
            on_conflict,
            presented: Vec::new(),
            tenure: None,
            value: [Bytes::copy_from_slice(value)].into_iter().collect(),
        }
    }

    /// Creates a key through node `n`.
    pub(crate) async fn create(
        &self,
        n: usize,
        namespace: NamespaceId,
        key: &str,
        value: &[u8],
    ) -> (u64, WriteId) {
        let write = self.write(namespace, key, value, &[], OnConflict::Refuse);
        applied(self.ask(n, write.clone()).await);
        (1, write.signed.id())
    }

    /// The live versions of a key that node `n` answers, with their values.
    pub(crate) async fn read(
        &self,
        n: usize,
        namespace: NamespaceId,
        key: &str,
    ) -> Vec<((u64, WriteId), Bytes)> {
        let key = Key::try_from(key).expect("a key");
        match self.ask(n, Read { namespace, key, local: false, history: false }).await {
            Reply::Versions(versions) => {
                assert!(versions.versions.iter().all(|listed| listed.live && listed.inline));
                let ids = versions.versions.iter().map(|l| (l.version.write().generation, l.version.id()));
                ids.zip(versions.values.into_vec()).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The siblings that an applied write met.
#[track_caller]
pub(crate) fn applied(reply: Reply) -> Vec<WriteId> {
    match reply {
        Reply::Submitted(Submitted::Applied { siblings, .. }) => siblings,
        other => panic!("not applied: {other:?}"),
    }
}
