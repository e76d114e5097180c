//! A store outside of the cluster, fenced by certificates: files in a directory that only the owner of
//! a resource may change. Everything is offline; `Store` is what you would take along.
//!
//! ```text
//! cargo run --release --no-default-features --example fenced_dir
//! ```
//!
//! The store pins the entry that founded the cluster. It keeps the highest term that it admitted in
//! a file, under a lock, and looks at it in the same critical section in which it changes anything. So
//! an owner that was deposed, and does not know it, is refused from the moment its successor came here.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tanist::core::authority::{Authority, Fenced, FencedMessage, Refusal, admit};
use tanist::core::certificate::{Certificate, Proven};
use tanist::core::identity::Signature;
use tanist::core::object::Key;
use tanist::core::write::Term;

/// A directory whose files only the owner of one resource may change.
pub(crate) struct Store {
    dir: PathBuf,
    /// Keeps one store's requests from being shown to another.
    name: String,
    resource: Key,
    authority: Authority,
}

/// A request of an owner: what to do, proof that it is the owner, and proof that it is the one asking.
pub(crate) struct Request<'a> {
    pub(crate) certificate: &'a Certificate,
    pub(crate) signature: Signature,
    pub(crate) file: &'a str,
    /// The version of the file that the owner read, 0 for none: the request is spent with it.
    pub(crate) version: u64,
    pub(crate) value: &'a [u8],
}

/// Why a request was refused. Nothing was changed but, perhaps, the highest term.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// The certificate proves nothing here.
    #[error(transparent)]
    Certificate(#[from] Refusal),
    /// Whoever asks does not hold the tenure's key.
    #[error("not signed by the owner that the certificate names")]
    Signature,
    /// A later owner was here before.
    #[error(transparent)]
    Over(#[from] Fenced),
    /// The file has another version than the one that was read.
    #[error("the file has version {0} by now")]
    Version(u64),
    /// Not a name of a file in this store.
    #[error("a file is named by 1 to 100 letters, digits, - and _")]
    Name,
    /// The disk.
    #[error(transparent)]
    Disk(#[from] io::Error),
}

impl Store {
    /// Opens a directory, which must exist.
    pub(crate) fn open(
        dir: &Path,
        name: &str,
        resource: &str,
        authority: Authority,
    ) -> Result<Store, Box<dyn Error>> {
        let (dir, resource) = (dir.to_owned(), Key::try_from(resource)?);
        Ok(Store { dir, name: name.to_owned(), resource, authority })
    }

    /// What the owner signs for a request.
    pub(crate) fn message(store: &str, file: &str, version: u64, value: &[u8]) -> Vec<u8> {
        let len = |part: &str| (part.len() as u64).to_be_bytes();
        let head =
            [b"fenced_dir put", &len(store)[..], store.as_bytes(), &len(file), file.as_bytes()].concat();
        [&head[..], &version.to_be_bytes(), value].concat()
    }

    /// Raises the term, so that earlier owners change nothing from now on. A new owner does this before
    /// it relies on what it reads. Nobody needs to sign: the term was truly chosen.
    pub(crate) fn seal(&self, certificate: &Certificate) -> Result<(), Refused> {
        let proven = self.authority.verify_for(certificate, &self.resource)?;
        let _lock = self.lock()?;
        self.admit(&proven)
    }

    /// Puts a file, and returns its new version.
    pub(crate) fn put(&self, request: &Request<'_>) -> Result<u64, Refused> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if request.file.is_empty() || request.file.len() > 100 || !request.file.chars().all(plain) {
            return Err(Refused::Name);
        }
        let proven = self.proven(request)?;
        let _lock = self.lock()?;
        self.admit(&proven)?;
        let (held, _) = self.read(request.file)?;
        if held != request.version {
            return Err(Refused::Version(held));
        }
        let next = held + 1;
        let content = [&next.to_be_bytes()[..], request.value].concat();
        self.replace(&format!("{}.file", request.file), &content)?;
        Ok(next)
    }

    /// A file's version and value; version 0 if there is none.
    pub(crate) fn read(&self, file: &str) -> io::Result<(u64, Vec<u8>)> {
        let content = match fs::read(self.dir.join(format!("{file}.file"))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((0, Vec::new())),
            content => content?,
        };
        let (version, value) = content.split_first_chunk::<8>().ok_or(io::ErrorKind::InvalidData)?;
        Ok((u64::from_be_bytes(*version), value.to_vec()))
    }

    /// Steps 1 and 2: the certificate is one of this resource, and its tenure's key signed the request.
    fn proven(&self, request: &Request<'_>) -> Result<Proven, Refused> {
        let proven = self.authority.verify_for(request.certificate, &self.resource)?;
        let message = Store::message(&self.name, request.file, request.version, request.value);
        if proven.signed(&message, &request.signature) { Ok(proven) } else { Err(Refused::Signature) }
    }

    /// Step 3, under the lock. The term is synced before anything is changed under it: if the power
    /// fails between the two, the earlier owner is over and nothing else happened.
    fn admit(&self, proven: &Proven) -> Result<(), Refused> {
        let highest = self.highest()?;
        let term = admit(highest, proven.term)?;
        if highest != Some(term) {
            let bytes = [&term.recovery.to_be_bytes()[..], &term.number.to_be_bytes()].concat();
            self.replace("highest-term", &bytes)?;
        }
        Ok(())
    }

    /// The highest term that was admitted. A file that is there and says nothing is an error, never "none".
    fn highest(&self) -> io::Result<Option<Term>> {
        let bytes = match fs::read(self.dir.join("highest-term")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => <[u8; 12]>::try_from(bytes?).map_err(|_| io::ErrorKind::InvalidData)?,
        };
        let [a, b, c, d, number @ ..] = bytes;
        Ok(Some(Term { recovery: u32::from_be_bytes([a, b, c, d]), number: u64::from_be_bytes(number) }))
    }

    /// Nobody else is in the critical section until the file is dropped. The lock's file is never renamed.
    fn lock(&self) -> io::Result<File> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(self.dir.join("lock"))?;
        file.lock()?;
        Ok(file)
    }

    /// Writes a file so that there is the old one or the new one, whatever happens.
    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let temporary = self.dir.join("temporary");
        let mut file = File::create(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, self.dir.join(name))?;
        File::open(&self.dir)?.sync_all()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("fenced_dir-{}", std::process::id()));
    fs::create_dir(&dir)?;
    let shown = run(&dir);
    fs::remove_dir_all(&dir)?;
    shown
}

