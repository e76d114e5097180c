//! Who may connect, and who may stay.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::{Connection, Shared};
use super::{Code, lock};
use crate::core::identity::{MemberId, PublicKey};

/// Decides which keys may connect. Asked once per handshake and, through
/// [`Endpoint::recheck`](super::Endpoint::recheck), again for every open connection; it must not block.
pub trait Admission: Send + Sync {
    /// As what the holder of `key` may connect, or `None` if it may not.
    fn admit(&self, key: &PublicKey) -> Option<Admitted>;
}

/// As what a connection was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admitted {
    /// A member of the cluster: its connection may become a link.
    Member(MemberId),
    /// A key that some grant names.
    Client,
    /// Any valid key, because some grant names everybody. Counted and bounded apart, so that the
    /// public cannot crowd out those who are named.
    Anyone,
}

/// A connection's admission. The permit of the public's share goes back when the seat is dropped.
pub(super) struct Seat {
    pub(super) admitted: Admitted,
    _permit: Option<OwnedSemaphorePermit>,
}

/// The accepted connections of one endpoint.
pub(super) struct Registry {
    admission: Arc<dyn Admission>,
    public: Arc<Semaphore>,
    open: Mutex<BTreeMap<usize, Weak<Shared>>>,
}

impl Registry {
    pub(super) fn new(admission: Arc<dyn Admission>, anyone_max: usize) -> Self {
        let public = Arc::new(Semaphore::new(anyone_max.min(Semaphore::MAX_PERMITS)));
        Registry { admission, public, open: Mutex::new(BTreeMap::new()) }
    }

    /// A seat for `key`, or the code and the words to close with.
    pub(super) fn seat(&self, key: &PublicKey) -> Result<Seat, (Code, String)> {
        let Some(admitted) = self.admission.admit(key) else {
            let reason =
                format!("the key {key} is no member and no grant names it; ask an admin for a grant");
            return Err((Code::DENIED, reason));
        };
        let permit = match admitted {
            Admitted::Anyone => Some(self.public.clone().try_acquire_owned().map_err(|_| {
                (Code::BUSY, "all connections for keys without a grant of their own are taken".to_owned())
            })?),
            Admitted::Member(_) | Admitted::Client => None,
        };
        Ok(Seat { admitted, _permit: permit })
    }

    pub(super) fn register(&self, connection: &Connection) {
        lock(&self.open).insert(connection.0.quinn.stable_id(), Arc::downgrade(&connection.0));
        // The configuration may have changed between the question and the entry in the table.
        self.recheck_one(connection);
    }

    pub(super) fn forget(&self, id: usize) {
        lock(&self.open).remove(&id);
    }

    pub(super) fn recheck(&self) {
        // Collected first: dropping the last handle of a connection takes the lock again.
        let open: Vec<_> = lock(&self.open).values().filter_map(Weak::upgrade).collect();
        for shared in open {
            self.recheck_one(&Connection(shared));
        }
    }

    fn recheck_one(&self, connection: &Connection) {
        let mut seat = lock(&connection.0.seat);
        let Some(held) = seat.as_mut() else { return };
        let now = self.admission.admit(&connection.0.peer);
        if now == Some(held.admitted) {
            return;
        }
        if let (Some(Admitted::Client), Admitted::Anyone) = (now, held.admitted) {
            *held = Seat { admitted: Admitted::Client, _permit: None };
            return;
        }
        match (self.seat(&connection.0.peer), held.admitted) {
            (Ok(seat), Admitted::Client) if seat.admitted == Admitted::Anyone => *held = seat,
            // The limits of a member's connection are not those of a client's, so it cannot just be renamed.
            (Ok(_), _) => connection.close(Code::CHANGED, "what this key may do has changed; connect again"),
            (Err((code, reason)), _) => connection.close(code, &reason),
        }
    }
}
