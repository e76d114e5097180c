//! Staying owner: renewals and the deadline, as a state machine without clock, network or randomness.
//!
//! The clock is the owner's own, in milliseconds, and must run while the machine is suspended. Voters
//! have clocks of their own; ownership is exclusive while any two clocks differ in rate by less than
//! 10/9 (attack O5), because the owner trusts itself for nine tenths of the lease only.
//!
//! - The deadline is 0.9 lease after the tenure was first submitted to anybody (O3), and from then on
//!   after the *sending* of the last renewal that counted.
//! - A renewal goes to every voter and counts when a majority heard it at one and the same ballot (O1).
//! - One that does not count is soon followed by another, however long the lease is.
//! - If voters refuse it, or hold the tenure at different ballots, a full round of the own tenure is
//!   asked for, and it is renewed again.
//! - Whoever learns that it won more than a sixth of the lease after it first submitted the tenure renews
//!   before it acts: a candidate that waited for another's lease to run out has little left of its own, and
//!   would lose it before the first renewal. Past the deadline of a tenure that acted there is no way back:
//!   only a new campaign (O8).

use std::collections::BTreeMap;

use crate::core::chain::Ballot;
use crate::core::identity::{ClusterId, MemberId, SecretKey};
use crate::core::object::Key;
use crate::core::tenure::Renewal;
use crate::core::write::WriteId;
use crate::wire::ownership::{Renew, Renewed};

/// What the caller has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Send this to that voter and hand in its answer with [`Owner::on_renewed`].
    Renew {
        /// The voter.
        voter: MemberId,
        /// The request.
        renew: Box<Renew>,
    },
    /// Have the tenure's campaign run afresh and hand in what came of it with [`Owner::on_afresh`].
    Afresh,
    /// Call [`Owner::on_tick`] at this time, if nothing else comes first.
    WakeAt(u64),
    /// It may act as owner from now on, until its [deadline](Owner::deadline_ms).
    Owned,
    /// It is not the owner, or no longer. Nothing more is to be done.
    Lost,
}

/// What came of a campaign that was run afresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Afresh {
    /// The tenure is still the current one.
    Chosen,
    /// Another one took its place.
    Refused,
    /// Nothing was found out.
    Failed,
}

/// What an owner signs with, and what about.
#[derive(Debug, Clone)]
pub struct Office {
    /// The cluster.
    pub cluster: ClusterId,
    /// The voters.
    pub voters: Vec<MemberId>,
    /// What is owned.
    pub resource: Key,
    /// The tenure.
    pub tenure: WriteId,
    /// The tenure's key.
    pub key: SecretKey,
    /// Its lease in milliseconds.
    pub lease_ms: u32,
}

/// A tenure in the hands of who campaigned for it.
#[derive(Debug, Clone)]
pub struct Owner {
    office: Office,
    standing: Standing,
    deadline: u64,
    sequence: u64,
    /// Renewals that are under way, by sequence.
    sent: BTreeMap<u64, Sent>,
    next_renewal: u64,
    /// A campaign is run afresh; not before this time is another one.
    afresh: bool,
    afresh_after: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The campaign is under way.
    Candidate,
    /// It won, and may not act before a renewal counted. If none does until then it gives up.
    Late {
        until: u64,
    },
    /// It may act until the deadline.
    Owner,
    Over,
}

#[derive(Debug, Clone)]
struct Sent {
    at: u64,
    answers: BTreeMap<MemberId, Renewed>,
    counted: bool,
}

impl Owner {
    /// How long a renewal has to count before the next one is sent, if that is sooner than it is due.
    const RESEND_MS: u64 = 1_000;

    /// A tenure that is submitted to somebody for the first time at `now_ms`.
    pub fn new(office: Office, now_ms: u64) -> Self {
        Owner {
            deadline: now_ms + trusted(office.lease_ms),
            office,
            standing: Standing::Candidate,
            sequence: 0,
            sent: BTreeMap::new(),
            next_renewal: 0,
            afresh: false,
            afresh_after: 0,
        }
    }

    /// Until when it may act, once it is [owned](Act::Owned).
    pub fn deadline_ms(&self) -> u64 {
        self.deadline
    }

