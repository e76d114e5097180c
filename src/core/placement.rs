//! Where the replicas of an object are: rendezvous hashing over members and zones.
//!
//! Every member has a score for every object; the highest scores hold it, except that a zone that is
//! used already comes after one that is not. When a member comes or goes, only the objects it holds
//! move (Thaler and Ravishankar, "A Name-Based Mapping Scheme for Rendezvous", 1996).

use super::chain::{Member, Voters};
use super::hash::{Context, Hash};
use super::identity::MemberId;
use super::object::ObjectId;

/// The members that hold `object`, the preferred coordinator first.
pub fn replicas(voters: &Voters, object: ObjectId) -> Vec<MemberId> {
    let mut ranked: Vec<(Hash, &Member)> = voters
        .members
        .iter()
        .map(|member| (Hash::of(Context::Placement, &(member.id, object)), member))
        .collect();
    ranked.sort_by_key(|(score, member)| std::cmp::Reverse((*score, member.id)));
    let count = usize::from(voters.replicas).min(ranked.len());
    let mut chosen = Vec::with_capacity(count);
    let mut zones: Vec<&str> = Vec::new();
    while chosen.len() < count {
        let fresh = ranked.iter().position(|(_, member)| !zones.contains(&member.zone.as_str()));
        let Some(at) = fresh else {
            // Every zone is used once more before any is used a third time.
            zones.clear();
            continue;
        };
        let (_, member) = ranked.remove(at);
        zones.push(&member.zone);
        chosen.push(member.id);
    }
    chosen
}

/// The electorate in the order in which it is asked about `object`, a resource.
pub fn electorate(voters: &Voters, object: ObjectId) -> Vec<MemberId> {
    let mut ranked: Vec<(Hash, MemberId)> =
        voters.electorate.iter().map(|id| (Hash::of(Context::Placement, &(id, object)), *id)).collect();
    ranked.sort_by_key(|ranked| std::cmp::Reverse(*ranked));
    ranked.into_iter().map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::identity::{Incarnation, SecretKey};

    fn voters(zones: &[&str], replicas: u8) -> Voters {
        let members = zones
            .iter()
            .zip(1u8..)
            .map(|(zone, n)| Member {
                id: MemberId([n; 16]),
                name: format!("n{n}"),
                key: SecretKey::from_seed(&[n; 32]).public(),
                incarnation: Incarnation([n; 16]),
                zone: (*zone).to_owned(),
            })
            .collect();
        Voters {
            nonce: [0; 16],
            recovery: 0,
            members,
            electorate: vec![MemberId([1; 16])],
            replicas,
            admins: vec![],
            grants: vec![],
        }
    }

    #[test]
    fn replicas_spread_over_zones_and_objects_over_members() {
        let voters = voters(&["x", "x", "y", "y", "z"], 3);
        let mut first = std::collections::BTreeMap::new();
        for n in 0..1000u32 {
            let object = ObjectId(Hash::of(Context::Object, &n).0);
            let chosen = replicas(&voters, object);
            let zone = |id: &MemberId| voters.members.iter().find(|m| m.id == *id).unwrap().zone.clone();
            let mut zones: Vec<String> = chosen.iter().map(zone).collect();
            zones.sort();
            assert_eq!(zones, ["x", "y", "z"]);
            *first.entry(chosen[0]).or_insert(0) += 1;
        }
        assert!(first.values().all(|count| (120..300).contains(count)), "{first:?}");
    }

    #[test]
    fn a_member_that_goes_moves_only_what_it_held() {
        let before = voters(&["", "", "", "", ""], 3);
        let mut after = before.clone();
        let gone = after.members.remove(2).id;
        for n in 0..200u32 {
            let object = ObjectId(Hash::of(Context::Object, &n).0);
            let (old, new) = (replicas(&before, object), replicas(&after, object));
            if !old.contains(&gone) {
                assert_eq!(old, new);
            } else {
                assert_eq!(old.iter().filter(|id| new.contains(id)).count(), 2);
            }
        }
    }

    #[test]
    fn fewer_members_than_replicas_hold_everything() {
        assert_eq!(replicas(&voters(&[""], 3), ObjectId([0; 32])).len(), 1);
    }
}
