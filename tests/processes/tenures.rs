//! Candidates that compete while nodes are killed, stopped and cut off: at any moment one owner, one tenure
//! for each term, and no write of an owner after one of a later owner (P6, P7, attack 13).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tanist::cli::local::Plan;
use tanist::cli::relay::Faults;
use tanist::client::{
    CampaignError, Client, FenceKey, Lease, Linearizable, ReadError, RefusedReason, Tenure, WriteError,
    Written,
};
use tanist::core::write::{Term, WriteId};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::support::{Cluster, now, run, seconds, since};

const CANDIDATES: usize = 5;
const LEASE: Duration = Duration::from_secs(1);

/// One tenure as who held it saw it.
struct Held {
    tenure: WriteId,
    term: Term,
    /// It was the owner at least from the first of these moments to the second.
    from: Instant,
    to: Instant,
}

/// What a candidate saw.
#[derive(Default)]
struct Told {
    held: Vec<Held>,
    /// The terms of writes that were applied, by the generation that they made.
    written: Vec<(u64, Term)>,
    /// Writes and seals with the fence of an earlier tenure: applied, and refused.
    late: [u32; 2],
}

struct Candidate {
    client: Client,
    ledger: Linearizable,
    told: Told,
    /// Fences of tenures that it lost: some still act with them.
    old: Vec<FenceKey>,
}

impl Candidate {
    async fn work(mut self, number: usize, stop: watch::Receiver<bool>) -> Told {
        let resource = self.client.resource("billing").unwrap();
        let lease = Lease::try_from(LEASE).unwrap();
        while !*stop.borrow() {
            self.act_late().await;
            match resource.campaign_for(lease, Duration::from_millis(1_500)).await {
                Ok(tenure) => self.own(tenure, number, &stop).await,
                Err(CampaignError::Owned { .. } | CampaignError::Unavailable(_)) => {}
                Err(CampaignError::Read(ReadError::Unavailable(_))) => {}
                Err(other) => panic!("{other}"),
            }
        }
        self.told
    }

    /// Owns for a while, and writes; then resigns, or is gone without a word.
    async fn own(&mut self, tenure: Tenure, number: usize, stop: &watch::Receiver<bool>) {
        let turn = self.told.held.len();
        let begun = now();
        let mut held: Option<Held> = None;
        let mut sealed = false;
        let leave = Duration::from_millis([400, 900, 2_500][(turn + number) % 3]);
        while !*stop.borrow() && since(begun) < leave {
            let asked = now();
            if !tenure.is_owner() {
                break;
            }
            let answered = now();
            let id = tenure.fence().proof().signed.id();
            let held =
                held.get_or_insert(Held { tenure: id, term: tenure.term(), from: answered, to: answered });
            held.to = held.to.max(asked);
            if !sealed {
                sealed = self.ledger.get("ledger").fenced_by(&tenure).await.is_ok();
            }
            self.write(tenure.fence()).await;
            sleep(Duration::from_millis(10)).await;
        }
        self.told.held.extend(held);
        self.old.push(tenure.fence().clone());
        if (turn + number).is_multiple_of(2) {
            // Whatever comes of it, the tenure is over.
            let _ = tenure.resign().await;
        }
    }

    /// Writes under `fence`; whether it was applied, if anybody said so.
    async fn write(&mut self, fence: &FenceKey) -> Option<bool> {
        let value = fence.term().to_string();
        let mut written = self.ledger.overwrite("ledger", value.clone()).fenced_by(fence).await;
        if let Err(WriteError::Unknown(unknown)) = &written {
            written = unknown.settle().await;
        }
        match written {
            Ok(Written::Applied { version, .. }) => {
                self.told.written.push((version.generation(), fence.term()));
                Some(true)
            }
            Ok(Written::Refused { reason: RefusedReason::Fenced(bound), .. }) => {
                assert!(bound.term > fence.term(), "{} is refused for {}", fence.term(), bound.term);
                Some(false)
            }
            Ok(Written::Refused { .. }) | Err(_) => None,
        }
    }

    /// Does what an owner does that does not know that it lost.
    async fn act_late(&mut self) {
        if let Some(fence) = self.old.last().cloned()
            && let Some(applied) = self.write(&fence).await
        {
            self.told.late[usize::from(!applied)] += 1;
        }
    }
}

async fn torment(cluster: &mut Cluster, length: Duration) {
    let begun = now();
    for round in 0usize.. {
        if since(begun) > length {
            break;
        }
        sleep(Duration::from_millis(1_200)).await;
        let victim = round % 3;
        match round % 4 {
            0 => cluster.local.signal(victim, Signal::STOP).unwrap(),
            1 => cluster.local.kill(victim),
            2 => cluster.local.network().unwrap().set_around(victim, Faults::CUT),
            _ => cluster.local.network().unwrap().set(victim, (victim + 1) % 3, Faults::CUT),
        }
        sleep(Duration::from_millis([800, 1_600][round % 2])).await;
        let network = cluster.local.network().unwrap();
        (0..3).for_each(|node| network.set_around(node, Faults::default()));
        cluster.local.signal(victim, Signal::CONT).unwrap();
        cluster.heal().await;
    }
}

#[test]
fn at_any_moment_one_owner_and_no_late_write_of_an_earlier_one() {
    run(async {
        let plan = Plan { relays: Some(13), ..Plan::default() };
        let mut cluster = Cluster::start_with(plan, &[]).await;
        cluster.registers().await;
        let (stop, stopped) = watch::channel(false);
        let mut candidates = JoinSet::new();
        for number in 0..CANDIDATES {
            // All have one key: who lacks the tenure's own key is not the owner.
            let client = Client::builder().identity(cluster.client.identity().clone());
            let client = client.timeout(Duration::from_secs(2)).connect(cluster.local.ticket());
            let client = client.await.unwrap();
            let ledger = client.linearizable("jobs").await.unwrap();
            let candidate = Candidate { client, ledger, told: Told::default(), old: Vec::new() };
            candidates.spawn(candidate.work(number, stopped.clone()));
        }
        torment(&mut cluster, seconds(14)).await;
        stop.send_replace(true);
        let told = candidates.join_all().await;

        let mut late = [0, 0];
        let mut written: BTreeMap<u64, Term> = BTreeMap::new();
        let mut held = Vec::new();
        for told in told {
            late = [late[0] + told.late[0], late[1] + told.late[1]];
            held.extend(told.held);
            for (generation, term) in told.written {
                assert_eq!(written.insert(generation, term), None, "two writes of generation {generation}");
            }
        }
        held.sort_by_key(|held| held.term);
        let longest = held.windows(2).map(|pair| pair[1].from.saturating_duration_since(pair[0].to)).max();
        println!(
            "{} tenures, {} writes applied, of owners that had lost {} applied and {} refused; longest time \
             without an owner {longest:?}",
            held.len(),
            written.len(),
            late[0],
            late[1]
        );
        for pair in held.windows(2) {
            let [first, second] = pair else { continue };
            assert!(first.term < second.term, "{:?} and {:?} have one term", first.tenure, second.tenure);
            assert!(first.to < second.from, "{} and {} were owned at the same time", first.term, second.term);
        }
        let terms: Vec<Term> = written.values().copied().collect();
        assert!(terms.is_sorted(), "a write of a lower term came after one of a higher: {terms:?}");
        assert!(held.len() >= 6 && written.len() >= 100 && late[1] >= 3, "too little happened");
    });
}
