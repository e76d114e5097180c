//! `registers.json`: states, their hashes, how writes stand to them, what changes make of them, and
//! what the gate says of them.

use bytes::Bytes;
use serde_json::{Value, json};
use tanist::core::codec;
use tanist::core::events::Past;
use tanist::core::object::Key;
use tanist::core::register::{Bound, RegisterState, Standing};
use tanist::core::verified::{Held, Rejection, RootCache, Verifier};
use tanist::core::version::{Stamps, Version};
use tanist::core::write::{Body, Fence, Term, Write, WriteId};

use crate::owning::resource;
use crate::support::{File, hex, shown};
use crate::world::{World, client, sign};

fn standing_json(standing: &Standing) -> Value {
    match standing {
        Standing::Applied => json!("Applied"),
        Standing::Open => json!("Open"),
        Standing::Refused => json!("Refused"),
        Standing::Fenced(bound) => json!({ "Fenced": shown(bound) }),
        Standing::Ahead => json!("Ahead"),
        Standing::Expired => json!("Expired"),
    }
}

fn fence(name: &str, number: u64) -> Fence {
    Fence {
        resource: resource(name),
        term: Term { recovery: 0, number },
        tenure: WriteId([number as u8; 32]),
    }
}

struct Registers<'a> {
    world: &'a World,
    file: File,
}

impl Registers<'_> {
    fn write(&self, nonce: u8, parents: &[&Write], fence: Option<Fence>) -> Write {
        let mut write = self.world.write("job", nonce, parents, Body::put(&[nonce]));
        (write.namespace, write.fence) = (self.world.jobs, fence);
        write
    }

    fn version(&self, write: &Write, counter: u64) -> Version {
        self.stamped(write, (counter - 1, counter), Past::new(), 2, 0)
    }

    fn stamped(&self, write: &Write, event: (u64, u64), past: Past, revision: u64, signer: usize) -> Version {
        let mut stamp = self.world.stamp(write, 0, event.0, event.1, past);
        stamp.policy_revision = revision;
        let mut stamps = Stamps::default();
        stamps.insert(self.world.sign_stamp(stamp, signer));
        Version { signed: sign(write, &client()), stamps }
    }

    fn state(&mut self, name: &str, state: &RegisterState) {
        let version = state.version.as_ref().map(|version| {
            let stamps: Vec<_> = version.stamps.iter().map(|stamp| stamp.hash()).collect();
            (version.id(), stamps)
        });
        let input = codec::encode(&(state.generation, version, &state.bound, &state.recent, &state.void));
        self.file.valid(json!({
            "name": name, "kind": "state", "fields": shown(state), "encoded": hex(codec::encode(state)),
            "hashed": hex(input), "hash": shown(&state.hash()),
        }));
    }

    fn standing(
        &mut self,
        name: &str,
        state: &RegisterState,
        write: &Write,
        owned: Option<&Key>,
        is: &Standing,
    ) {
        assert_eq!(state.standing(write, write.id(), owned), *is, "{name}");
        let case = self.case_of(name, state, write, owned, is);
        self.file.valid(case);
    }

    /// A judgement that a wrong rule comes to.
    fn not_standing(
        &mut self,
        name: &str,
        state: &RegisterState,
        write: &Write,
        owned: Option<&Key>,
        not: &Standing,
    ) {
        assert_ne!(state.standing(write, write.id(), owned), *not, "{name}");
        let mut case = self.case_of(name, state, write, owned, not);
        case["reason"] = json!("standing");
        self.file.invalid(case);
    }

    fn case_of(
        &self,
        name: &str,
        state: &RegisterState,
        write: &Write,
        owned: Option<&Key>,
        is: &Standing,
    ) -> Value {
        json!({
            "name": name, "kind": "standing", "state": hex(codec::encode(state)), "hash": shown(&state.hash()),
            "write": hex(codec::encode(write)), "id": shown(&write.id()), "owned_by": shown(&owned),
            "standing": standing_json(is),
        })
    }

    fn result(
        &mut self,
        name: &str,
        mut case: Value,
        before: &RegisterState,
        after: Result<&RegisterState, &str>,
    ) {
        case["name"] = json!(name);
        case["state"] = json!(hex(codec::encode(before)));
        match after {
            Ok(after) => {
                assert_eq!(after.check(), Ok(()), "{name}");
                case["result"] = json!(hex(codec::encode(after)));
                self.file.valid(case);
            }
            Err(reason) => {
                case["reason"] = json!(reason);
                self.file.invalid(case);
            }
        }
    }

    /// A result that a wrong rule comes to.
    fn not_result(
        &mut self,
        name: &str,
        mut case: Value,
        before: &RegisterState,
        right: &RegisterState,
        wrong: &RegisterState,
    ) {
        assert_ne!(right, wrong, "{name}");
        case["result"] = json!(hex(codec::encode(wrong)));
        self.result(name, case, before, Err("result"));
    }

    fn held(&mut self, name: &str, state: &RegisterState, value: &[u8], expected: Option<&str>) {
        let held = Held { state: state.clone(), value: Bytes::copy_from_slice(value) };
        let cache = RootCache::default();
        let judged = Verifier::new(&self.world.config, &cache).held(held).map(|_| ());
        let reason = |rejection: &Rejection| crate::versions::reason(rejection).to_owned();
        assert_eq!(judged.as_ref().err().map(reason).as_deref(), expected, "{name}");
        let mut case = json!({
            "name": name, "kind": "held", "chains": "the example cluster", "state": hex(codec::encode(state)),
            "value": hex(value),
        });
        match expected {
            None => self.file.valid(case),
            Some(reason) => {
                case["reason"] = json!(reason);
                self.file.invalid(case);
            }
        }
    }

    fn refuse_state(&mut self, name: &str, state: &RegisterState) {
        self.file.refuse::<RegisterState>(name, "decode", &codec::encode(state).into(), "state");
    }
}

