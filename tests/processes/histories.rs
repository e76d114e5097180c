//! Histories of registers, while nodes are killed, stopped and cut off, are judged (case 15).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tanist::cli::local::Plan;
use tanist::cli::relay::{Faults, Relay};
use tanist::client::{Client, Head, Linearizable, Ticket, Unknown, WriteError, Written};
use tanist::core::write::WriteId;
use tanist::history::linear::{Action, Came, Operation, order};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::support::{Cluster, PATIENCE, now, run, seconds, since};

const CLIENTS: usize = 8;
const KEYS: usize = 5;
/// How long an operation may take before the client goes on without an answer.
const TIMEOUT: Duration = Duration::from_millis(1_500);

/// What one client saw: its operations by key, and what it could not clear up.
#[derive(Default)]
struct Told {
    operations: BTreeMap<usize, Vec<Operation<WriteId>>>,
    doubts: Vec<Doubt>,
    /// Doubts that were settled: applied, refused, forgotten.
    verdicts: [u32; 3],
}

/// A write that got no answer.
struct Doubt {
    key: usize,
    asked: u64,
    from: Option<WriteId>,
    unknown: Unknown,
}

impl Told {
    /// A verdict that comes late is a verdict: applied, or refused for good.
    fn settled(&mut self, doubt: &Doubt, verdict: Result<Written, WriteError>, moment: u64) {
        let to = doubt.unknown.version().id();
        let (action, answered) = match &verdict {
            Ok(written) => {
                self.verdicts[usize::from(written.applied().is_none())] += 1;
                let Some(action) = swapped(doubt.from, Some(to), written) else { return };
                (action, Some(moment))
            }
            // Too many writes came after it: nobody remembers. It happened, or it did not.
            Err(WriteError::Forgotten) => {
                self.verdicts[2] += 1;
                (Action::Swap { from: doubt.from, to, came: Came::Unknown }, None)
            }
            Err(error) => panic!("{error}"),
        };
        let operation = Operation { asked: doubt.asked, answered, action };
        self.operations.entry(doubt.key).or_default().push(operation);
    }
}

struct Worker {
    jobs: Linearizable,
    begun: Instant,
    told: Told,
}

impl Worker {
    fn moment(&self) -> u64 {
        u64::try_from(since(self.begun).as_nanos()).unwrap()
    }

    fn note(&mut self, key: usize, asked: u64, action: Action<WriteId>) {
        let operation = Operation { asked, answered: Some(self.moment()), action };
        self.told.operations.entry(key).or_default().push(operation);
    }

    /// Reads, and often puts something in the place of what was read, until it is told to stop.
    async fn work(mut self, seed: u64, stop: watch::Receiver<bool>) -> Told {
        let mut dice = seed;
        while !*stop.borrow() {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (key, rest) = ((dice >> 33) as usize % KEYS, (dice >> 40) % 10);
            let name = format!("key-{key}");
            let asked = self.moment();
            let Ok(reading) = self.jobs.get(&name).await else {
                sleep(Duration::from_millis(5)).await;
                continue;
            };
            let from = reading.siblings().first().map(|sibling| sibling.head().id());
            self.note(key, asked, Action::Read(from));
            let jobs = self.jobs.clone();
            match rest {
                0..3 => {}
                3 if from.is_some() => self.swap(key, from, async || jobs.delete(&reading).await).await,
                _ => self.swap(key, from, async || jobs.replace(&reading, name.clone()).await).await,
            }
        }
        self.told
    }

