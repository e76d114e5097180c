//! P11: a node whose data went backwards is noticed before it counts, whenever a member that it can
//! reach remembers later.

use tanist::core::identity::{Incarnation, MemberId};
use tanist::engine::rows;
use tanist::engine::store::View as _;

use crate::founding::member_id;
use crate::world::World;

/// An old disk came back.
#[derive(Debug, Clone)]
pub struct Rollback {
    /// The life that was rolled back.
    pub incarnation: Incarnation,
    /// Where the disk ends now.
    pub batch: u64,
    /// The members whose disks remember something later.
    pub remembered_by: Vec<MemberId>,
    /// The node counted since. [`on_counting`] saw that a majority without those members had confirmed
    /// it, and from then on its batches pass what they remember: the limit that P11 names.
    pub counted: bool,
}

impl World {
    /// Whether a node whose disk went back counted under its old name, because nobody that it could ask
    /// remembered: the limit that P11 names. What acceptors promised and which events were stamped may be
    /// forgotten then.
    pub fn forgot_unnoticed(&self) -> bool {
        self.nodes.iter().any(|node| node.rollback.as_ref().is_some_and(|rollback| rollback.counted))
    }

    /// Notes what peers durably remember of a node whose old disk came back.
    pub fn note_rollback(&mut self, node: usize, batch: u64) {
        let Some(incarnation) = self.nodes[node].disk.incarnation else { return };
        let remembers = |peer: &usize| {
            let row = self.nodes[*peer].disk.rows.get(&rows::memory(member_id(node))).expect("memory reads");
            let memory: Option<(Incarnation, u64)> = row.map(|row| rows::decode(&row).expect("decodes"));
            memory.is_some_and(|(of, last)| of == incarnation && last > batch)
        };
        let peers = (0..self.options.nodes).filter(|peer| *peer != node);
        let remembered_by = peers.filter(remembers).map(member_id).collect();
        self.nodes[node].rollback = Some(Rollback { incarnation, batch, remembered_by, counted: false });
    }
}

/// A node counts: it is listed, and so many members remember nothing later that it had to be believed.
pub fn on_counting(world: &World, node: usize) -> Result<(), String> {
    let config = &world.config;
    let Some(incarnation) = world.nodes[node].disk.incarnation else {
        return Err(format!("node {node} counts without an incarnation"));
    };
    let ever = (1..=config.config_epoch()).filter_map(|epoch| config.membership(epoch));
    let listed = ever
        .flat_map(|voters| &voters.members)
        .any(|member| member.id == member_id(node) && member.incarnation == incarnation);
    if !listed {
        return Err(format!("node {node} counts as {incarnation:?}, which no configuration lists"));
    }
    match &world.nodes[node].rollback {
        Some(rollback) if rollback.incarnation == incarnation => {
            let electorate = config.current().electorate.len();
            let ignorant = electorate - 1 - rollback.remembered_by.len();
            if ignorant + 1 < config.majority() {
                return Err(format!("node {node} counts after {rollback:?}"));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// After the heal phase, in which everybody can be reached, no node goes on under the name of a life
/// of which somebody remembers more than it has; one aside that a majority without a witness had let
/// count before the witness was back (seed 446).
pub fn at_end(world: &World) -> Result<(), String> {
    for (index, node) in world.nodes.iter().enumerate() {
        if let Some(rollback) = &node.rollback
            && node.disk.incarnation == Some(rollback.incarnation)
            && !rollback.remembered_by.is_empty()
            && !rollback.counted
        {
            let (batch, by) = (rollback.batch, &rollback.remembered_by);
            return Err(format!("node {index} went back to batch {batch} and was never noticed: {by:?}"));
        }
    }
    Ok(())
}