fn apply_case(version: &Version) -> Value {
    json!({ "kind": "apply", "version": hex(codec::encode(version)) })
}

fn seal_case(fence: &Fence) -> Value {
    json!({ "kind": "seal", "fence": hex(codec::encode(fence)) })
}

fn forbid_case(generation: u64, id: WriteId) -> Value {
    json!({ "kind": "forbid", "generation": generation, "id": shown(&id) })
}

#[test]
fn registers() {
    let world = World::new();
    let mut r = Registers { world: &world, file: File::new("registers.json", "registers.md") };
    let empty = RegisterState::default();

    // Forty writes, each on the one before: the state remembers 32.
    let mut writes = vec![r.write(1, &[], None)];
    for nonce in 2..=40 {
        let next = r.write(nonce, &[writes.last().unwrap()], None);
        writes.push(next);
    }
    let versions: Vec<Version> = writes.iter().zip(1u64..).map(|(write, n)| r.version(write, n)).collect();
    let mut states = vec![empty.clone()];
    for version in &versions {
        states.push(states.last().unwrap().apply(version.clone()));
    }
    let (one, two, full) = (states[1].clone(), states[2].clone(), states[40].clone());
    let owned = fence("billing", 3);
    let fenced_write = r.write(50, &[&writes[0]], Some(owned.clone()));
    let fenced = one.apply(r.version(&fenced_write, 60));
    let forbidden = WriteId([0x66; 32]);
    let void = two.forbid(4, forbidden).unwrap().forbid(3, WriteId([0x99; 32])).unwrap();
    r.state("the state of a key that was never written", &empty);
    r.state("one write", &one);
    r.state("two writes", &two);
    r.state("bound to a resource", &fenced);
    r.state("sealed before it was written", &empty.seal(&owned));
    r.state("two void writes", &void);

    standings(&mut r, &states, &writes, &fenced, &fenced_write);

    r.result("the first write", apply_case(&versions[0]), &empty, Ok(&one));
    r.result("the second write", apply_case(&versions[1]), &one, Ok(&two));
    r.result(
        "the 33rd write: the first is forgotten",
        apply_case(&versions[32]),
        &states[32],
        Ok(&states[33]),
    );
    r.result("a fenced write binds", apply_case(&r.version(&fenced_write, 60)), &one, Ok(&fenced));
    let later = r.write(51, &[&fenced_write], Some(fence("billing", 9)));
    let raised = fenced.apply(r.version(&later, 61));
    r.result("a write of a higher term raises it", apply_case(&r.version(&later, 61)), &fenced, Ok(&raised));
    let third = r.version(&writes[2], 3);
    r.result(
        "void writes of passed generations go",
        apply_case(&third),
        &void,
        Ok(&void.apply(third.clone())),
    );
    r.not_result(
        "void writes kept for ever",
        apply_case(&third),
        &void,
        &void.apply(third.clone()),
        &RegisterState { void: void.void.clone(), ..void.apply(third.clone()) },
    );
    let lower = RegisterState { bound: fenced.bound.clone(), ..raised.clone() };
    r.not_result("a term that does not rise", apply_case(&r.version(&later, 61)), &fenced, &raised, &lower);
    let unbound = RegisterState { bound: None, ..fenced.clone() };
    r.not_result(
        "a fenced write that binds nothing",
        apply_case(&r.version(&fenced_write, 60)),
        &one,
        &fenced,
        &unbound,
    );

    r.result("a seal", seal_case(&owned), &two, Ok(&two.seal(&owned)));
    r.result("a seal of a key that was never written", seal_case(&owned), &empty, Ok(&empty.seal(&owned)));
    let higher = fence("billing", 8);
    r.result("a seal of a higher term", seal_case(&higher), &fenced, Ok(&fenced.seal(&higher)));
    r.result("a seal of the same term", seal_case(&owned), &fenced, Ok(&fenced));
    let swapped = two.seal(&higher);
    r.not_result("a seal of another term", seal_case(&owned), &two, &two.seal(&owned), &swapped);
    r.not_result("a seal that changes nothing", seal_case(&owned), &two, &two.seal(&owned), &two);
    for (name, fence, owned_by) in [
        ("a seal of a lower term", fence("billing", 2), None),
        ("a seal of another resource", fence("other", 9), None),
    ] {
        assert!(fenced.fences(Some(&fence), owned_by).is_some(), "{name}");
        r.result(name, seal_case(&fence), &fenced, Err("fenced"));
    }

    let third = two.forbid(3, forbidden).unwrap();
    r.result("a write is forbidden", forbid_case(3, forbidden), &two, Ok(&third));
    r.result("a write is forbidden twice", forbid_case(3, forbidden), &third, Ok(&third));
    r.result(
        "void writes are sorted",
        forbid_case(3, WriteId([0x11; 32])),
        &void,
        Ok(&void.forbid(3, WriteId([0x11; 32])).unwrap()),
    );
    r.result("a write of a passed generation needs no ban", forbid_case(2, forbidden), &two, Ok(&two));
    let mut crowded = two.clone();
    for n in 0..32 {
        crowded = crowded.forbid(3 + u64::from(n), WriteId([n; 32])).unwrap();
    }
    assert!(crowded.forbid(90, forbidden).is_err());
    r.result("a 33rd void write", forbid_case(90, forbidden), &crowded, Err("void"));
    r.not_result("a ban that is forgotten", forbid_case(3, forbidden), &two, &third, &two);

    r.refuse_state("a generation without a version", &RegisterState { generation: 1, ..empty.clone() });
    r.refuse_state("another generation than the version's", &RegisterState { generation: 3, ..two.clone() });
    r.refuse_state("nothing remembered", &RegisterState { recent: vec![], ..two.clone() });
    r.refuse_state(
        "too little remembered",
        &RegisterState { recent: two.recent[..1].to_vec(), ..two.clone() },
    );
    let mut swapped = two.clone();
    swapped.recent.reverse();
    r.refuse_state("the oldest remembered first", &swapped);
    let mut more = full.clone();
    more.recent.push(writes[7].id());
    r.refuse_state("33 remembered", &more);
    let mut unsorted = void.clone();
    unsorted.void.reverse();
    r.refuse_state("void writes out of order", &unsorted);
    r.refuse_state("a void write twice", &RegisterState { void: vec![void.void[0]; 2], ..void.clone() });
    r.refuse_state(
        "a void write of a passed generation",
        &RegisterState { void: vec![(2, forbidden)], ..two.clone() },
    );
    let mut over = crowded.clone();
    over.void.push((99, forbidden));
    r.refuse_state("33 void writes", &over);
    let stamps = world.version(&writes[1], &[(0, 1, 2, Past::new()), (1, 1, 2, Past::new())]);
    r.refuse_state("two stamps", &RegisterState { version: Some(stamps), ..two.clone() });
    let none = Version { stamps: Stamps::default(), ..versions[1].clone() };
    r.refuse_state("no stamp", &RegisterState { version: Some(none), ..two.clone() });
    let other = world.sign_stamp(world.stamp(&writes[0], 0, 1, 2, Past::new()), 0);
    let mut of_other = Stamps::default();
    of_other.insert(other);
    let of_other = Version { stamps: of_other, ..versions[1].clone() };
    r.refuse_state("a stamp of another write", &RegisterState { version: Some(of_other), ..two.clone() });
    let left_over = [codec::encode(&two), vec![0]].concat();
    r.file.refuse::<RegisterState>("a byte left over", "decode", &left_over.into(), "left-over");

    gate(&mut r, &empty, &one, &writes);
    r.file.check();
}