    async fn swap(
        &mut self,
        key: usize,
        from: Option<WriteId>,
        write: impl AsyncFnOnce() -> Result<Written, WriteError>,
    ) {
        let asked = self.moment();
        match write().await {
            Ok(written) => {
                if let Some(action) = swapped(from, None, &written) {
                    self.note(key, asked, action);
                }
            }
            Err(WriteError::Unknown(unknown)) => {
                let doubt = Doubt { key, asked, from, unknown: *unknown };
                // Later it may be forgotten; but who cannot reach anybody has to wait.
                match doubt.unknown.settle().await {
                    Err(WriteError::Unknown(_)) => self.told.doubts.push(doubt),
                    verdict => {
                        let moment = self.moment();
                        self.told.settled(&doubt, verdict, moment);
                    }
                }
            }
            // Nothing changed.
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    }
}

/// What a write came to; nothing, if it was refused without showing what is there.
fn swapped(from: Option<WriteId>, to: Option<WriteId>, written: &Written) -> Option<Action<WriteId>> {
    let (to, came) = match written {
        Written::Applied { version, siblings } => {
            assert_eq!(siblings[..], [], "a register has no siblings");
            assert!(to.is_none_or(|to| to == version.id()));
            (version.id(), Came::Applied)
        }
        // Which version it would have made plays no part: as nobody made it, nobody may see it.
        Written::Refused { current, .. } => {
            (WriteId([0; 32]), Came::Refused(current.as_ref()?.first().map(Head::id)))
        }
    };
    Some(Action::Swap { from, to, came })
}

/// Deals blows until the time is over; how many of each kind.
async fn torment(cluster: &mut Cluster, wires: &[Relay], length: Duration) -> [u32; 5] {
    let begun = now();
    let mut blows = [0; 5];
    for round in 0usize.. {
        if since(begun) > length {
            break;
        }
        sleep(Duration::from_millis(400)).await;
        let (victim, other) = (round % 3, (round + 1 + round / 3 % 2) % 3);
        let network = cluster.local.network().unwrap();
        let blow = [0, 2, 4, 1, 3, 2, 4][round % 7];
        match blow {
            0 => cluster.local.kill(victim),
            1 => cluster.local.signal(victim, Signal::STOP).unwrap(),
            2 => network.set(victim, other, Faults::CUT),
            3 => network.set_around(victim, Faults::CUT),
            // Nobody is answered; what was asked is done all the same.
            _ => wires.iter().for_each(|wire| wire.back().set(Faults::CUT)),
        }
        blows[blow] += 1;
        // Longer than the peers' and the clients' patience, at times.
        sleep(Duration::from_millis([700, 1_300, 2_200][round / 2 % 3])).await;
        let network = cluster.local.network().unwrap();
        (0..3).for_each(|node| network.set_around(node, Faults::default()));
        wires.iter().for_each(|wire| wire.back().set(Faults::default()));
        cluster.local.signal(victim, Signal::CONT).unwrap();
        if round % 2 == 1 {
            cluster.heal().await;
        } else {
            cluster.local.start_all().unwrap();
        }
    }
    cluster.heal().await;
    blows
}

#[test]
fn case_15_registers_are_linearizable_through_kills_pauses_and_cuts() {
    run(async {
        let plan = Plan { relays: Some(15), ..Plan::default() };
        let mut cluster = Cluster::start_with(plan, &[]).await;
        let jobs = cluster.registers().await;
        let (mut wires, mut addresses) = (Vec::new(), BTreeMap::new());
        for node in 0..3 {
            let address = cluster.local.address(node).unwrap();
            let name = format!("clients to node-{}", node + 1);
            let wire = Relay::start(&name, address, 16 + node as u64).await.unwrap();
            addresses.insert(cluster.local.member(node).unwrap(), vec![wire.address()]);
            wires.push(wire);
        }
        let ticket = Ticket::new(cluster.local.ticket().genesis().clone(), addresses).unwrap();
        let begun = now();
        let (stop, stopped) = watch::channel(false);
        let mut workers = JoinSet::new();
        for number in 0..CLIENTS {
            let identity = cluster.client.identity().clone();
            let client = Client::builder().identity(identity).timeout(TIMEOUT);
            let mut client = client.connect(&ticket).await.unwrap();
            // Some know one node only, also while nobody else reaches it.
            if number < 3 {
                client = client.at(&format!("node-{}", number + 1)).unwrap();
            }
            let jobs = client.linearizable("jobs").await.unwrap();
            let worker = Worker { jobs, begun, told: Told::default() };
            workers.spawn(worker.work(number as u64, stopped.clone()));
        }
        let blows = torment(&mut cluster, &wires, seconds(20)).await;
        stop.send_replace(true);
        let told: Vec<Told> = workers.join_all().await;

        let mut histories: BTreeMap<usize, Vec<Operation<WriteId>>> = BTreeMap::new();
        let mut verdicts = [0; 3];
        for mut told in told {
            for doubt in std::mem::take(&mut told.doubts) {
                let verdict = cluster.client.settle(doubt.unknown.receipt()).await;
                told.settled(&doubt, verdict, u64::try_from(since(begun).as_nanos()).unwrap());
            }
            for (all, one) in verdicts.iter_mut().zip(told.verdicts) {
                *all += one;
            }
            for (key, operations) in told.operations {
                histories.entry(key).or_default().extend(operations);
            }
        }
        for (key, history) in &mut histories {
            let asked = since(begun).as_nanos() as u64;
            let reading = jobs.get(format!("key-{key}")).await.unwrap();
            let saw = reading.siblings().first().map(|sibling| sibling.head().id());
            history.push(Operation { asked, answered: Some(asked + 1), action: Action::Read(saw) });
        }

        let all = || histories.values().flatten();
        let done = all().filter(|one| match &one.action {
            Action::Read(_) => true,
            Action::Swap { came, .. } => *came == Came::Applied,
        });
        let (done, conflicts) = (done.count(), all().filter(|one| refused(one)).count());
        let lost = cluster.local.network().unwrap().counts().lost;
        println!(
            "{done} operations succeeded, {conflicts} conflicts, settled (applied, refused, forgotten) \
             {verdicts:?}; blows (kill, stop, one way, around, answers) {blows:?}, {lost} packets lost"
        );
        for (key, history) in &histories {
            judge(*key, history).await;
        }
        assert!(done >= 500 && conflicts >= 50, "{done} operations succeeded, {conflicts} conflicts");
        assert!(blows.iter().all(|blows| *blows > 0) && lost > 0, "{blows:?} blows, {lost} packets lost");
    });
}

fn refused(operation: &Operation<WriteId>) -> bool {
    matches!(operation.action, Action::Swap { came: Came::Refused(_), .. })
}

async fn judge(key: usize, history: &[Operation<WriteId>]) {
    let judged = history.to_owned();
    let judging = tokio::task::spawn_blocking(move || order(&judged).is_some());
    let linearizable = tokio::time::timeout(PATIENCE, judging).await.unwrap().unwrap();
    assert!(linearizable, "key-{key} is not linearizable: {history:#?}");

    // The judge sees what was told: one answer that is older than it may be, and it says no.
    let mut spoilt = history.to_owned();
    let last = spoilt.last_mut().unwrap();
    assert!(!matches!(last.action, Action::Read(None)), "key-{key} was never written");
    last.action = Action::Read(None);
    assert!(order(&spoilt).is_none(), "the judge of key-{key} is blind");
}
