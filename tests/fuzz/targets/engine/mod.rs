//! An honest node among liars: an input is a program of what they say, of time, and of crashes.
//!
//! Nothing that they say may make the node panic, end, state what is not durable, take back what it
//! promised, hold what does not pass the gate, or stop answering: `node` and `checks` look on.

mod checks;
#[path = "../../../engine/cluster.rs"]
#[allow(dead_code, unused_imports, reason = "the tests of the engine use the rest")]
mod cluster;
mod damage;
#[path = "../../../engine/disk.rs"]
#[allow(dead_code, reason = "disks do not fail here")]
mod disk;
mod house;
mod node;
mod peers;
mod requests;
mod things;

use bytes::Bytes;
use tanist::engine::store::View as _;
use tanist::engine::{Input, Timing};
use tanist::storage::memory::Memory;

pub use self::damage::on_damaged_disk;
use self::house::{House, NODE, PEERS};
use self::node::Node;
pub use self::node::Plant;
use self::things::Things;
use super::source::Source;

/// The rows of the disk that inputs begin with.
pub fn rows() -> Vec<Bytes> {
    let store = Memory::from_snapshot(House::get().disk.clone());
    let rows = store.scan(&[], None, usize::MAX).expect("memory reads");
    rows.into_iter().map(|(_, value)| value).collect()
}

/// Steps of one input at most, so that a long one ends.
const STEPS: usize = 64;

/// Two members lie, with their own keys, and all of their clients may be in league with them.
pub fn member(bytes: &[u8]) {
    member_with(bytes, Plant::None);
}

/// As [`member`], with a fault planted.
pub fn member_with(bytes: &[u8], plant: Plant) {
    let mut source = Source::new(bytes);
    let timing = timing(&mut source);
    let mut node = Node::start(timing, plant);
    let mut things = Things::new();
    for _ in 0..STEPS {
        if source.is_empty() || node.forgot {
            break;
        }
        match source.byte() {
            0..=99 => {
                let from = *source.pick(&PEERS).expect("there are peers");
                let frame = peers::frame(&mut source, &node, &mut things, from);
                node.peer(from, frame);
            }
            100..=159 => {
                let client = things.client(&mut source);
                let frame = requests::frame(&mut source, &mut things, &client);
                node.client(&client, frame);
            }
            160..=179 => world(&mut source, &mut node, timing),
            _ => pace(&mut source, &mut node),
        }
    }
    node.finish(timing);
}

/// Somebody without the right to write says anything; peers are there, but silent.
pub fn stranger(bytes: &[u8]) {
    stranger_with(bytes, Plant::None);
}

/// As [`stranger`], with a fault planted.
pub fn stranger_with(bytes: &[u8], plant: Plant) {
    let house = House::get();
    let mut source = Source::new(bytes);
    let timing = timing(&mut source);
    let mut node = Node::start(timing, plant);
    let mut things = Things::new();
    let before = checks::taken(&node.store);
    for _ in 0..STEPS {
        if source.is_empty() {
            break;
        }
        match source.byte() {
            0..=179 => {
                // One who may read signs nothing that is taken; a stranger does not even see anything.
                let client = if source.coin() { &house.reader } else { &house.stranger };
                let frame = requests::frame(&mut source, &mut things, client);
                let asked = frame.kind;
                if let Some(token) = node.client(client, frame)
                    && client.public() == house.stranger.public()
                {
                    node.strangers.insert(token, asked);
                }
            }
            180..=199 => world(&mut source, &mut node, timing),
            _ => pace(&mut source, &mut node),
        }
    }
    node.settle();
    checks::nothing_shown(&node);
    assert_eq!(checks::taken(&node.store), before, "the disk changed for somebody without the right");
    node.finish(timing);
}

/// Time and disk.
fn pace(source: &mut Source<'_>, node: &mut Node) {
    match source.below(4) {
        0 => node.turn(),
        1 => node.sync(),
        2 => node.settle(),
        _ => node.pass(source.number().min(120_000)),
    }
}

/// What else happens around a node.
fn world(source: &mut Source<'_>, node: &mut Node, timing: Timing) {
    let peer = House::member(*source.pick(&[2, 3, NODE, 9]).expect("members"));
    match source.below(6) {
        0 => node.step(Input::PeerDown(peer)),
        1 => node.step(Input::PeerUp(peer)),
        2 => node.step(Input::DiskFull(source.coin())),
        3 => node.step(Input::Behind { from: peer }),
        4 => node.restart(source.below(3), timing),
        _ => {
            node.restart(source.below(3), timing);
            node.meet_peers();
        }
    }
}

fn timing(source: &mut Source<'_>) -> Timing {
    let usual = Timing::default();
    match source.below(3) {
        0 => usual,
        1 => Timing { deadline: 500, resend: 50, hedge: 5, linger: 100, epoch: 1_000 },
        _ => Timing { hedge: 0, epoch: 5_000, ..usual },
    }
}
