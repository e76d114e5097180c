//! The certificate of an owner, with no node to ask.

use super::broken::Rule;
use super::claims::{Finding, Surprise};
use super::ownership::last_certificate;
use super::world::World;
use crate::core::certificate::{CERTIFICATE_TITLE, Certificate};
use crate::core::{armor, codec};

/// How many copies are made, each with another bit of it flipped.
const COPIES: usize = 8;

pub(super) async fn check(world: &mut World) -> Result<Finding, Surprise> {
    world.local.kill_all();
    let file = last_certificate(world);
    let genuine = verify(world, &file.to_string_lossy()).await?;
    let said = String::from_utf8_lossy(&genuine.stdout).trim().to_owned();

    let certificate = Certificate::from_text(&std::fs::read_to_string(&file)?)?;
    let bytes = certificate.encode();
    // What comes before says who may vote: the verifier knows the founders better than the certificate does.
    let proof = codec::encode(&certificate.proof).len();
    let forged = file.with_extension("forged");
    let mut believed = 0;
    for copy in 0..COPIES {
        let mut changed = bytes.clone();
        let at = bytes.len() - proof + proof * copy / COPIES;
        if let Some(byte) = changed.get_mut(at)
            && !world.breaks(Rule::Certificate)
        {
            *byte ^= 1 << copy;
        }
        std::fs::write(&forged, armor::write(CERTIFICATE_TITLE, &changed))?;
        believed += usize::from(verify(world, &forged.to_string_lossy()).await?.status.success());
    }
    let holds = genuine.status.success() && believed == 0;
    let found = format!("{said}; of {COPIES} copies with one bit flipped {believed} are believed");
    Ok(Finding::new(holds, found).number("copies", COPIES).number("believed", believed))
}

async fn verify(world: &World, file: &str) -> Result<std::process::Output, Surprise> {
    let cluster = world.local.dir().join("cluster");
    let cluster = cluster.to_string_lossy();
    world.tanist(&["certificate", "verify", file, "--cluster", &cluster]).await
}