    /// Whether it may act at `now_ms`.
    pub fn may_act(&self, now_ms: u64) -> bool {
        self.standing == Standing::Owner && now_ms < self.deadline
    }

    /// The campaign was won: a majority voted for it.
    pub fn on_chosen(&mut self, now_ms: u64) -> Vec<Act> {
        if self.standing != Standing::Candidate {
            return Vec::new();
        }
        let mut acts = Vec::new();
        if now_ms + trusted(self.office.lease_ms) <= self.deadline + self.period() {
            self.standing = Standing::Owner;
            acts.push(Act::Owned);
            self.next_renewal = now_ms + self.period();
        } else {
            self.standing = Standing::Late { until: now_ms + u64::from(self.office.lease_ms) };
            self.renew(now_ms, &mut acts);
        }
        self.wake(&mut acts);
        acts
    }

    /// A voter answered a renewal.
    pub fn on_renewed(&mut self, voter: MemberId, sequence: u64, answer: Renewed, now_ms: u64) -> Vec<Act> {
        let mut acts = self.check(now_ms);
        if self.standing == Standing::Over || !self.office.voters.contains(&voter) {
            return acts;
        }
        let majority = self.majority();
        let Some(sent) = self.sent.get_mut(&sequence) else { return acts };
        sent.answers.insert(voter, answer);
        let (at, answers) = (sent.at, &sent.answers);
        let mut heard: BTreeMap<Ballot, usize> = BTreeMap::new();
        for answer in answers.values() {
            if let Renewed::Heard { ballot } = answer {
                *heard.entry(*ballot).or_default() += 1;
            }
        }
        let counts = heard.values().any(|count| *count >= majority);
        let apart = heard.len() > 1
            || answers
                .values()
                .any(|answer| matches!(answer, Renewed::OtherTenure | Renewed::TakeoverPromised { .. }));
        if counts && !sent.counted {
            sent.counted = true;
            self.deadline = self.deadline.max(at + trusted(self.office.lease_ms));
            self.next_renewal = self.next_renewal.max(at + self.period());
            // What was sent before it says nothing new.
            self.sent.retain(|older, _| *older >= sequence);
            if matches!(self.standing, Standing::Late { .. }) && now_ms < self.deadline {
                self.standing = Standing::Owner;
                acts.push(Act::Owned);
            }
        }
        if apart && !self.afresh && (!counts || now_ms >= self.afresh_after) {
            self.afresh = true;
            self.afresh_after = now_ms + u64::from(self.office.lease_ms);
            acts.push(Act::Afresh);
        }
        self.wake(&mut acts);
        acts
    }

    /// The campaign that was run afresh came to something.
    pub fn on_afresh(&mut self, came: Afresh, now_ms: u64) -> Vec<Act> {
        let mut acts = self.check(now_ms);
        if self.standing == Standing::Over {
            return acts;
        }
        self.afresh = false;
        match came {
            Afresh::Chosen => self.renew(now_ms, &mut acts),
            Afresh::Failed => {}
            Afresh::Refused => {
                self.standing = Standing::Over;
                acts.push(Act::Lost);
                return acts;
            }
        }
        self.wake(&mut acts);
        acts
    }

    /// Time has passed.
    pub fn on_tick(&mut self, now_ms: u64) -> Vec<Act> {
        let mut acts = self.check(now_ms);
        let renews = matches!(self.standing, Standing::Owner | Standing::Late { .. });
        if renews && now_ms >= self.next_renewal {
            self.renew(now_ms, &mut acts);
        }
        if self.standing != Standing::Over {
            self.wake(&mut acts);
        }
        acts
    }

    /// It resigns, or gives up: it is never renewed or used again.
    pub fn end(&mut self) {
        self.standing = Standing::Over;
    }

    fn majority(&self) -> usize {
        self.office.voters.len() / 2 + 1
    }

    /// How long after a renewal that counted the next one is due.
    fn period(&self) -> u64 {
        u64::from(self.office.lease_ms) / 6
    }

