//! One seed from its beginning to the verdict.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::checks::{p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11};
use super::coverage::Coverage;
use super::dice::Dice;
use super::faults::Plant;
use super::healing::Final;
use super::options::Options;
use super::world::{Violation, World};

/// The world of `seed` before anything happened.
fn world(seed: u64, plant: Plant, traced: bool) -> World {
    let mut options = Options::of(&mut Dice::new(seed, 0));
    plant.direct(&mut options);
    World::new(seed, options, plant, traced)
}

/// Runs `seed`: what happened in it, or which promise was broken.
pub fn seed(seed: u64, plant: Plant, traced: bool) -> Result<Coverage, Violation> {
    let mut world = world(seed, plant, traced);
    run_guarded(&mut world);
    match world.violation.take() {
        Some(violation) => Err(violation),
        None => Ok(world.coverage),
    }
}

/// Runs `seed` with a planted fault as if `check` were the only one: what it objects to.
pub fn alone(seed: u64, plant: Plant, check: &'static str) -> Option<String> {
    let mut world = world(seed, plant, false);
    world.heeded = Some(check);
    run_guarded(&mut world);
    world.violation.map(|violation| violation.what)
}

/// Runs `seed` with a planted fault to its end: what each check objects to.
pub fn objections(seed: u64, plant: Plant) -> BTreeMap<&'static str, String> {
    let mut world = world(seed, plant, false);
    world.heeded = Some("none of them");
    run_guarded(&mut world);
    world.objections
}

/// A panic of the engine is the end of a node for no reason: a violation like any other.
fn run_guarded(world: &mut World) {
    let end = catch_unwind(AssertUnwindSafe(|| run(world)));
    if let Err(panic) = end {
        let text = panic.downcast_ref::<String>().cloned();
        let what = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        world.fail("panic", what.unwrap_or_default());
    }
}

fn run(world: &mut World) {
    world.safety_phase();
    if world.violation.is_some() {
        return;
    }
    let Some(last) = world.heal_phase() else { return };
    verdict(world, &last);
    if world.violation.is_none() {
        world.progress(&last);
    }
    if world.violation.is_none() {
        world.progress_of_registers();
    }
    world.coverage.seeds = 1;
    world.coverage.epochs = world.config.write_epoch() - 1;
}

/// All checks on what is left after the heal phase.
pub fn verdict(world: &mut World, last: &Final) {
    world.judge("P1", p1::at_end(world, last));
    world.judge("P1 (reads)", p1::of_reads(world));
    match p2::at_end(world) {
        Ok(pairs) => world.coverage.p2_pairs += pairs,
        Err(what) => world.fail("P2", what),
    }
    if !world.forgot_unnoticed() {
        world.judge("P3", p3::at_end(world));
        world.judge("P5 (registers)", p5::of_registers(world));
        world.judge("P6", p6::at_end(world));
        world.judge("P7", p7::at_end(world));
    }
    world.judge("P4", p4::at_end(world, last));
    world.judge("P4 (retries)", p4::of_retries(world));
    world.judge("P5 (SDK)", p5::of_siblings(world));
    world.judge("P8", p8::of_stores(world));
    world.judge("P9", p9::at_end(world, last));
    match p10::at_end(world, last) {
        Ok(behind) => world.coverage.behind_clocks += behind,
        Err(what) => world.fail("P10", what),
    }
    world.judge("P11", p11::at_end(world));
    world.coverage.live_at_end += last.values().map(Vec::len).sum::<usize>() as u64;
}

/// Runs `seed` again with a trace, and tells everything about it, and whether a promise is broken.
pub fn explain(seed: u64, plant: Plant) -> (String, bool) {
    let mut world = world(seed, plant, true);
    run_guarded(&mut world);
    let verdict = match &world.violation {
        Some(violation) => format!("{} is broken: {}", violation.check, violation.what),
        None => "no promise is broken".to_owned(),
    };
    let told = format!(
        "{}\nseed {seed}, planted: {plant:?}: {verdict}\n{:?}\nagain: make sim SEED={seed} LINES=100000",
        world.trace(),
        world.options,
    );
    (told, world.violation.is_some())
}
