//! What a client may say.

use tanist::core::chain::{Chain, ConfigChange, ENTRY_FORMAT, Entry, Grant, Rights, SignedEntry};
use tanist::core::identity::SecretKey;
use tanist::core::signature::sign_one;
use tanist::core::tenure::{self, Renewal};
use tanist::wire::client::{
    AskConfig, AskOutcome, AskStatus, List, OnConflict, Propose, Read, ReadValue, Submit,
};
use tanist::wire::frame::Frame;
use tanist::wire::ownership::{Campaign, Observe, Renew};
use tanist::wire::register::{AskVerdict, Seal};
use tanist::wire::registry::Request;

use super::things::Things;
use crate::targets::source::Source;

/// A frame from `client`: a request of any kind, or bytes.
pub fn frame(source: &mut Source<'_>, things: &mut Things, client: &SecretKey) -> Frame {
    let request: Request = match source.below(18) {
        0..=3 => submit(source, things, client).into(),
        4 => Read {
            namespace: things.namespace(source),
            key: things.key(source),
            local: source.coin(),
            history: source.coin(),
        }
        .into(),
        5 => ReadValue {
            namespace: things.namespace(source),
            key: things.key(source),
            version: things.id(source),
        }
        .into(),
        6 => AskOutcome {
            namespace: things.namespace(source),
            key: things.key(source),
            write: things.id(source),
        }
        .into(),
        7 => List {
            namespace: things.namespace(source),
            prefix: source.bytes(3),
            after: source.coin().then(|| things.key(source)),
            limit: u32::try_from(source.number()).unwrap_or(u32::MAX),
            conflicts: source.coin(),
        }
        .into(),
        8 => propose(source, things, client).into(),
        9 => AskConfig { have: [source.number(), source.number(), source.number()] }.into(),
        10 => AskStatus {}.into(),
        11 => AskVerdict { signed: write(source, things, client).0, forbid: source.coin() }.into(),
        12 => seal(source, things).into(),
        13 | 14 => campaign(source, things, client).into(),
        15 => Observe { resource: things.key(source) }.into(),
        16 => renew(source, things).into(),
        _ => {
            let kind = source.pick(Request::KINDS).map_or(0, |(kind, _)| *kind);
            return Frame { kind, header: source.bytes(255).into(), body: source.bytes(16).into() };
        }
    };
    request.encode()
}

/// A known write, or one that the client signs.
fn write(
    source: &mut Source<'_>,
    things: &mut Things,
    client: &SecretKey,
) -> (std::sync::Arc<tanist::core::version::SignedWrite>, Vec<u8>) {
    if source.coin() { things.written(source) } else { things.new_write(source, client) }
}

fn submit(source: &mut Source<'_>, things: &mut Things, client: &SecretKey) -> Submit {
    let (signed, value) = write(source, things, client);
    let value = things.value(source, value);
    let presented = things.stamps(source, &signed);
    Submit {
        on_conflict: if source.coin() { OnConflict::Refuse } else { OnConflict::KeepBoth },
        tenure: things.proof(source),
        value: if signed.write().is_delete() { Default::default() } else { [value].into_iter().collect() },
        presented,
        signed,
    }
}

/// A change of the policy, signed by the client.
fn propose(source: &mut Source<'_>, things: &Things, client: &SecretKey) -> Propose {
    let house = things.house;
    let change = if source.coin() {
        ConfigChange::DropNamespace(things.namespace(source))
    } else {
        let rights = if source.coin() { Rights::ALL } else { Rights::READ };
        ConfigChange::AddGrant(Grant {
            author: Some(house.stranger.public()),
            namespace: None,
            prefix: Vec::new(),
            rights,
        })
    };
    let chain = if source.rarely() { things.chain(source) } else { Chain::Policy };
    let entry = Entry {
        format: ENTRY_FORMAT,
        chain,
        number: house.config.length(chain) + 1 + u64::from(source.rarely()),
        previous: house.config.head(chain),
        change,
    };
    let proof = sign_one(client, house.cluster, entry.hash());
    let named = if source.rarely() { house.admin.public() } else { client.public() };
    let admin = (!source.rarely()).then_some((named, proof));
    Propose { signed: SignedEntry { entry, admin } }
}

fn seal(source: &mut Source<'_>, things: &Things) -> Seal {
    let seal = tenure::Seal {
        cluster: things.house.cluster,
        namespace: things.namespace(source),
        key: things.key(source),
        fence: things.fence(source),
    };
    let key = if source.rarely() { &things.house.stranger } else { &things.house.tenure_key };
    let signature = seal.sign(key);
    Seal { signature, tenure: things.proof(source), seal }
}

fn campaign(source: &mut Source<'_>, things: &mut Things, client: &SecretKey) -> Campaign {
    let (signed, value) = if source.coin() { things.written(source) } else { things.claim(source, client) };
    let value = things.value(source, value);
    Campaign {
        tenure: things.proof(source),
        afresh: source.coin(),
        value: [value].into_iter().collect(),
        signed,
    }
}

fn renew(source: &mut Source<'_>, things: &Things) -> Renew {
    let house = things.house;
    let renewal = Renewal {
        cluster: house.cluster,
        resource: things.key(source),
        tenure: things.id(source),
        sequence: source.number(),
    };
    let key = if source.rarely() { &house.stranger } else { &house.tenure_key };
    let signature = renewal.sign(key);
    Renew { renewal, key: house.tenure_key.public(), signature }
}