    /// Past the deadline of a tenure that acted it is over.
    fn check(&mut self, now_ms: u64) -> Vec<Act> {
        let over = match self.standing {
            Standing::Owner => now_ms >= self.deadline,
            Standing::Late { until } => now_ms >= until,
            Standing::Candidate | Standing::Over => false,
        };
        if over {
            self.standing = Standing::Over;
            return vec![Act::Lost];
        }
        Vec::new()
    }

    fn renew(&mut self, now_ms: u64, acts: &mut Vec<Act>) {
        /// Renewals under way at most.
        const UNDER_WAY: usize = 8;
        self.sequence += 1;
        self.next_renewal = now_ms + self.period().min(Self::RESEND_MS);
        let renewal = Renewal {
            cluster: self.office.cluster,
            resource: self.office.resource.clone(),
            tenure: self.office.tenure,
            sequence: self.sequence,
        };
        let signature = renewal.sign(&self.office.key);
        let renew = Renew { renewal, key: self.office.key.public(), signature };
        self.sent.insert(self.sequence, Sent { at: now_ms, answers: BTreeMap::new(), counted: false });
        while self.sent.len() > UNDER_WAY {
            self.sent.pop_first();
        }
        let to = |voter: &MemberId| Act::Renew { voter: *voter, renew: Box::new(renew.clone()) };
        acts.extend(self.office.voters.iter().map(to));
    }

    fn wake(&self, acts: &mut Vec<Act>) {
        let at = match self.standing {
            Standing::Owner => self.next_renewal.min(self.deadline),
            Standing::Late { until } => self.next_renewal.min(until),
            Standing::Candidate | Standing::Over => return,
        };
        acts.push(Act::WakeAt(at));
    }
}

