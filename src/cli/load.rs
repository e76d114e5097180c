//! Writers that go on until they are told to stop, and remember what was acknowledged and when.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{Client, Reading, Space, WriteError, Written};
use crate::core::identity::MemberId;
use crate::core::object::{InvalidKey, Key, ObjectId};
use crate::core::placement;
use crate::engine::Millis;
use crate::node::clock::Clock;

/// A writer that was told that nothing changed tries again after this long.
const AGAIN: Duration = Duration::from_millis(2);

/// Writers at work. Dropped, they stop at once.
#[derive(Debug)]
pub struct Load {
    stop: watch::Sender<bool>,
    writers: JoinSet<Record>,
}

/// What became of one writer's writes. No other writer has its keys.
#[derive(Debug, Default)]
pub struct Record {
    /// Whose it is: as it was given to [`Load::add`].
    pub group: &'static str,
    /// Its keys.
    pub keys: BTreeMap<String, Last>,
    /// When writes were acknowledged.
    pub acknowledged: Vec<Millis>,
    /// Writes that certainly changed nothing, and were made again.
    pub failed: u64,
    /// Why the last of these failed.
    pub last_failure: String,
}

/// The last writes to one key.
#[derive(Debug, Default)]
pub struct Last {
    /// The newest value that was acknowledged.
    pub acknowledged: Option<Bytes>,
    /// Newer values, for which no answer came.
    pub doubtful: Vec<Bytes>,
}

impl Load {
    /// No writers yet.
    pub fn new() -> Self {
        Load { stop: watch::Sender::new(false), writers: JoinSet::new() }
    }

    /// Starts a writer that overwrites its keys in turn, one write at a time.
    pub fn add(&mut self, group: &'static str, namespace: impl Into<Space>, keys: Vec<String>, clock: Clock) {
        let stop = self.stop.subscribe();
        self.writers.spawn(write(group, namespace.into(), keys, clock, stop));
    }

    /// Has the writers finish the writes that they are at.
    pub async fn finish(mut self) -> Vec<Record> {
        self.stop.send_replace(true);
        let mut records = Vec::new();
        while let Some(record) = self.writers.join_next().await {
            // A writer that panicked has said so; what it wrote is not counted for it.
            records.extend(record.ok());
        }
        records
    }
}

impl Default for Load {
    fn default() -> Self {
        Self::new()
    }
}

impl Record {
    /// The longest time between two acknowledgements, from `from` to `to`.
    pub fn longest_gap(&self, from: Millis, to: Millis) -> Millis {
        let between = self.acknowledged.iter().copied().filter(|at| (from..=to).contains(at));
        let mut last = from;
        let gaps = between.chain([to]).map(|at| {
            let gap = at.saturating_sub(last);
            last = at;
            gap
        });
        gaps.max().unwrap_or(0)
    }
}

impl Last {
    /// Whether what is there now is what was written last, as far as the writer knows.
    pub fn is_kept(&self, reading: &Reading) -> bool {
        let Some(acknowledged) = &self.acknowledged else { return true };
        let mut live = reading.siblings().iter().filter_map(|sibling| sibling.value());
        live.any(|value| value == acknowledged || self.doubtful.contains(value))
    }
}

/// The longest gap of any writer of `group`.
pub fn longest_gap(records: &[Record], group: &str, from: Millis, to: Millis) -> Millis {
    let of_group = records.iter().filter(|record| record.group == group);
    of_group.map(|record| record.longest_gap(from, to)).max().unwrap_or(to.saturating_sub(from))
}

/// Acknowledged writes of all writers between `from` and `to`.
pub fn acknowledged(records: &[Record], from: Millis, to: Millis) -> usize {
    let all = records.iter().flat_map(|record| &record.acknowledged);
    all.filter(|at| (from..=to).contains(*at)).count()
}

/// Whom the placement names first for a key: clients write through it while it answers.
pub fn preferred(client: &Client, namespace: &Space, key: &str) -> Result<Option<MemberId>, InvalidKey> {
    let object = ObjectId::new(namespace.id(), &Key::try_from(key)?);
    Ok(placement::replicas(client.configuration().current(), object).first().copied())
}

/// So many names of keys that clients write through `member`.
pub fn keys_preferring(
    namespace: &Space,
    member: MemberId,
    prefix: &str,
    count: usize,
) -> Result<Vec<String>, InvalidKey> {
    let mut keys = Vec::new();
    for n in 0.. {
        if keys.len() == count {
            break;
        }
        let key = format!("{prefix}/{n}");
        if preferred(namespace.client(), namespace, &key)? == Some(member) {
            keys.push(key);
        }
    }
    Ok(keys)
}

async fn write(
    group: &'static str,
    namespace: Space,
    keys: Vec<String>,
    clock: Clock,
    mut stop: watch::Receiver<bool>,
) -> Record {
    let mut record = Record { group, ..Record::default() };
    for (n, key) in (0u64..).zip(keys.iter().cycle()) {
        if *stop.borrow_and_update() {
            break;
        }
        let value = Bytes::from(format!("{key} {n}"));
        let last = record.keys.entry(key.clone()).or_default();
        match insist(&namespace, key, &value, &mut last.doubtful, &stop).await {
            Ok(()) => {
                last.acknowledged = Some(value);
                last.doubtful.clear();
                record.acknowledged.push(clock.now());
            }
            Err(why) => {
                record.failed += 1;
                record.last_failure = why;
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
    record
}

/// Writes, and clears up any doubt about it before the next write.
async fn insist(
    namespace: &Space,
    key: &str,
    value: &Bytes,
    doubtful: &mut Vec<Bytes>,
    stop: &watch::Receiver<bool>,
) -> Result<(), String> {
    let mut outcome = namespace.overwrite(key, value.clone()).await;
    loop {
        match outcome {
            Ok(Written::Applied { .. }) => return Ok(()),
            Ok(Written::Refused { reason, .. }) => return Err(reason.to_string()),
            Err(WriteError::Unknown(unknown)) => {
                if !doubtful.contains(value) {
                    doubtful.push(value.clone());
                }
                if *stop.borrow() {
                    return Err(unknown.to_string());
                }
                outcome = unknown.settle().await;
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_reaches_from_the_beginning_to_the_end() {
        let record = |acknowledged: &[Millis]| Record {
            group: "a",
            acknowledged: acknowledged.to_vec(),
            ..Record::default()
        };
        assert_eq!(record(&[5, 11, 19, 22]).longest_gap(10, 20), 8);
        assert_eq!(record(&[5, 22]).longest_gap(10, 20), 10, "nothing in between");
        assert_eq!(record(&[10, 11]).longest_gap(10, 20), 9, "the end counts");
        assert_eq!(longest_gap(&[record(&[12])], "b", 10, 20), 10, "nobody of the group");
        assert_eq!(acknowledged(&[record(&[5, 12]), record(&[20, 21])], 10, 20), 2);
    }
}
