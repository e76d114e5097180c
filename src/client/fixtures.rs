//! Scripted nodes that agree: who owns what, and what registers hold. Leases run for as long as the test says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;

use super::fake::{Answer, Cluster, same_config, secret, stamp, version};
use super::{Client, Resource};
use crate::core::chain::{Ballot, Chain};
use crate::core::cluster::Configuration;
use crate::core::object::Key;
use crate::core::register::Bound;
use crate::core::tenure::{SignedVote, Tenure, TenureVote};
use crate::core::version::{SignedWrite, Version};
use crate::core::write::{Fence, WriteId};
use crate::wire::client::{Failure, Listed, Submit, Submitted, Versions};
use crate::wire::ownership::{Ballots, Campaign, Campaigned, Observed, Renew, Renewed};
use crate::wire::register::{Seal, Sealed};
use crate::wire::registry::Request;
use crate::wire::values::Values;

/// What three nodes agree on.
#[derive(Default)]
pub(super) struct State {
    /// The current tenure of each resource.
    pub(super) seats: BTreeMap<Key, Seat>,
    registers: BTreeMap<Key, Register>,
    /// Whether leases run: nobody can follow.
    pub(super) leases_run: bool,
    /// No node answers anything.
    pub(super) silent: bool,
    /// So many campaigns are answered "incomplete" first.
    pub(super) incomplete: usize,
    /// The votes that are left out of a proof.
    pub(super) votes_missing: usize,
    /// The nodes hold tenures at ballots of their own, until a campaign is run afresh.
    pub(super) apart: bool,
    /// Campaigns are answered as if they named tenures that nobody has heard of.
    pub(super) unheard: bool,
}

pub(super) struct Seat {
    pub(super) version: Version,
    pub(super) tenure: Tenure,
    counter: u64,
}

#[derive(Default)]
struct Register {
    held: Option<(Version, Bytes)>,
    fence: Option<Fence>,
}

pub(super) struct Electorate {
    pub(super) cluster: Cluster,
    state: Arc<Mutex<State>>,
}

impl Electorate {
    pub(super) fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let (shared, config) = (state.clone(), same_config());
        let cluster =
            Cluster::start(move |node, request| shared.lock().unwrap().answer(node, &config, request));
        Electorate { cluster, state }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) async fn client(&self) -> Client {
        self.cluster.client(Duration::from_secs(5)).await
    }

    pub(super) async fn billing(&self) -> Resource {
        self.client().await.resource("billing").unwrap()
    }

    /// The campaigns and resignations that nodes were sent, each once, in order.
    pub(super) fn campaigns(&self) -> Vec<Campaign> {
        let asked = self.cluster.asked.lock().unwrap();
        let mut campaigns: Vec<Campaign> = Vec::new();
        for (_, request) in asked.iter() {
            if let Request::Campaign(campaign) = request
                && !campaigns.contains(campaign)
            {
                campaigns.push(campaign.clone());
            }
        }
        campaigns
    }

    /// How many renewals of this tenure nodes were sent.
    pub(super) fn renewals(&self, tenure: WriteId) -> usize {
        let asked = self.cluster.asked.lock().unwrap();
        let of =
            |request: &Request| matches!(request, Request::Renew(renew) if renew.renewal.tenure == tenure);
        asked.iter().filter(|(_, request)| of(request)).count()
    }
}

impl State {
    fn answer(&mut self, node: usize, config: &Configuration, request: &Request) -> Answer {
        if self.silent {
            return Answer::Never;
        }
        match request {
            Request::Campaign(campaign) if self.unheard => {
                Failure::UnknownParents(campaign.signed.write().parents.clone()).into()
            }
            Request::Campaign(campaign) => self.campaign(config, campaign).into(),
            Request::Observe(observe) => self.observe(config, &observe.resource).into(),
            Request::Renew(renew) => self.renew(node, config, renew).into(),
            Request::Read(read) => self.read(&read.key).into(),
            Request::Submit(submit) => self.submit(config, submit).into(),
            Request::Seal(seal) => self.seal(seal).into(),
            _ => Failure::NotBuilt("in this script".into()).into(),
        }
    }

    fn campaign(&mut self, config: &Configuration, campaign: &Campaign) -> Campaigned {
        if self.incomplete > 0 {
            self.incomplete -= 1;
            return campaigned(Ballots::Incomplete, None);
        }
        if campaign.afresh {
            self.apart = false;
        }
        let write = campaign.signed.write();
        let tenure = Tenure::decode(&campaign.value.as_slice()[0]).unwrap();
        let seat = self.seats.get(&write.key);
        let current = seat.map(|seat| seat.version.id());
        if current != Some(campaign.signed.id()) {
            if write.parents.first().copied() != current {
                return campaigned(Ballots::Refused, seat);
            }
            let owned = seat.is_some_and(|seat| seat.tenure.key.is_some());
            if owned && tenure.key.is_some() && self.leases_run {
                return campaigned(Ballots::Running { left_ms: 200_000 }, seat);
            }
            self.take(config, SignedWrite::clone(&campaign.signed), tenure);
        }
        let (ballot, votes) = self.votes(config, &self.seats[&write.key]);
        campaigned(Ballots::Chosen { ballot, votes }, None)
    }