/// For how much of its lease an owner trusts itself: clocks may differ.
fn trusted(lease_ms: u32) -> u64 {
    u64::from(lease_ms) * 9 / 10
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::identity::ActorId;

    const LEASE: u32 = 1_000;

    fn voter(n: u8) -> MemberId {
        MemberId([n; 16])
    }

    fn ballot(counter: u64) -> Ballot {
        Ballot { config_epoch: 1, counter, actor: ActorId([1; 16]) }
    }

    fn heard(counter: u64) -> Renewed {
        Renewed::Heard { ballot: ballot(counter) }
    }

    fn owner(now_ms: u64) -> Owner {
        with_lease(LEASE, now_ms)
    }

    fn with_lease(lease_ms: u32, now_ms: u64) -> Owner {
        let office = Office {
            cluster: ClusterId([1; 32]),
            voters: vec![voter(1), voter(2), voter(3)],
            resource: Key::try_from("billing").unwrap(),
            tenure: WriteId([2; 32]),
            key: SecretKey::from_seed(&[3; 32]),
            lease_ms,
        };
        Owner::new(office, now_ms)
    }

    fn renewals(acts: &[Act]) -> usize {
        acts.iter().filter(|act| matches!(act, Act::Renew { .. })).count()
    }

    #[test]
    fn o3_the_deadline_counts_from_the_first_submission() {
        let mut owner = owner(1_000);
        assert!(!owner.may_act(1_001), "nobody is owner before it was chosen");
        assert!(owner.on_chosen(1_166).contains(&Act::Owned));
        assert!(owner.may_act(1_899) && !owner.may_act(1_900));
        assert_eq!(owner.on_tick(1_900), [Act::Lost]);
    }

    #[test]
    fn whoever_wins_shortly_before_its_deadline_does_not_lose_at_once() {
        let mut owner = owner(1_000);
        let acts = owner.on_chosen(1_800);
        assert_eq!((renewals(&acts), acts.contains(&Act::Owned)), (3, false), "100 ms are too few to act in");
        assert!(!owner.may_act(1_801));
        owner.on_renewed(voter(1), 1, heard(7), 1_805);
        assert!(owner.on_renewed(voter(2), 1, heard(7), 1_810).contains(&Act::Owned));
        assert_eq!(owner.deadline_ms(), 2_700);
    }

    #[test]
    fn whoever_wins_late_renews_before_it_acts() {
        let mut owner = owner(0);
        let acts = owner.on_chosen(5_000);
        assert_eq!(renewals(&acts), 3);
        assert!(!owner.may_act(5_000));
        assert!(!owner.on_renewed(voter(1), 1, heard(7), 5_010).contains(&Act::Owned));
        assert!(owner.on_renewed(voter(3), 1, heard(7), 5_020).contains(&Act::Owned));
        assert_eq!(owner.deadline_ms(), 5_900, "from the sending, not the answer");
    }

    #[test]
    fn o1_a_renewal_counts_at_one_ballot_only() {
        let mut owner = owner(0);
        owner.on_chosen(10);
        assert_eq!(renewals(&owner.on_tick(200)), 3);
        owner.on_renewed(voter(1), 1, heard(1), 210);
        let acts = owner.on_renewed(voter(2), 1, heard(7), 220);
        assert!(acts.contains(&Act::Afresh));
        assert_eq!(owner.deadline_ms(), 900);
        let acts = owner.on_afresh(Afresh::Chosen, 300);
        assert_eq!(renewals(&acts), 3);
        owner.on_renewed(voter(2), 2, heard(9), 310);
        owner.on_renewed(voter(1), 2, heard(9), 310);
        assert_eq!(owner.deadline_ms(), 1_200);
        // What comes late counts from its own sending.
        owner.on_renewed(voter(3), 1, heard(1), 800);
        assert_eq!(owner.deadline_ms(), 1_200);
    }

    #[test]
    fn attack_10_a_refused_renewal_asks_for_a_round_and_a_lost_one_ends_it() {
        let mut owner = owner(0);
        owner.on_chosen(10);
        owner.on_tick(200);
        assert!(owner.on_renewed(voter(1), 1, Renewed::OtherTenure, 210).contains(&Act::Afresh));
        let again = owner.on_renewed(voter(2), 1, Renewed::TakeoverPromised { ballot: ballot(9) }, 220);
        assert!(!again.contains(&Act::Afresh), "one round at a time");
        assert_eq!(owner.on_afresh(Afresh::Refused, 300), [Act::Lost]);
        assert!(!owner.may_act(301));
    }

    #[test]
    fn o8_past_the_deadline_there_is_no_way_back() {
        let mut owner = owner(0);
        owner.on_chosen(10);
        owner.on_tick(200);
        assert_eq!(owner.on_renewed(voter(1), 1, heard(1), 901), [Act::Lost]);
        owner.on_renewed(voter(2), 1, heard(1), 902);
        assert!(!owner.may_act(903));
        assert_eq!(owner.on_tick(2_000), []);
    }

    #[test]
    fn a_renewal_that_does_not_count_is_soon_followed_by_another() {
        let mut owner = with_lease(300_000, 0);
        owner.on_chosen(10);
        assert_eq!(renewals(&owner.on_tick(50_000)), 0);
        assert_eq!(renewals(&owner.on_tick(50_010)), 3, "a sixth of the lease");
        assert_eq!(owner.on_tick(50_500), [Act::WakeAt(51_010)]);
        assert_eq!(renewals(&owner.on_tick(51_010)), 3);
        owner.on_renewed(voter(1), 2, heard(1), 51_020);
        let acts = owner.on_renewed(voter(2), 2, heard(1), 51_030);
        assert_eq!(acts, [Act::WakeAt(101_010)], "counted: the next is due a period later");
        assert_eq!(owner.deadline_ms(), 51_010 + 270_000);
        // Whoever won late does not wait for a period to try again, either.
        let mut late = with_lease(300_000, 0);
        assert_eq!(renewals(&late.on_chosen(280_000)), 3);
        assert_eq!(renewals(&late.on_tick(281_000)), 3);
    }

    #[test]
    fn a_stranger_or_a_voter_twice_is_no_majority() {
        let mut owner = owner(0);
        owner.on_chosen(10);
        owner.on_tick(200);
        owner.on_renewed(voter(1), 1, heard(1), 210);
        owner.on_renewed(voter(1), 1, heard(1), 220);
        owner.on_renewed(voter(9), 1, heard(1), 230);
        assert_eq!(owner.deadline_ms(), 900);
    }

    #[test]
    fn a_resignation_ends_it() {
        let mut owner = owner(0);
        owner.on_chosen(10);
        owner.end();
        assert!(!owner.may_act(11));
        assert_eq!(owner.on_tick(500), []);
    }
}
