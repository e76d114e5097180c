//! Founding a cluster: every file that its nodes and its first clients start from.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::config::{Config, ConfigFileError, Limits, NodeDir};
use super::entropy::{self, EntropyError};
use super::files::{self, FileError};
use crate::core::chain::{
    Chain, ConfigChange, Decided, ENTRY_FORMAT, Entry, Grant, Member, Rights, SignedEntry, Voters,
};
use crate::core::cluster::{ConfigError, Configuration};
use crate::core::hash::Hash;
use crate::core::identity::{ClusterId, Incarnation, MemberId, PublicKey, SecretKey};
use crate::core::limits;
use crate::core::signature::sign_one;
use crate::storage::directory::{Directory, OpenError, Settings};
use crate::storage::reserve::Room;

/// What a new cluster consists of.
#[derive(Debug, Clone)]
pub struct ClusterPlan {
    /// Its nodes, in the order of their folders: 1, 3 or more.
    pub nodes: Vec<NodePlan>,
    /// Whether the client's key is an administrator's too: for a cluster to play with.
    pub client_is_admin: bool,
    /// What the nodes' settings say of limits.
    pub limits: Limits,
}

/// One node of a new cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePlan {
    /// A name for people.
    pub name: String,
    /// Where it listens, and where others find it.
    pub address: SocketAddr,
    /// Where it stands; replicas spread over zones. May be empty.
    pub zone: String,
}

/// What was founded: what the command line prints and what a ticket holds.
#[derive(Debug, Clone)]
pub struct Founded {
    /// The entry that founded the cluster.
    pub genesis: Decided,
    /// Where its members are, in the order of the plan.
    pub addresses: Vec<(MemberId, Vec<SocketAddr>)>,
    /// The nodes' folders, in the order of the plan.
    pub nodes: Vec<NodeDir>,
    /// The administrator's key, in `admin.key`.
    pub admin: PublicKey,
    /// The client's key, in `client.key`.
    pub client: PublicKey,
}

