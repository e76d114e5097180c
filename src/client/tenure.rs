//! A tenure in the hands of its owner: it is renewed in the background until it is dropped, resigned or
//! lost.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::ambient;
use super::attempt::Verdict;
use super::check::{Checker, unexpected};
use super::error::CampaignError;
use super::exchange::Deadline;
use super::fence::FenceKey;
use super::owner::{Act, Afresh, Owner};
use super::resource::Resource;
use crate::core::certificate::Certificate;
use crate::core::identity::MemberId;
use crate::core::object::Key;
use crate::core::write::Term;
use crate::wire::ownership::Renewed;
use crate::wire::registry::{Reply, Request};

/// An ownership that this process holds. It is renewed in the background.
///
/// Dropping it stops the renewals, and its lease runs out; [`resign`](Self::resign) lets another follow at
/// once.
pub struct Tenure {
    resource: Resource,
    fence: FenceKey,
    shared: Arc<Shared>,
    renewing: AbortHandle,
}

struct Shared {
    owner: Mutex<Owner>,
    /// Changes whenever the deadline does, and when it is over.
    changed: watch::Sender<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It won late and may not act yet.
    Late,
    /// It may act until this time of the clock that runs in suspend.
    Owned(u64),
    Lost,
}

/// The timer of the runtime stands still while the machine is suspended: a deadline is looked at so often.
const LOOK: Duration = Duration::from_millis(250);

impl Tenure {
    /// Begins a tenure that was won. `None` if it turned out to be over before it could begin.
    pub(super) async fn take_office(resource: Resource, fence: FenceKey, mut owner: Owner) -> Option<Self> {
        let acts = owner.on_chosen(ambient::boot_ms());
        let (changed, mut state) = watch::channel(State::Late);
        let shared = Arc::new(Shared { owner: Mutex::new(owner), changed });
        let task = keep(resource.clone(), fence.clone(), shared.clone(), acts);
        let renewing = tokio::spawn(task).abort_handle();
        let tenure = Tenure { resource, fence, shared, renewing };
        let begun = state.wait_for(|state| *state != State::Late).await.map(|state| *state);
        matches!(begun, Ok(State::Owned(_))).then_some(tenure)
    }

    /// What is owned.
    pub fn resource(&self) -> &Key {
        self.resource.name()
    }

    /// The fencing token.
    pub fn term(&self) -> Term {
        self.fence.term()
    }

    /// What fences reads and writes.
    pub fn fence(&self) -> &FenceKey {
        &self.fence
    }

    /// What proves it to anybody.
    pub fn certificate(&self) -> Certificate {
        self.resource.certificate(self.fence.proof().as_ref().clone())
    }

    /// Whether this process may act as owner now, by its own clock.
    pub fn is_owner(&self) -> bool {
        self.left().is_some()
    }

    /// How long it may act if no further renewal counts; `None` if it may not.
    pub fn left(&self) -> Option<Duration> {
        let now = ambient::boot_ms();
        let owner = self.shared.lock();
        owner.may_act(now).then(|| Duration::from_millis(owner.deadline_ms().saturating_sub(now)))
    }

    /// Waits until this process is no longer the owner: another one is, or no renewal counted for too long.
    /// It needs no network to notice.
    pub async fn lost(&self) {
        let mut state = self.shared.changed.subscribe();
        loop {
            let current = *state.borrow_and_update();
            let State::Owned(deadline) = current else { return };
            let now = ambient::boot_ms();
            if now >= deadline {
                return;
            }
            let pause = Duration::from_millis(deadline - now).min(LOOK);
            tokio::select! {
                biased;
                changed = state.changed() => if changed.is_err() { return },
                () = sleep(pause) => {}
            }
        }
    }

    /// Ends the tenure: another may follow at once. Whatever comes of it, this one is over.
    pub async fn resign(self) -> Result<(), CampaignError> {
        self.shared.lock().end();
        self.renewing.abort();
        self.shared.changed.send_replace(State::Lost);
        self.resource.resign(&self.fence).await.map(|_| ())
    }
}

impl AsRef<FenceKey> for Tenure {
    fn as_ref(&self) -> &FenceKey {
        &self.fence
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

impl fmt::Debug for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenure")
            .field("resource", self.resource())
            .field("term", &self.term())
            .field("left", &self.left())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Owner> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whoever waits how the owner stands.
    fn tell(&self) {
        let deadline = self.lock().deadline_ms();
        self.changed.send_if_modified(|state| match state {
            State::Lost => false,
            State::Late => false,
            State::Owned(known) => {
                let news = *known != deadline;
                *known = deadline;
                news
            }
        });
    }
}

enum Event {
    Renewed(MemberId, u64, Option<Renewed>),
    Afresh(Afresh),
}

/// Renews a tenure until it is over.
async fn keep(resource: Resource, fence: FenceKey, shared: Arc<Shared>, mut acts: Vec<Act>) {
    let mut running: JoinSet<Event> = JoinSet::new();
    let mut wake = u64::MAX;
    loop {
        for act in std::mem::take(&mut acts) {
            match act {
                Act::Renew { voter, renew } => {
                    let resource = resource.clone();
                    running.spawn(async move {
                        let sequence = renew.renewal.sequence;
                        let request = Request::Renew(*renew);
                        let check = |_: &Checker<'_>, reply: &Reply| match reply {
                            Reply::Renewed(_) => Ok(()),
                            _ => Err(unexpected()),
                        };
                        // An answer that takes longer counts for nothing any more.
                        let deadline = Deadline::after(Duration::from_secs(2));
                        let client = &resource.client;
                        let answer = match client.ask_member(voter, &request, deadline, &check).await {
                            Verdict::Answer(Reply::Renewed(renewed)) => Some(renewed),
                            _ => None,
                        };
                        Event::Renewed(voter, sequence, answer)
                    });
                }
                Act::Afresh => {
                    let (resource, fence) = (resource.clone(), fence.clone());
                    running.spawn(async move {
                        let deadline = Deadline::after(resource.client.timeout());
                        Event::Afresh(resource.afresh(&fence, deadline).await)
                    });
                }
                Act::WakeAt(at) => wake = at,
                Act::Owned => {
                    let deadline = shared.lock().deadline_ms();
                    shared.changed.send_replace(State::Owned(deadline));
                }
                Act::Lost => {
                    shared.changed.send_replace(State::Lost);
                    return;
                }
            }
        }
        let now = ambient::boot_ms();
        let pause = Duration::from_millis(wake.saturating_sub(now)).min(LOOK);
        let event = tokio::select! {
            biased;
            Some(joined) = running.join_next(), if !running.is_empty() => joined.ok(),
            () = sleep(pause) => None,
        };
        let now = ambient::boot_ms();
        acts = match event {
            Some(Event::Renewed(voter, sequence, Some(answer))) => {
                shared.lock().on_renewed(voter, sequence, answer, now)
            }
            Some(Event::Afresh(came)) => shared.lock().on_afresh(came, now),
            Some(Event::Renewed(_, _, None)) | None => shared.lock().on_tick(now),
        };
        shared.tell();
    }
}