/// Two owners, one after the other, and what the store says to them.
pub(crate) fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    let cluster = demo::Cluster::new()?;
    // In earnest: Authority::from_cluster_file(&fs::read_to_string("DIR/cluster")?)
    let authority = Authority::pin(cluster.voters())?;
    let store = Store::open(dir, "ledger-1", "billing", authority)?;
    let put = |owner: &demo::Owner, certificate: &Certificate, version: u64, value: &[u8]| {
        let message = Store::message("ledger-1", "balance", version, value);
        // Whoever is owner signs with the tenure's key, which never leaves its process.
        let signature = FencedMessage::new(&certificate.proof, &message).sign(&owner.key);
        store.put(&Request { certificate, signature, file: "balance", version, value })
    };

    let first = cluster.elect("billing", None)?;
    say("term 1 puts 100", &put(&first, &first.certificate, 0, b"100"));
    let second = cluster.elect("billing", Some(&first))?;
    say("term 1 does not know that it was replaced, and puts 90", &put(&first, &first.certificate, 1, b"90"));
    store.seal(&second.certificate)?;
    let (version, value) = store.read("balance")?;
    println!("term 2 seals the store, and reads {}", String::from_utf8_lossy(&value));
    let late = put(&first, &first.certificate, version, b"70");
    say("term 1 is late", &late);
    assert!(matches!(late, Err(Refused::Over(over)) if over.highest.number == 2));
    say("term 2 puts 80", &put(&second, &second.certificate, version, b"80"));

    let borrowed = put(&first, &second.certificate, 3, b"60");
    say("term 1 shows the certificate of term 2", &borrowed);
    assert!(matches!(borrowed, Err(Refused::Signature)));
    let elsewhere = cluster.elect("holidays", None)?;
    let foreign = put(&elsewhere, &elsewhere.certificate, 3, b"50");
    say("the owner of something else", &foreign);
    assert!(matches!(foreign, Err(Refused::Certificate(Refusal::Resource(_)))));
    let mut forged = second.certificate.clone();
    forged.proof.votes.truncate(1);
    let forged = put(&second, &forged, 3, b"40");
    say("a certificate with one vote", &forged);
    assert!(matches!(forged, Err(Refused::Certificate(Refusal::NotProven(_)))));
    let stale = put(&second, &second.certificate, 1, b"30");
    say("the owner, with what it read long ago", &stale);
    assert!(matches!(stale, Err(Refused::Version(3))));

    assert_eq!(store.read("balance")?, (3, b"80".to_vec()));
    println!("the balance is 80");
    Ok(())
}

