//! Forged writes among good ones, sent as a client sends them.

use std::sync::Arc;

use super::broken::Rule;
use super::claims::{Finding, Surprise};
use super::world::{MAJORITY, World};
use crate::client::{Identity, Prepared, Siblings};
use crate::core::object::Key;
use crate::core::signature::sign_one;
use crate::core::version::SignedWrite;
use crate::core::write::Body;
use crate::transport::{Connection, Endpoint};
use crate::wire::client::{Failure, OnConflict, Submit, Submitted};
use crate::wire::registry::{Reply, Request};
use crate::wire::values::Values;

/// Of each kind of forgery, and as many good writes.
const EACH: usize = 25;

/// What is wrong with a write.
#[derive(Debug, Clone, Copy)]
enum Forgery {
    /// Signed by another key than its author's.
    Signature,
    /// Signed, and then moved to another key.
    Key,
    /// With another value than the signed one.
    Value,
    /// Signed by its author, who has no right.
    Right,
}

const FORGERIES: [Forgery; 4] = [Forgery::Signature, Forgery::Key, Forgery::Value, Forgery::Right];

pub(super) async fn check(world: &mut World) -> Result<Finding, Surprise> {
    let demo = world.open(MAJORITY).await?;
    let endpoint = Endpoint::client(world.client.identity().secret())?;
    let connection = connect(world, &endpoint).await?;
    let mallory = Identity::generate();
    let rejected = |name: &str| ["rejected_forged", "rejected_denied"].contains(&name);
    let before = world.counted(rejected).await?;

    let (mut sent, mut refused, mut good) = (0, 0, 0);
    for n in 0..EACH * FORGERIES.len() {
        let Some(forgery) = FORGERIES.get(n % FORGERIES.len()) else { continue };
        let true_write = demo.create(format!("forged/{n}"), "true").prepare().await?;
        let forger = if world.breaks(Rule::Forgery) { world.client.identity() } else { &mallory };
        let request = Request::Submit(forge(&true_write, *forgery, forger)?);
        sent += 1;
        let reply = Reply::decode(connection.request(request.encode()).await?)?;
        refused += usize::from(matches!(reply, Reply::Failure(Failure::Rejected(_) | Failure::Denied(_))));
        if let Reply::Submitted(Submitted::Applied { .. }) = reply {
            continue;
        }
        good += usize::from(demo.create(format!("good/{n}"), "true").await?.applied().is_some());
    }
    let counted = world.counted(rejected).await?.saturating_sub(before);
    let stored = stored(&demo).await?;
    let holds = refused == sent && counted == sent as u64 && good == sent && stored == 0;
    let found = format!(
        "{refused} of {sent} forged writes refused, {counted} counted, {stored} stored; \
         {good} of {sent} good ones among them acknowledged"
    );
    let finding = Finding::new(holds, found).number("sent", sent).number("refused", refused);
    Ok(finding.number("counted", counted).number("stored", stored).number("good", good))
}

async fn connect(world: &World, endpoint: &Endpoint) -> Result<Connection, Surprise> {
    let config = world.client.configuration();
    let member = world.local.member(0).and_then(|member| config.member(member).cloned());
    let (Some(member), Some(address)) = (member, world.local.address(0)) else {
        return Err(Surprise::new("node-1 is not in the configuration"));
    };
    Ok(endpoint.dial(address, member.key).await?)
}

fn forge(prepared: &Prepared, forgery: Forgery, forger: &Identity) -> Result<Submit, Surprise> {
    let mut write = prepared.signed().write().clone();
    let mut proof = prepared.signed().proof().clone();
    let mut value = prepared.value().cloned().unwrap_or_default();
    // With the author's own key in hand every forgery is a good write.
    let stolen = forger.public() == write.author;
    match forgery {
        Forgery::Signature => proof = sign_one(forger.secret(), write.cluster, write.id().into()),
        Forgery::Key => {
            write.key = Key::try_from(format!("{}/moved", write.key).as_str())?;
            if stolen {
                proof = sign_one(forger.secret(), write.cluster, write.id().into());
            }
        }
        Forgery::Value => {
            value = "false".into();
            if stolen {
                write.body = Body::put(&value);
                proof = sign_one(forger.secret(), write.cluster, write.id().into());
            }
        }
        Forgery::Right => {
            write.author = forger.public();
            proof = sign_one(forger.secret(), write.cluster, write.id().into());
        }
    }
    Ok(Submit {
        signed: Arc::new(SignedWrite::new(write, proof, None)),
        on_conflict: OnConflict::Refuse,
        presented: Vec::new(),
        tenure: None,
        value: [value].into_iter().collect::<Values>(),
    })
}

/// How many forged writes are there.
async fn stored(demo: &Siblings) -> Result<usize, Surprise> {
    Ok(demo.list("forged/").await?.keys.len())
}
