//! `placement.json`: scores and the order of replicas.

use serde_json::{Value, json};
use tanist::core::chain::{Member, Voters};
use tanist::core::hash::{Context, Hash};
use tanist::core::identity::{Incarnation, MemberId};
use tanist::core::object::ObjectId;
use tanist::core::placement;

use crate::support::{File, shown};
use crate::world::{admin, key_of};

fn voters(zones: &[&str], replicas: u8) -> Voters {
    let members: Vec<Member> = zones
        .iter()
        .zip(1u8..)
        .map(|(zone, n)| Member {
            id: MemberId([n; 16]),
            name: format!("n{n}"),
            key: key_of(n).public(),
            incarnation: Incarnation([n; 16]),
            zone: (*zone).to_owned(),
        })
        .collect();
    let electorate = vec![members[0].id];
    let admins = vec![admin().public()];
    Voters { nonce: [0; 16], recovery: 0, members, electorate, replicas, admins, grants: vec![] }
}

fn case(name: &str, voters: &Voters, object: ObjectId, order: &[MemberId]) -> Value {
    let members: Vec<Value> = voters
        .members
        .iter()
        .map(|member| json!({
            "id": shown(&member.id), "zone": member.zone, "score": shown(&Hash::of(Context::Placement, &(member.id, object))),
        }))
        .collect();
    json!({
        "name": name, "kind": "placement", "members": members, "replicas": voters.replicas, "object": shown(&object),
        "order": shown(order),
    })
}

#[test]
fn placement() {
    let mut file = File::new("placement.json", "objects.md");
    let layouts: [(&str, &[&str], u8); 6] = [
        ("three members without zones", &["", "", ""], 3),
        ("five members without zones", &["", "", "", "", ""], 3),
        ("a zone for each replica", &["x", "x", "y", "y", "z"], 3),
        ("fewer zones than replicas", &["x", "x", "x", "y", "y"], 3),
        ("five replicas in two zones", &["x", "x", "x", "x", "y", "y"], 5),
        ("fewer members than replicas", &["x"], 3),
    ];
    let mut wrong = Vec::new();
    for (name, zones, replicas) in layouts {
        let voters = voters(zones, replicas);
        for n in 0..3u8 {
            let object = ObjectId([n; 32]);
            let order = placement::replicas(&voters, object);
            let name = format!("{name}, object {n}");
            file.valid(case(&name, &voters, object, &order));
            let mut ranked: Vec<MemberId> = voters.members.iter().map(|member| member.id).collect();
            ranked.sort_by_key(|id| Hash::of(Context::Placement, &(*id, object)));
            let lowest = ranked[..order.len()].to_vec();
            ranked.reverse();
            let zoneless = ranked[..order.len()].to_vec();
            let mut rotated = order.clone();
            rotated.rotate_left(1);
            let swapped = placement::replicas(&voters, ObjectId([n ^ 0x80; 32]));
            for (rule, claimed) in [
                ("the lowest score first", lowest),
                ("zones ignored", zoneless),
                ("the preferred one last", rotated),
                ("the order of another object", swapped),
                ("one replica too few", order[1..].to_vec()),
            ] {
                if claimed != order {
                    wrong.push((format!("{name}: {rule}"), voters.clone(), object, claimed));
                }
            }
        }
    }
    electorates(&mut file);
    for (name, voters, object, claimed) in wrong {
        let mut case = case(&name, &voters, object, &claimed);
        case["reason"] = json!("order");
        file.invalid(case);
    }
    file.check();
}

/// The voters of a resource: the electorate, zones aside.
fn electorates(file: &mut File) {
    let mut voters = voters(&["x", "x", "x", "y", "y", "z"], 3);
    voters.electorate = [0, 1, 2, 4, 5].map(|n: usize| voters.members[n].id).to_vec();
    for n in 0..3u8 {
        let object = ObjectId([n; 32]);
        let order = placement::electorate(&voters, object);
        let mut right = case(&format!("a resource, object {n}"), &voters, object, &order);
        right["electorate"] = shown(&voters.electorate);
        let replicas = placement::replicas(&voters, object);
        let mut rotated = order.clone();
        rotated.rotate_left(1);
        for (rule, claimed) in [
            ("the replicas of a key", replicas),
            ("the order of the list", voters.electorate.clone()),
            ("three of five", order[..3].to_vec()),
            ("the preferred one last", rotated),
        ] {
            assert_ne!(claimed, order);
            let mut wrong = right.clone();
            wrong["name"] = json!(format!("a resource, object {n}: {rule}"));
            wrong["order"] = shown(&claimed);
            wrong["reason"] = json!("order");
            file.invalid(wrong);
        }
        file.valid(right);
    }
}