fn say(what: &str, result: &Result<u64, Refused>) {
    match result {
        Ok(version) => println!("{what}: version {version}"),
        Err(refused) => println!("{what}: refused: {refused}"),
    }
}

/// A cluster of three voters in memory, so that the example needs none: it founds, elects and votes.
mod demo {
    use std::error::Error;

    use tanist::core::certificate::Certificate;
    use tanist::core::chain::{
        Ballot, Chain, ConfigChange, Decided, ENTRY_FORMAT, Entry, Member, SignedEntry, Voters,
    };
    use tanist::core::cluster::Configuration;
    use tanist::core::hash::Hash;
    use tanist::core::identity::{ClusterId, Incarnation, MemberId, SecretKey};
    use tanist::core::object::{Key, NamespaceId};
    use tanist::core::signature::sign_one;
    use tanist::core::tenure::{TENURE_FORMAT, Tenure, TenureProof, TenureVote};
    use tanist::core::version::SignedWrite;
    use tanist::core::write::{Body, Term, WRITE_FORMAT, Write};

    /// Keys of a program that is not an example are random.
    fn key(n: u8) -> SecretKey {
        SecretKey::from_seed(&[n; 32])
    }

    pub(super) struct Owner {
        pub(super) certificate: Certificate,
        /// The tenure's secret key.
        pub(super) key: SecretKey,
    }

    pub(super) struct Cluster(Configuration);

    impl Cluster {
        pub(super) fn new() -> Result<Cluster, Box<dyn Error>> {
            let member = |n: u8| Member {
                id: MemberId([n; 16]),
                name: format!("node-{n}"),
                key: key(n).public(),
                incarnation: Incarnation([n; 16]),
                zone: String::new(),
            };
            let admin = key(9);
            let voters = Voters {
                nonce: [7; 16],
                recovery: 0,
                members: (1..=3).map(member).collect(),
                electorate: (1..=3).map(|n| member(n).id).collect(),
                replicas: 3,
                admins: vec![admin.public()],
                grants: vec![],
            };
            let entry = Entry {
                format: ENTRY_FORMAT,
                chain: Chain::Voters,
                number: 1,
                previous: Hash([0; 32]),
                change: ConfigChange::Voters(voters),
            };
            let proof = sign_one(&admin, ClusterId(entry.hash().0), entry.hash());
            let genesis = Decided::genesis(SignedEntry { entry, admin: Some((admin.public(), proof)) });
            Ok(Cluster(Configuration::found(genesis)?))
        }

        pub(super) fn voters(&self) -> Vec<Decided> {
            self.0.entries(Chain::Voters).iter().map(|entry| Decided::clone(entry)).collect()
        }

        /// What a campaign comes to: the tenure after `before`, with the votes of two of three.
        pub(super) fn elect(&self, resource: &str, before: Option<&Owner>) -> Result<Owner, Box<dyn Error>> {
            let cluster = self.0.cluster();
            let before = before.map(|owner| &owner.certificate.proof);
            let number = before.map_or(1, |before| before.tenure.term.number + 1);
            let (candidate, secret) = (key(20), key(30 + u8::try_from(number)?));
            let term = Term { recovery: 0, number };
            let tenure = Tenure { format: TENURE_FORMAT, term, key: Some(secret.public()), lease_ms: 15_000 };
            let write = Write {
                format: WRITE_FORMAT,
                cluster,
                namespace: NamespaceId::resources(cluster),
                key: Key::try_from(resource)?,
                epoch: 1,
                generation: number,
                parents: before.map(|before| before.signed.id()).into_iter().collect(),
                body: Body::put(&tenure.encode()),
                author: candidate.public(),
                nonce: [1; 16],
                fence: None,
                wall_ms: 0,
            };
            let proof = sign_one(&candidate, cluster, Hash(write.id().0));
            let signed = SignedWrite::new(write, proof, None);
            let members = &self.0.current().members;
            let ballot = Ballot { config_epoch: 1, counter: number, actor: members[0].actor(cluster) };
            let vote = |(member, n): (&Member, u8)| {
                let actor = member.actor(cluster);
                let config = self.0.voters_hash();
                let vote = TenureVote { cluster, config, ballot, tenure: signed.id(), actor };
                (actor, vote.sign(&key(n)))
            };
            let mut votes: Vec<_> = members.iter().zip(1..).skip(1).map(vote).collect();
            votes.sort_by_key(|(actor, _)| *actor);
            let proof = TenureProof { signed, tenure, ballot, votes };
            Ok(Owner { certificate: Certificate::new(&self.0, proof), key: secret })
        }
    }
}