fn standings(
    r: &mut Registers<'_>,
    states: &[RegisterState],
    writes: &[Write],
    fenced: &RegisterState,
    fenced_write: &Write,
) {
    use Standing::{Ahead, Applied, Expired, Fenced, Open, Refused};
    let (empty, two, full) = (&states[0], &states[2], &states[40]);
    r.standing("a first write", empty, &writes[0], None, &Open);
    r.standing("a write of the current version", two, &writes[2], None, &Open);
    r.standing("the current version's write", two, &writes[1], None, &Applied);
    r.standing("an earlier write", two, &writes[0], None, &Applied);
    r.standing("the oldest that is remembered", full, &writes[8], None, &Applied);
    r.standing("the youngest that is forgotten", full, &writes[7], None, &Expired);
    let rival = r.write(90, &[&writes[0]], None);
    r.standing("a rival of the current version", two, &rival, None, &Refused);
    let old_rival = r.write(91, &[&writes[6]], None);
    r.standing("a rival of a write that is forgotten", full, &old_rival, None, &Expired);
    let child = r.write(92, &[&rival], None);
    r.standing("a write of a version that is not the current one", two, &child, None, &Refused);
    r.standing("a write two generations on", two, &writes[3], None, &Ahead);
    let mut merging = r.write(93, &[&writes[1], &rival], None);
    merging.generation = 3;
    r.standing("a write of two parents", two, &merging, None, &Refused);
    let void = two.forbid(3, writes[2].id()).unwrap();
    r.standing("a write that is forbidden", &void, &writes[2], None, &Refused);
    let far = two.forbid(4, writes[3].id()).unwrap();
    r.standing("a write of a later generation that is forbidden", &far, &writes[3], None, &Refused);

    let bound = Bound { resource: resource("billing"), term: Term { recovery: 0, number: 3 } };
    let on = |r: &Registers<'_>, nonce, fence| r.write(nonce, &[fenced_write], fence);
    let plain = on(r, 94, None);
    r.standing("an unfenced write of a bound key", fenced, &plain, None, &Fenced(bound.clone()));
    let lower = on(r, 95, Some(fence("billing", 2)));
    r.standing("a write of a lower term", fenced, &lower, None, &Fenced(bound.clone()));
    let foreign = on(r, 96, Some(fence("other", 9)));
    r.standing("a write of another resource", fenced, &foreign, None, &Fenced(bound.clone()));
    let same = on(r, 97, Some(fence("billing", 3)));
    r.standing("a write of the same term", fenced, &same, None, &Open);
    let higher = on(r, 98, Some(fence("billing", 4)));
    r.standing("a write of a higher term", fenced, &higher, None, &Open);
    r.standing(
        "a fenced write that was applied, after the term rose",
        &fenced.seal(&fence("billing", 7)),
        fenced_write,
        None,
        &Applied,
    );
    let mut restored = fence("billing", 1);
    restored.term.recovery = 1;
    let after = on(r, 99, Some(restored));
    r.standing("a term after a restore", fenced, &after, None, &Open);
    let ahead = r.write(100, &[&same], None);
    r.standing("a fence decides before the generation", fenced, &ahead, None, &Fenced(bound.clone()));
    let from_birth = Bound { resource: resource("billing"), term: Term { recovery: 0, number: 0 } };
    let billing = resource("billing");
    r.standing(
        "a first write in an owned namespace, unfenced",
        empty,
        &writes[0],
        Some(&billing),
        &Fenced(from_birth.clone()),
    );
    let first = r.write(101, &[], Some(fence("billing", 1)));
    r.standing("a first write in an owned namespace, fenced", empty, &first, Some(&billing), &Open);
    let first_foreign = r.write(102, &[], Some(fence("other", 1)));
    r.standing(
        "a first write in an owned namespace, of another resource",
        empty,
        &first_foreign,
        Some(&billing),
        &Fenced(from_birth),
    );

    for (name, state, write, not) in [
        ("the memory is ignored: refused by its parents", two, &writes[0], Refused),
        ("what is forgotten counts as refused", full, &writes[7], Refused),
        ("what is forgotten counts as applied", full, &writes[7], Applied),
        ("a rival counts as applied", two, &rival, Applied),
        ("parents are not looked at", two, &child, Open),
        ("a later generation counts as refused", two, &writes[3], Refused),
        ("a later generation counts as open", two, &writes[3], Open),
        ("one of two parents is enough", two, &merging, Open),
        ("void writes are ignored", &void, &writes[2], Open),
        ("void writes are looked at only when it is their turn", &far, &writes[3], Ahead),
        ("fences are ignored", fenced, &plain, Open),
        ("terms are not compared", fenced, &lower, Open),
        ("resources are not compared", fenced, &foreign, Open),
        ("a term must be higher", fenced, &same, Fenced(bound.clone())),
        ("recoveries are not compared", fenced, &after, Fenced(bound.clone())),
        ("the generation decides before a fence", fenced, &ahead, Ahead),
    ] {
        r.not_standing(name, state, write, None, &not);
    }
    r.not_standing("an owned namespace takes any first write", empty, &writes[0], Some(&billing), &Open);
    let sealed = fenced.seal(&fence("billing", 7));
    let bound = sealed.bound.clone().unwrap();
    r.not_standing("the fence decides before the memory", &sealed, fenced_write, None, &Fenced(bound));
}

