//! Who may connect to a node.

use std::sync::Arc;

use tokio::sync::watch;

use crate::core::cluster::Configuration;
use crate::core::identity::PublicKey;
use crate::transport::{Admission, Admitted};

/// Admits by the newest configuration.
pub(super) struct Gate(pub(super) watch::Receiver<Arc<Configuration>>);

impl Admission for Gate {
    fn admit(&self, key: &PublicKey) -> Option<Admitted> {
        admitted(&self.0.borrow(), key)
    }
}

/// As what the holder of `key` may connect: rights on data are judged at each request.
fn admitted(config: &Configuration, key: &PublicKey) -> Option<Admitted> {
    if let Some(member) = config.member_by_key(key) {
        return Some(Admitted::Member(member.id));
    }
    if config.current().admins.contains(key) || config.policy().knows(key) {
        return Some(Admitted::Client);
    }
    config.policy().knows_anyone().then_some(Admitted::Anyone)
}
