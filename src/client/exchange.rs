//! Drives the attempts of a request over the network.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::attempt::{Action, Attempts, Heard, Pace, Verdict};
use super::check::{Checker, Rejected};
use super::client::Client;
use super::peers::Link;
use crate::core::chain::Rights;
use crate::core::cluster::Configuration;
use crate::core::identity::{MemberId, PublicKey};
use crate::core::object::{Key, NamespaceId, ObjectId};
use crate::wire::client::Failure;
use crate::wire::frame::Frame;
use crate::wire::registry::{Reply, Request};

/// Judges an answer that is not a failure.
pub(super) type Check<'a> = &'a (dyn Fn(&Checker<'_>, &Reply) -> Result<(), Rejected> + Send + Sync);

/// When an operation is given up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(Instant);

/// What a request is about, and the right that it needs: by this it is seen whether a node that says
/// no has only not heard yet.
pub(super) struct Target<'a> {
    pub(super) namespace: NamespaceId,
    pub(super) key: &'a Key,
    pub(super) who: PublicKey,
    pub(super) rights: Rights,
    /// The write epoch of a write.
    pub(super) epoch: Option<u64>,
    /// Whether it is a register, whose replicas agree.
    pub(super) agreed: bool,
}

enum Event {
    Connected(MemberId, Result<Link, String>),
    Answered(MemberId, Result<Frame, Heard>),
}

impl Deadline {
    pub(super) fn after(timeout: Duration) -> Self {
        Deadline(Instant::now() + timeout)
    }

    pub(super) fn left_ms(self) -> u64 {
        let left = self.0.saturating_duration_since(Instant::now());
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    /// Sleeps for the next pause. Returns whether there is time for another try after it.
    pub(super) async fn pause(self, pauses: &mut ExponentialBackoff) -> bool {
        let until = Instant::now() + pauses.next().unwrap_or(Duration::from_secs(1));
        if until >= self.0 {
            return false;
        }
        sleep_until(until).await;
        true
    }
}

/// Pauses between tries of the same operation.
pub(super) fn pauses() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(10))
        .with_max_delay(Duration::from_millis(500))
        .with_jitter()
        .without_max_times()
        .build()
}

impl Target<'_> {
    fn object(&self) -> ObjectId {
        ObjectId::new(self.namespace, self.key)
    }

    /// Whether, by what is known here, a node should not have said `failure`.
    fn contradicts(&self, failure: &Failure, config: &Configuration) -> bool {
        let policy = config.policy();
        let allowed = policy.allowed(&self.who, self.namespace, self.key, self.rights, policy.revision());
        match failure {
            Failure::UnknownNamespace | Failure::Denied(_) => allowed,
            Failure::Expired { .. } => self.epoch.is_some_and(|epoch| config.admits_epoch(epoch)),
            _ => false,
        }
    }
}

impl Client {
    /// Asks the replicas of a key. If they say no for want of a configuration that is known here, they
    /// are asked again.
    pub(super) async fn ask_key(
        &self,
        target: &Target<'_>,
        request: &Request,
        deadline: Deadline,
        check: Check<'_>,
    ) -> Verdict {
        let mut pauses = pauses();
        loop {
            let replicas = self.route(self.configuration().replicas(target.namespace, target.object()));
            let hedge_ms = self.shared.peers.hedge_ms();
            let pace = Pace { deadline_ms: deadline.left_ms(), hedge_ms, ..Pace::default() };
            let attempts = match request {
                Request::Submit(_) if target.agreed => Attempts::register(replicas, pace),
                Request::Campaign(_) => Attempts::register(replicas, pace),
                Request::Submit(_) => Attempts::write(replicas, pace),
                _ => Attempts::read(replicas, pace),
            };
            let verdict = self.exchange(attempts, request, check).await;
            let Verdict::Answer(Reply::Failure(failure)) = &verdict else { return verdict };
            if !matches!(failure, Failure::UnknownNamespace | Failure::Denied(_) | Failure::Expired { .. }) {
                return verdict;
            }
            let config = match self.fetch_config([0; 3]).await {
                Ok(config) => config,
                Err(_) => return verdict,
            };
            if !target.contradicts(failure, &config) || !deadline.pause(&mut pauses).await {
                return verdict;
            }
        }
    }