/// A cluster was not founded, and its folder is not there.
#[derive(Debug, thiserror::Error)]
pub enum FoundError {
    /// The folder is there already.
    #[error("{0} exists: name another folder for the new cluster")]
    Exists(PathBuf),
    /// No cluster can be like this.
    #[error(transparent)]
    Plan(#[from] ConfigError),
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A node's settings cannot be written.
    #[error(transparent)]
    Config(#[from] ConfigFileError),
    /// A node's data directory cannot be made.
    #[error(transparent)]
    Data(#[from] OpenError),
    /// No randomness.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The operating system refused.
    #[error("cannot create {path}: {source}")]
    Io {
        /// The folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl ClusterPlan {
    /// `count` nodes on this machine, `node-1` and so on, at ports from `base_port` + 1; any free
    /// ports if it is 0.
    pub fn local(count: usize, base_port: u16) -> Self {
        let node = |n: usize| {
            let port = if base_port == 0 { 0 } else { base_port.saturating_add(n as u16) };
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            NodePlan { name: format!("node-{n}"), address, zone: String::new() }
        };
        // More than a cluster may have is refused when it is founded.
        let count = count.min(limits::MEMBERS + 1);
        ClusterPlan {
            nodes: (1..=count).map(node).collect(),
            client_is_admin: false,
            limits: Limits::default(),
        }
    }

    /// Founds the cluster in `dir`, which must not exist.
    pub fn found(&self, dir: &Path) -> Result<Founded, FoundError> {
        // Checked before anything is written.
        let drawn = self.draw()?;
        if let Some(parent) = dir.parent() {
            fs::create_dir_all(parent)
                .map_err(|source| FoundError::Io { path: parent.to_owned(), source })?;
        }
        fs::create_dir(dir).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => FoundError::Exists(dir.to_owned()),
            _ => FoundError::Io { path: dir.to_owned(), source },
        })?;
        self.write(dir, drawn).inspect_err(|_| {
            // Half a cluster helps nobody; all of it was made here.
            let _ = fs::remove_dir_all(dir);
        })
    }

    /// Draws keys and ids, and signs the first entry.
    fn draw(&self) -> Result<Drawn, FoundError> {
        let (admin, client) = (entropy::key()?, entropy::key()?);
        let mut keys = Vec::new();
        let mut members = Vec::new();
        for node in &self.nodes {
            let key = entropy::key()?;
            members.push(Member {
                id: MemberId(entropy::bytes()?),
                name: node.name.clone(),
                key: key.public(),
                incarnation: Incarnation(entropy::bytes()?),
                zone: node.zone.clone(),
            });
            keys.push(key);
        }
        // An even or a large electorate costs more votes and survives no more failures.
        let voting = [7, 5, 3, 1].into_iter().find(|size| *size <= members.len()).unwrap_or(0);
        let mut electorate: Vec<MemberId> = members.iter().take(voting).map(|member| member.id).collect();
        electorate.sort_unstable();
        let mut sorted = members.clone();
        sorted.sort_unstable_by_key(|member| member.id);
        let mut admins = vec![admin.public()];
        if self.client_is_admin {
            admins.push(client.public());
        }
        admins.sort_unstable();
        let voters = Voters {
            nonce: entropy::bytes()?,
            recovery: 0,
            members: sorted,
            electorate,
            replicas: limits::REPLICAS as u8,
            admins,
            grants: vec![Grant {
                author: Some(client.public()),
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
        let hash = entry.hash();
        let proof = sign_one(&admin, ClusterId(hash.0), hash);
        let genesis = Decided::genesis(SignedEntry { entry, admin: Some((admin.public(), proof)) });
        Configuration::found(genesis.clone())?;
        Ok(Drawn { admin, client, keys, members, genesis, secret: entropy::bytes()? })
    }

    fn write(&self, dir: &Path, drawn: Drawn) -> Result<Founded, FoundError> {
        files::save_key(&dir.join("admin.key"), &drawn.admin)?;
        files::save_key(&dir.join("client.key"), &drawn.client)?;
        files::save_cluster(&dir.join("cluster"), &drawn.genesis)?;
        let mut nodes = Vec::new();
        let mut addresses = Vec::new();
        for ((plan, member), (key, number)) in
            self.nodes.iter().zip(&drawn.members).zip(drawn.keys.iter().zip(1..))
        {
            let node = NodeDir::new(dir.join(format!("node-{number}")));
            fs::create_dir(node.path())
                .map_err(|source| FoundError::Io { path: node.path().to_owned(), source })?;
            files::save_key(&node.key(), key)?;
            files::save_cluster(&node.cluster(), &drawn.genesis)?;
            files::save_secret(&node.secret(), &drawn.secret)?;
            self.config(plan, member.id).save(&node.config())?;
            Directory::create(&node.data(), member.incarnation, &settings(&self.limits))?;
            nodes.push(node);
            addresses.push((member.id, vec![plan.address]));
        }
        Ok(Founded {
            genesis: drawn.genesis,
            addresses,
            nodes,
            admin: drawn.admin.public(),
            client: drawn.client.public(),
        })
    }

    fn config(&self, plan: &NodePlan, member: MemberId) -> Config {
        // A port that is chosen at the start is told at the start.
        let others = self.nodes.iter().filter(|node| node.name != plan.name && node.address.port() != 0);
        Config {
            member,
            name: plan.name.clone(),
            listen: plan.address,
            data: "data".into(),
            log: "info".to_owned(),
            limits: self.limits,
            peers: others.map(|node| (node.name.clone(), vec![node.address])).collect(),
        }
    }
}

/// How a node with these limits uses its data directory.
pub(super) fn settings(limits: &Limits) -> Settings {
    let mib = |count: u32| u64::from(count) << 20;
    let mut settings = Settings {
        room: Room { reserve: mib(limits.disk_reserve_mib), threshold: mib(limits.disk_free_mib) },
        ..Settings::default()
    };
    settings.tuning.block_cache = usize::try_from(mib(limits.cache_mib)).unwrap_or(usize::MAX);
    settings
}

/// What is secret or drawn, before it is written.
struct Drawn {
    admin: SecretKey,
    client: SecretKey,
    keys: Vec<SecretKey>,
    /// In the order of the plan.
    members: Vec<Member>,
    genesis: Decided,
    secret: [u8; 32],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(count: usize) -> ClusterPlan {
        let limits = Limits { disk_free_mib: 0, disk_reserve_mib: 0, ..Limits::default() };
        ClusterPlan { limits, ..ClusterPlan::local(count, 7400) }
    }

    #[test]
    fn what_is_founded_can_be_read_and_is_never_written_over() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("new/c");
        let founded = small(3).found(&dir).unwrap();
        let genesis = files::load_cluster(&dir.join("cluster")).unwrap();
        assert_eq!(genesis, founded.genesis);
        let config = Configuration::found(genesis).unwrap();
        assert_eq!(config.current().admins, [files::load_key(&dir.join("admin.key")).unwrap().public()]);
        assert!(config.policy().knows(&files::load_key(&dir.join("client.key")).unwrap().public()));
        let mut secrets = Vec::new();
        for (node, (id, _)) in founded.nodes.iter().zip(&founded.addresses) {
            let member = config.member(*id).unwrap();
            assert_eq!(files::load_key(&node.key()).unwrap().public(), member.key);
            let settings = Config::load(&node.config()).unwrap();
            assert_eq!((settings.member, settings.peers.len()), (*id, 2));
            let opened = Directory::open(&node.data(), &super::settings(&settings.limits)).unwrap();
            assert_eq!(opened.incarnation, Some(member.incarnation));
            assert!(!opened.amnesia.is_new_actor());
            secrets.push(fs::read(node.secret()).unwrap());
        }
        assert!(secrets.windows(2).all(|pair| pair[0] == pair[1] && pair[0].len() == 65));
        assert!(matches!(small(3).found(&dir), Err(FoundError::Exists(_))));
        assert!(files::load_cluster(&dir.join("cluster")).is_ok());
    }

    #[test]
    fn two_nodes_and_none_are_refused_with_the_reason() {
        let parent = tempfile::tempdir().unwrap();
        for count in [0, 2, 65] {
            let dir = parent.path().join("c");
            let error = small(count).found(&dir).unwrap_err();
            assert!(matches!(error, FoundError::Plan(_)), "{error}");
            assert!(count != 2 || error.to_string().contains("use 1 or 3"), "{error}");
            assert!(!dir.exists());
        }
    }

    #[test]
    fn an_electorate_is_odd_and_small() {
        for (count, voting) in [(1, 1), (3, 3), (4, 3), (6, 5), (9, 7)] {
            let drawn = small(count).draw().unwrap();
            let config = Configuration::found(drawn.genesis).unwrap();
            assert_eq!(config.current().electorate.len(), voting);
            assert_eq!(config.current().members.len(), count);
        }
    }
}
