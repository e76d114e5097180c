//! What fences writes and reads: a tenure's proof and its secret key.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use super::client::Client;
use crate::core::identity::{PublicKey, SecretKey, Signature};
use crate::core::object::{Key, NamespaceId};
use crate::core::tenure::{Seal, TenureProof, sign_fence};
use crate::core::write::{Fence, Term, WriteId};
use crate::core::{armor, codec};

/// The first line of a fence file.
const TITLE: &str = "tanist-fence-1";

/// A file is not a fence.
#[derive(Debug, thiserror::Error)]
pub enum FenceError {
    /// It cannot be read.
    #[error("cannot be read: {0}; `tanist elect RESOURCE --fence FILE` keeps one while it is the owner")]
    Read(#[from] io::Error),
    /// Not the text of a fence.
    #[error("not a fence: {0}; `tanist elect RESOURCE --fence FILE` makes one")]
    NotAFence(#[from] armor::NotArmored),
    /// It begins well, and the rest is not a tenure's proof with its key.
    #[error("the fence is damaged: copy it again, or be elected anew")]
    Damaged,
}

/// The right to act as owner at one term: the tenure's proof, and the key that signs for it. Cheap to
/// clone. Whoever has it can write as the owner until a higher term is chosen: keep it secret.
#[derive(Clone)]
pub struct FenceKey {
    proof: Arc<TenureProof>,
    key: SecretKey,
}

impl FenceKey {
    /// Puts a proof and its tenure's key together; `None` if the key is another one.
    pub fn new(proof: Arc<TenureProof>, key: SecretKey) -> Option<Self> {
        (proof.tenure.key == Some(key.public())).then_some(FenceKey { proof, key })
    }

    /// As text, for a file that nobody else can read: it holds the secret.
    pub fn to_text(&self) -> String {
        armor::write(TITLE, &codec::encode(&(&*self.proof, self.key.seed())))
    }

    /// What [`to_text`](Self::to_text) wrote.
    pub fn from_text(text: &str) -> Result<Self, FenceError> {
        let bytes = armor::read(TITLE, text)?;
        let (proof, seed): (TenureProof, [u8; 32]) =
            codec::decode(&bytes).map_err(|_| FenceError::Damaged)?;
        FenceKey::new(Arc::new(proof), SecretKey::from_seed(&seed)).ok_or(FenceError::Damaged)
    }

    /// Reads the file at `path`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, FenceError> {
        Self::from_text(&fs::read_to_string(path)?)
    }

    /// Puts the fence in the file at `path`, whole or not at all, for its owner's eyes only (mode 0600, whatever
    /// was there before).
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        file.write_all(self.to_text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    /// What is owned.
    pub fn resource(&self) -> &Key {
        &self.proof.signed.write().key
    }

    /// The fencing token.
    pub fn term(&self) -> Term {
        self.proof.tenure.term
    }

    /// The proof of the tenure.
    pub fn proof(&self) -> &Arc<TenureProof> {
        &self.proof
    }

    /// The public half of the tenure's key.
    pub fn public(&self) -> PublicKey {
        self.key.public()
    }

    pub(super) fn secret(&self) -> &SecretKey {
        &self.key
    }

    /// What a fenced write names.
    pub(super) fn fence(&self) -> Fence {
        Fence { resource: self.resource().clone(), term: self.term(), tenure: self.proof.signed.id() }
    }

    /// The tenure key's signature under a fenced write.
    pub(super) fn sign(&self, write: WriteId) -> Signature {
        sign_fence(&self.key, self.proof.signed.write().cluster, write)
    }

    /// A signed seal of a key.
    pub(super) fn seal(&self, namespace: NamespaceId, key: Key) -> (Seal, Signature) {
        let seal = Seal { cluster: self.proof.signed.write().cluster, namespace, key, fence: self.fence() };
        let signature = seal.sign(&self.key);
        (seal, signature)
    }
}

impl AsRef<FenceKey> for FenceKey {
    fn as_ref(&self) -> &FenceKey {
        self
    }
}

impl fmt::Debug for FenceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceKey").field("resource", self.resource()).field("term", &self.term()).finish()
    }
}

impl Client {
    /// Whether nodes were sent the proof of this tenure already.
    pub(super) fn has_presented(&self, proof: &TenureProof) -> bool {
        let presented = self.shared.presented.lock().unwrap_or_else(PoisonError::into_inner);
        presented.contains(&proof.signed.id())
    }

    /// Remembers that nodes were sent the proof of this tenure.
    pub(super) fn note_presented(&self, proof: &TenureProof) {
        /// More tenures than anybody holds at a time.
        const REMEMBERED: usize = 1024;
        let mut presented = self.shared.presented.lock().unwrap_or_else(PoisonError::into_inner);
        if presented.len() >= REMEMBERED {
            presented.clear();
        }
        presented.insert(proof.signed.id());
    }
}
