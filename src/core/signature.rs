//! Signatures over batches, and the contexts that keep signed messages apart.
//!
//! Signing costs about as much as hashing 25 KB, so one signature covers many items: it signs the
//! root of a BLAKE3 Merkle tree over the items' typed hashes, and each item carries the path from
//! its leaf to the root. A batch of one has an empty path.
//!
//! Every signed message begins with a context that ends in a zero byte, and none is a prefix of
//! another. TLS 1.3 signs messages that begin with 64 spaces, so a key that serves both as an
//! identity in TLS and as an author never signs the same bytes for two purposes.

use serde::{Deserialize, Serialize};

use super::hash::{Context, Hash};
use super::identity::{ClusterId, PublicKey, SecretKey, Signature};
use super::limits;

/// The start of what a batch signature signs.
const BATCH: &[u8] = b"tanist v1 batch signature\0";
/// The start of what a vote's signature signs.
pub(crate) const VOTE: &[u8] = b"tanist v1 vote\0";
/// The start of what a vote for a tenure signs.
pub(crate) const TENURE_VOTE: &[u8] = b"tanist v1 tenure vote\0";
/// The start of what a tenure key signs to stay owner.
pub(crate) const RENEWAL: &[u8] = b"tanist v1 renewal\0";
/// The start of what a tenure key signs under a fenced write.
pub(crate) const FENCE: &[u8] = b"tanist v1 fence\0";
/// The start of what a tenure key signs to seal a key.
pub(crate) const SEAL: &[u8] = b"tanist v1 seal\0";
/// The start of what a tenure key signs for a store outside that is fenced by certificates.
pub(crate) const FENCED_MESSAGE: &[u8] = b"tanist v1 fenced message\0";

/// A signature over a batch, and one item's path to its root.
///
/// Equality of items must not look at this: one item can have several valid proofs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Over the batch's context, cluster, count and root.
    pub signature: Signature,
    /// How many items the batch has.
    pub count: u32,
    /// Which of them this is, from 0.
    pub index: u32,
    /// The sibling hashes from the leaf upwards. Its length follows from `index` and `count`.
    pub path: Vec<Hash>,
}

impl Proof {
    /// The root that this path leads to from `leaf`, or `None` if index, count and path do not fit.
    pub fn root(&self, leaf: Hash) -> Option<Hash> {
        if self.index >= self.count || self.count as usize > limits::BATCH_ITEMS {
            return None;
        }
        let (mut node, mut index, mut count) = (leaf, self.index, self.count);
        let mut path = self.path.iter();
        while count > 1 {
            if index % 2 == 1 {
                node = inner(path.next()?, &node);
            } else if index + 1 < count {
                node = inner(&node, path.next()?);
            }
            index /= 2;
            count = count.div_ceil(2);
        }
        path.next().is_none().then_some(node)
    }

    /// Whether `key` signed a batch of `cluster` that holds `leaf`.
    pub fn verifies(&self, key: &PublicKey, cluster: ClusterId, leaf: Hash) -> bool {
        self.root(leaf).is_some_and(|root| key.verifies(&self.message(cluster, root), &self.signature))
    }

    /// The bytes that were signed.
    pub fn message(&self, cluster: ClusterId, root: Hash) -> Vec<u8> {
        message(cluster, self.count, root)
    }
}

/// Signs all `leaves` at once; the proofs come in the same order.
///
/// `leaves` are typed hashes of items that the signer built itself, at most
/// [`limits::BATCH_ITEMS`]; none, if there are more.
pub fn sign_batch(key: &SecretKey, cluster: ClusterId, leaves: &[Hash]) -> Vec<Proof> {
    if leaves.is_empty() || leaves.len() > limits::BATCH_ITEMS {
        return Vec::new();
    }
    let count = leaves.len() as u32;
    let mut paths = vec![Vec::new(); leaves.len()];
    let mut level = leaves.to_vec();
    let mut height = 0;
    while level.len() > 1 {
        for (item, path) in paths.iter_mut().enumerate() {
            if let Some(sibling) = level.get((item >> height) ^ 1) {
                path.push(*sibling);
            }
        }
        level = level
            .chunks(2)
            .map(|pair| match pair {
                [left, right] => inner(left, right),
                odd => odd[0],
            })
            .collect();
        height += 1;
    }
    let signature = key.sign(&message(cluster, count, level[0]));
    (0..count).zip(paths).map(|(index, path)| Proof { signature, count, index, path }).collect()
}

/// Signs a batch of one.
pub fn sign_one(key: &SecretKey, cluster: ClusterId, leaf: Hash) -> Proof {
    Proof { signature: key.sign(&message(cluster, 1, leaf)), count: 1, index: 0, path: Vec::new() }
}

fn message(cluster: ClusterId, count: u32, root: Hash) -> Vec<u8> {
    [BATCH, &cluster.0, &count.to_be_bytes(), &root.0].concat()
}

fn inner(left: &Hash, right: &Hash) -> Hash {
    Hash::of(Context::Inner, &(left, right))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(count: usize) -> Vec<Hash> {
        (0..count).map(|n| Hash::of(Context::Stamp, &(n as u64))).collect()
    }

    #[test]
    fn every_item_of_every_batch_size_verifies_and_no_other() {
        let key = SecretKey::from_seed(&[1; 32]);
        let cluster = ClusterId([9; 32]);
        for count in (1..=17).chain([31, 32, 33]) {
            let leaves = leaves(count);
            let proofs = sign_batch(&key, cluster, &leaves);
            assert_eq!(proofs.len(), count);
            for (leaf, proof) in leaves.iter().zip(&proofs) {
                assert!(proof.verifies(&key.public(), cluster, *leaf));
                assert!(!proof.verifies(&key.public(), ClusterId([8; 32]), *leaf));
                assert!(!proof.verifies(&key.public(), cluster, Hash([0; 32])));
            }
            if count > 1 {
                assert!(!proofs[0].verifies(&key.public(), cluster, leaves[1]));
            }
        }
    }

    #[test]
    fn attack_28_a_path_of_another_length_or_place_is_refused() {
        let key = SecretKey::from_seed(&[1; 32]);
        let cluster = ClusterId([9; 32]);
        let leaves = leaves(5);
        let good = sign_batch(&key, cluster, &leaves)[4].clone();
        assert_eq!(good.path.len(), 1, "an odd node is promoted, not doubled");
        let mut longer = good.clone();
        longer.path.push(leaves[0]);
        let mut shorter = good.clone();
        shorter.path.clear();
        let elsewhere = Proof { index: 3, ..good.clone() };
        let outside = Proof { index: 5, ..good.clone() };
        let huge = Proof { count: u32::MAX, ..good.clone() };
        let none = Proof { count: 0, index: 0, ..good.clone() };
        for bad in [longer, shorter, elsewhere, outside, huge, none] {
            assert!(!bad.verifies(&key.public(), cluster, leaves[4]), "{bad:?}");
        }
        // An inner node is no item: it has another context than every leaf.
        let pair = inner(&leaves[0], &leaves[1]);
        let proof = sign_batch(&key, cluster, &leaves[..2])[0].clone();
        let posing = Proof { count: 1, index: 0, path: vec![], ..proof };
        assert!(!posing.verifies(&key.public(), cluster, pair));
    }
}