    /// Makes this the current tenure.
    pub(super) fn take(&mut self, config: &Configuration, signed: SignedWrite, tenure: Tenure) {
        let (key, counter) = (signed.write().key.clone(), signed.write().generation);
        let version = version(config, counter, signed);
        self.seats.insert(key, Seat { version, tenure, counter });
    }

    fn votes(&self, config: &Configuration, seat: &Seat) -> (Ballot, Vec<SignedVote>) {
        let members = &config.current().members;
        let ballot = ballot(config, seat.counter);
        let vote = |(seed, actor)| {
            let vote = TenureVote {
                cluster: config.cluster(),
                config: config.entries(Chain::Voters)[0].signed.entry.hash(),
                ballot,
                tenure: seat.version.id(),
                actor,
            };
            (actor, vote.sign(&secret(seed)))
        };
        let actors = members.iter().map(|member| member.actor(config.cluster()));
        let mut votes: Vec<_> = (1..=3).zip(actors).map(vote).collect();
        votes.sort_by_key(|(actor, _)| *actor);
        votes.drain(..self.votes_missing);
        (ballot, votes)
    }

    fn observe(&self, config: &Configuration, resource: &Key) -> Observed {
        let Some(seat) = self.seats.get(resource) else {
            let votes = Vec::new();
            return Observed { version: None, ballot: None, votes, left_ms: 0, value: Values::none() };
        };
        let (ballot, votes) = self.votes(config, seat);
        let left_ms = if self.leases_run { 200_000 } else { 0 };
        let (version, value) = (Some(seat.version.clone()), one(seat.tenure.encode()));
        Observed { version, ballot: Some(ballot), votes, left_ms, value }
    }

    fn renew(&self, node: usize, config: &Configuration, renew: &Renew) -> Renewed {
        assert!(renew.renewal.verifies(&renew.key, &renew.signature));
        match self.seats.get(&renew.renewal.resource) {
            Some(seat) if seat.version.id() == renew.renewal.tenure && seat.tenure.key == Some(renew.key) => {
                let apart = if self.apart { 10 * node as u64 } else { 0 };
                Renewed::Heard { ballot: ballot(config, seat.counter + apart) }
            }
            _ => Renewed::OtherTenure,
        }
    }

    fn read(&self, key: &Key) -> Versions {
        let held = self.registers.get(key).and_then(|register| register.held.as_ref());
        let listed =
            |(version, _): &(Version, Bytes)| Listed { version: version.clone(), live: true, inline: true };
        Versions {
            versions: held.map(listed).into_iter().collect(),
            values: held.map(|(_, value)| value.clone()).into_iter().collect(),
            evidence: Vec::new(),
        }
    }

    fn submit(&mut self, config: &Configuration, submit: &Submit) -> Submitted {
        let write = submit.signed.write();
        let register = self.registers.entry(write.key.clone()).or_default();
        let current = register.held.as_ref().map(|(version, _)| version.id());
        let stamps = vec![stamp(config, 1, write.generation, &submit.signed)];
        if current == Some(submit.signed.id()) {
            return Submitted::Applied { stamps, siblings: Vec::new() };
        }
        if let Some(bound) = register.fences(write.fence.as_ref()) {
            return Submitted::Fenced(bound);
        }
        if write.parents.first().copied() != current {
            let current = register.held.iter().map(|(version, _)| version.clone()).collect();
            return Submitted::Refused { current: Some(current) };
        }
        let value = submit.value.as_slice().first().cloned().unwrap_or_default();
        let version = version(config, write.generation, SignedWrite::clone(&submit.signed));
        register.held = Some((version, value));
        register.fence = write.fence.clone();
        Submitted::Applied { stamps, siblings: Vec::new() }
    }

    fn seal(&mut self, seal: &Seal) -> Sealed {
        let register = self.registers.entry(seal.seal.key.clone()).or_default();
        if let Some(bound) = register.fences(Some(&seal.seal.fence)) {
            return Sealed { result: Err(bound), version: None, value: Values::none() };
        }
        register.fence = Some(seal.seal.fence.clone());
        let held = register.held.clone();
        let value = held.iter().map(|(_, value)| value.clone()).collect();
        Sealed { result: Ok(()), version: held.map(|(version, _)| version), value }
    }
}

impl Register {
    /// What forbids a change under `fence`.
    fn fences(&self, fence: Option<&Fence>) -> Option<Bound> {
        let bound = self.fence.as_ref()?;
        let may = fence.is_some_and(|fence| fence.resource == bound.resource && fence.term >= bound.term);
        (!may).then(|| Bound { resource: bound.resource.clone(), term: bound.term })
    }
}

fn ballot(config: &Configuration, counter: u64) -> Ballot {
    Ballot { config_epoch: 1, counter, actor: config.current().members[0].actor(config.cluster()) }
}

fn campaigned(result: Ballots, there: Option<&Seat>) -> Campaigned {
    let value = there.map_or(Values::none(), |seat| one(seat.tenure.encode()));
    Campaigned { result, version: there.map(|seat| seat.version.clone()), value }
}

fn one(value: Vec<u8>) -> Values {
    [Bytes::from(value)].into_iter().collect()
}