    /// Asks one member.
    pub(super) async fn ask_member(
        &self,
        member: MemberId,
        request: &Request,
        deadline: Deadline,
        check: Check<'_>,
    ) -> Verdict {
        let pace = Pace { deadline_ms: deadline.left_ms(), ..Pace::default() };
        self.exchange(Attempts::read([member], pace), request, check).await
    }

    /// `members` in the order to ask them; one only if this client is [bound](Client::at) to it.
    pub(super) fn route(&self, members: Vec<MemberId>) -> Vec<MemberId> {
        match self.only {
            Some(only) => vec![only],
            None => self.shared.peers.ordered(members),
        }
    }

    /// Carries out what `attempts` says until there is a verdict.
    pub(super) async fn exchange(
        &self,
        mut attempts: Attempts,
        request: &Request,
        check: Check<'_>,
    ) -> Verdict {
        let frame = request.encode();
        let started = Instant::now();
        let now_ms = || u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut running = JoinSet::new();
        let mut wake = started;
        let mut asked = 0;
        let mut actions = attempts.start(0);
        loop {
            for action in actions.drain(..) {
                match action {
                    Action::Send { node } => {
                        asked += 1;
                        self.begin(&mut attempts, &mut running, node, &frame);
                    }
                    Action::WakeAt(at) => wake = started + Duration::from_millis(at),
                    Action::Done(verdict) => return *verdict,
                }
            }
            let event = tokio::select! {
                biased;
                Some(joined) = running.join_next(), if !running.is_empty() => joined.ok(),
                () = sleep_until(wake) => {
                    let late: Vec<MemberId> = attempts.awaited().collect();
                    actions = attempts.on_tick(now_ms());
                    if actions.iter().any(|action| !matches!(action, Action::WakeAt(_))) {
                        late.iter().for_each(|node| self.shared.peers.suspect(*node));
                    }
                    continue;
                }
            };
            actions = match event {
                // A task that panicked; its attempt is in doubt until the deadline.
                None => continue,
                Some(Event::Connected(node, Ok(link))) => {
                    if attempts.sent(node) {
                        let frame = frame.clone();
                        running.spawn(async move { Event::Answered(node, link.ask(frame).await) });
                    }
                    continue;
                }
                Some(Event::Connected(node, Err(why))) => {
                    self.shared.peers.suspect(node);
                    attempts.on_reply(node, Heard::Unreached(why), now_ms())
                }
                Some(Event::Answered(node, answer)) => {
                    let heard = self.judge(answer, check).await;
                    match &heard {
                        Heard::Reply(_) => {
                            if asked == 1 {
                                self.shared.peers.answered_in(now_ms());
                            }
                            self.shared.peers.trust(node);
                        }
                        _ => self.shared.peers.suspect(node),
                    }
                    attempts.on_reply(node, heard, now_ms())
                }
            };
        }
    }

    fn begin(&self, attempts: &mut Attempts, running: &mut JoinSet<Event>, node: MemberId, frame: &Frame) {
        let Some(key) = self.configuration().member(node).map(|member| member.key) else {
            attempts.waits(node);
            let why = format!("member {node} is not part of the cluster any more");
            running.spawn(async move { Event::Connected(node, Err(why)) });
            return;
        };
        if let Some(link) = self.shared.peers.ready(node, key) {
            let frame = frame.clone();
            running.spawn(async move { Event::Answered(node, link.ask(frame).await) });
            return;
        }
        attempts.waits(node);
        let shared = self.shared.clone();
        running.spawn(async move { Event::Connected(node, shared.peers.connect(node, key).await) });
    }

    /// What an answer is worth.
    async fn judge(&self, answer: Result<Frame, Heard>, check: Check<'_>) -> Heard {
        let frame = match answer {
            Ok(frame) => frame,
            Err(heard) => return heard,
        };
        let reply = match Reply::decode(frame) {
            Ok(reply) => reply,
            Err(error) => return Heard::Forged(error.to_string()),
        };
        if matches!(reply, Reply::Failure(_)) {
            return Heard::Reply(Box::new(reply));
        }
        let judge = |config: &Configuration| check(&Checker { config, cache: &self.shared.cache }, &reply);
        let rejected = match judge(&self.configuration()) {
            Err(Rejected::Behind(needed)) => match self.fetch_config(needed).await {
                Ok(config) => judge(&config).err(),
                Err(_) => Some(Rejected::Behind(needed)),
            },
            other => other.err(),
        };
        match rejected {
            None => Heard::Reply(Box::new(reply)),
            Some(rejected) => rejected.heard(),
        }
    }
}