fn gate(r: &mut Registers<'_>, empty: &RegisterState, one: &RegisterState, writes: &[Write]) {
    let world = r.world;
    r.held("a state with its value", one, &[1], None);
    r.held("an empty state", empty, b"", None);
    r.held("a state with another value", one, b"x", Some("value"));
    r.held("an empty state with a value", empty, b"x", Some("value"));
    let carts = world.write("job", 1, &[], Body::put(&[1]));
    let among_siblings = empty.apply(world.version(&carts, &[(0, 0, 1, Past::new())]));
    r.held("a state in a namespace of siblings", &among_siblings, &[1], Some("mode"));
    let with =
        |event, past, revision, signer| empty.apply(r.stamped(&writes[0], event, past, revision, signer));
    let cases = [
        ("an event that is a range", with((0, 5), Past::new(), 2, 0), "past"),
        ("a stamp with a past", with((0, 1), world.past(&[(1, 0, 1)]), 2, 0), "past"),
        ("a stamp that is forged", with((0, 1), Past::new(), 2, 1), "stamp-signature"),
        ("a revision before the namespace", with((0, 1), Past::new(), 1, 0), "no-right"),
        ("a revision that is not known yet", with((0, 1), Past::new(), 7, 0), "needs-entry"),
    ];
    for (name, state, expected) in cases {
        r.held(name, &state, &[1], Some(expected));
    }
}
