//! The certificate of an owner, with no node to ask.

use super::broken::Rule;
use super::claims::{Finding, Surprise};
use super::ownership::last_certificate;
use super::world::World;

pub(super) async fn check(world: &mut World) -> Result<Finding, Surprise> {
    world.local.kill_all();
    let file = last_certificate(world);
    let genuine = verify(world, &file.to_string_lossy()).await?;
    let said = String::from_utf8_lossy(&genuine.stdout).trim().to_owned();

    // One bit of it, in every place where that leaves a certificate's file: none may pass.
    let text = std::fs::read_to_string(&file)?;
    let body = text.find('\n').ok_or_else(|| Surprise::new("the certificate has no second line"))?;
    let places: Vec<usize> = text.char_indices().skip(body + 1).map(|(at, _)| at).collect();
    let (mut tried, mut passed) = (0, 0);
    for at in places.iter().copied().step_by(places.len() / 6 + 1) {
        let mut changed = text.clone().into_bytes();
        if !world.breaks(Rule::Certificate) {
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        }
        let forged = file.with_extension("forged");
        std::fs::write(&forged, &changed)?;
        tried += 1;
        passed += usize::from(verify(world, &forged.to_string_lossy()).await?.status.success());
    }
    let holds = genuine.status.success() && tried > 0 && passed == 0;
    let found = format!("{said}; {passed} of {tried} with something changed are believed");
    Ok(Finding::new(holds, found).number("changed", tried).number("believed", passed))
}

async fn verify(world: &World, file: &str) -> Result<std::process::Output, Surprise> {
    let cluster = world.local.dir().join("cluster");
    let cluster = cluster.to_string_lossy();
    world.tanist(&["certificate", "verify", file, "--cluster", &cluster]).await
}
