//! Which test plays which attack, which layer catches which planted fault, and whether the tests that
//! `proto-docs` names exist: the names are looked up in the sources, so that a test that goes takes its line
//! with it.
//!
//! The attacks are those that broke earlier drafts of the design, by their numbers: 1 to 30 on paper; R, O,
//! S and N by models of registers, ownership and siblings.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use std::collections::BTreeSet;
use std::path::Path;

/// An attack, in a few words, and the tests that play it.
type Attack = (&'static str, &'static str, &'static [&'static str]);

const PLAYED: [Attack; 60] = [
    (
        "1",
        "steps that do not see each other; a refusal before its winner is durable",
        &[
            "attack_01_a_step_sees_what_was_stepped_and_waits_for_it",
            "attack_01_two_writes_drained_together_do_not_both_win",
            "attack_01_two_winners_in_one_batch",
            "attack_01_two_winners_while_a_batch_is_in_flight",
            "attack_01_a_refusal_waits_for_the_winner_that_it_shows",
        ],
    ),
    (
        "2",
        "a past that says more than its write read",
        &[
            "attack_02_an_acknowledged_sibling_outlives_a_write_that_missed_it",
            "attack_02_vector_past_loses_sibling",
            "attack_02_seventeen_but_not_nine",
            "attack_02_the_checker_catches_a_version_vector",
            "attack_02_the_checker_catches_the_coordinators_own_knowledge",
        ],
    ),
    ("3", "a stamp of something else", &["attack_03_foreign_stamp", "attack_03_forged_answers_are_refused"]),
    (
        "4a",
        "a retry after being built upon",
        &[
            "attack_04a_retry_after_being_built_upon",
            "attack_04_the_checker_catches_a_missing_index",
            "attack_04a_a_retry_after_being_built_upon_is_applied_not_refused",
        ],
    ),
    ("4b", "the same in registers", &["attack_04b_a_retry_after_being_built_upon_is_applied_not_refused"]),
    (
        "4c",
        "a duplicate that comes very late",
        &["attack_04c_what_comes_after_its_epoch_is_not_applied_a_second_time"],
    ),
    (
        "5",
        "two stamps of one write",
        &[
            "attack_05_two_stamps_one_write",
            "attack_05_any_one_stamp_in_a_past_supersedes",
            "attack_05_a_forgotten_stamp_leaves_a_false_sibling_until_the_next_exchange",
            "attack_05_an_exchange_of_superseded_ids_ends_a_false_sibling",
        ],
    ),
    ("6a", "a refusal that nobody can guarantee", &["attack_06a_refuse_is_a_check_not_a_guarantee"]),
    (
        "6b",
        "failed, and then it happened",
        &[
            "attack_06b_a_later_refusal_of_an_unknown_write_is_unknown",
            "attack_06b_a_refusal_after_a_lost_attempt_is_unknown",
            "attack_06b_a_failure_after_a_lost_attempt_is_unknown_too",
            "attack_06b_a_refusal_waits_for_an_attempt_in_flight",
            "attack_06b_an_incomplete_write_is_sent_again_until_the_deadline",
        ],
    ),
    (
        "6c",
        "settling what may be there",
        &[
            "attack_06b_unknown_carries_a_receipt_that_settles",
            "attack_06_an_open_write_is_decided_by_settling_it",
        ],
    ),
    ("7", "a fence beside siblings", &["attack_07_siblings_take_no_fence"]),
    ("8a", "a term judged by an acceptor", &["attack_08_terms_are_not_for_acceptors_to_judge"]),
    (
        "8b",
        "a right judged by whoever hears of the write",
        &[
            "attack_08_a_right_that_was_taken_back_wedges_nothing",
            "attack_08_a_right_that_was_taken_back_makes_no_replica_differ",
            "attack_08_whoever_has_no_right_writes_nothing",
        ],
    ),
    (
        "9",
        "a ballot used twice",
        &[
            "attack_09_a_ballot_is_not_used_again_after_a_restart",
            "attack_09_no_ballot_is_used_again_after_a_restart",
            "attack_09_an_acceptor_takes_no_other_bytes_at_a_ballot_that_it_accepted",
        ],
    ),
    (
        "10a",
        "a renewal that races a takeover",
        &["attack_10a_no_renewal_is_heard_after_a_takeover_was_promised"],
    ),
    (
        "10b",
        "a cached promise that skips the lease",
        &["planted_faults_are_caught", "ownership_holds_in_every_state"],
    ),
    (
        "10c",
        "acceptances that keep the dead alive",
        &["attack_10c_an_acceptance_again_does_not_keep_a_dead_owner_alive"],
    ),
    (
        "10d",
        "a renewal where another tenure is held",
        &[
            "attack_10_what_a_voter_does_with_renewals_and_takeovers",
            "attack_10_a_refused_renewal_asks_for_a_round_and_a_lost_one_ends_it",
        ],
    ),
    ("10f", "a deadline that needs a network", &["p10_an_ownership_is_lost_without_a_network"]),
    ("10g", "whoever wins late", &["whoever_wins_late_renews_before_it_acts"]),
    ("10", "a disk that hangs", &["attack_10_a_voter_whose_disk_hangs_keeps_no_owner_alive"]),
    (
        "11",
        "two administrators",
        &[
            "attack_11_config_cannot_fork",
            "attack_11_a_readmission_does_not_undo_a_choice",
            "attack_11_one_of_two_administrators_gets_the_place",
            "attack_11_a_configuration_without_votes_is_not_believed",
        ],
    ),
    ("12", "counters that come again", &["attack_12_counters_are_unique_over_keys_and_rise_over_restarts"]),
    (
        "13",
        "two processes with one key",
        &[
            "attack_13_two_processes_with_one_key_are_two_candidates",
            "attack_13_the_key_of_the_client_alone_ends_no_tenure",
        ],
    ),
    (
        "14",
        "concurrency that nobody is told of",
        &[
            "attack_14_an_acknowledgement_lists_the_other_or_a_version_after_it",
            "attack_14_a_copy_on_a_node_that_is_no_replica_does_not_count",
            "a_quorum_that_hides_conflicts_is_asked_for_by_name",
        ],
    ),
    (
        "15",
        "disks that went backwards, or are there twice",
        &[
            "attack_15_a_disk_that_came_back_is_noticed_by_its_own_mark",
            "attack_15_a_disk_that_came_back_is_noticed_by_its_peers",
            "attack_15_a_node_that_can_ask_nobody_does_not_count",
            "case_01_a_wiped_node_is_a_new_actor_and_forwards",
            "case_06_a_second_process_with_a_members_key_goes_and_the_first_one_stays",
            "a_damaged_row_is_not_shown_as_absent",
        ],
    ),
    (
        "16",
        "a deletion that is forgotten",
        &["attack_16_a_deletion_outlives_a_replica_that_slept_through_it"],
    ),
    (
        "17",
        "terms that somebody made up",
        &[
            "attack_17_a_term_is_not_for_anybody_to_choose",
            "attack_17_a_lower_term_is_never_admitted_again_and_recoveries_come_first",
            "p7_a_write_of_a_lower_term_is_never_applied_after_a_higher_one",
            "a_fence_needs_its_proof_once",
        ],
    ),
    (
        "18",
        "certificates that prove nothing",
        &[
            "p6_a_won_campaign_is_proved_to_anybody",
            "p8_a_win_without_a_majority_of_votes_is_not_believed",
            "a_tenure_that_ends_in_the_round_that_proves_it_is_not_shown_with_the_votes_for_its_end",
        ],
    ),
    ("19", "reads that duel with writes", &["attack_19_a_read_after_a_fast_write_needs_no_ballot"]),
    (
        "20",
        "what is accepted and not chosen",
        &["attack_20_r8_what_few_accepted_is_carried_or_lost_and_not_shown_before"],
    ),
    (
        "21",
        "the command line",
        &["exit_codes_are_those_of_the_contract", "what_a_write_replaces_is_named_by_versions_or_a_file"],
    ),
    (
        "22",
        "the SDK",
        &[
            "case_12_an_update_is_not_run_again_while_its_write_is_unknown",
            "an_operation_is_the_same_write_in_every_process",
            "the_wrong_mode_says_which",
        ],
    ),
    ("23", "a cap that a merge meets", &["attack_23_a_merge_has_no_cap"]),
    ("25", "values by hash alone", &["attack_25_a_value_comes_with_its_write_and_goes_with_its_version"]),
    (
        "26",
        "the loop under stress",
        &[
            "attack_26_a_failed_sync_releases_nothing",
            "attack_26_a_full_disk_refuses_writes_and_serves_reads",
            "what_is_taken_is_bounded_in_number_and_bytes_and_stays_in_order",
            "heartbeats_are_heard_under_load",
        ],
    ),
    (
        "27",
        "models that left half of the rules out",
        &["every_broken_rule_of_registers_is_found", "every_broken_rule_of_ownership_is_found"],
    ),
    ("28", "paths of a signature", &["attack_28_a_path_of_another_length_or_place_is_refused"]),
    (
        "29",
        "an actor that contradicts itself",
        &[
            "attack_29_an_actor_that_contradicts_itself_is_caught",
            "attack_29_an_equivocators_versions_go_only_by_name",
        ],
    ),
    ("30", "clusters that are too small", &["two_nodes_and_none_are_refused_with_the_reason"]),
    (
        "R1",
        "an acceptance again that promises",
        &["r1_a_repeated_acceptance_promises_nothing_that_a_higher_promise_forbids"],
    ),
    (
        "R2",
        "a refusal that is not final",
        &["r2_a_write_of_a_later_generation_is_not_refused_but_can_be_forbidden"],
    ),
    (
        "R3",
        "the last writes read out of their place",
        &[
            "a_write_that_was_proposed_and_is_forgotten_is_in_doubt",
            "every_broken_rule_of_registers_is_found",
        ],
    ),
    (
        "R4",
        "a list of void writes that is full",
        &["r4_a_full_list_of_void_writes_forbids_no_more_and_forgets_none", "r4_void_is_not_filled_for_ever"],
    ),
    (
        "R5",
        "an answer before its round",
        &["planted_faults_are_caught", "every_broken_rule_of_registers_is_found"],
    ),
    ("R6", "a key that never was", &["r6_an_absent_key_is_read_in_one_round_trip"]),
    ("R7", "promises that show one state", &["registers_hold_in_every_state"]),
    (
        "R8",
        "the last chosen beside a newer accepted",
        &["attack_20_r8_what_few_accepted_is_carried_or_lost_and_not_shown_before"],
    ),
    (
        "O1",
        "renewals at two ballots",
        &[
            "o1_a_renewal_counts_at_one_ballot_only",
            "o1_ballots_apart_are_brought_together_by_a_round_of_the_same_tenure",
        ],
    ),
    ("O2", "a ban in the slot of the promise", &["every_broken_rule_of_ownership_is_found"]),
    (
        "O3",
        "the deadline of the attempt that won",
        &["o3_the_deadline_counts_from_the_first_submission", "o3_whoever_wins_late_renews_before_it_acts"],
    ),
    (
        "O4",
        "what phase 1 shows is carried by any ballot",
        &["o4_any_ballot_carries_a_tenure_that_phase_1_shows", "ownership_holds_in_every_state"],
    ),
    ("O5", "clocks too far apart", &["planted_faults_are_caught", "every_broken_rule_of_ownership_is_found"]),
    (
        "O6",
        "takeovers that cannot succeed",
        &[
            "o6_a_takeover_that_cannot_succeed_leaves_no_promise",
            "a_killed_node_costs_no_renewal_and_changes_no_owner",
        ],
    ),
    ("O7", "a campaign that was given up", &["o7_an_open_campaign_is_sent_again_with_the_same_tenure"]),
    ("O8", "a renewal past the deadline", &["o8_past_the_deadline_there_is_no_way_back"]),
    ("S1", "a claim without the write behind it", &["s1_a_claim_does_not_outlive_the_write_that_superseded"]),
    ("S2", "an event over what was forgotten", &["s2_an_event_does_not_cover_what_a_lost_row_knew"]),
    (
        "S3",
        "one actor, one write, two stamps",
        &[
            "s3_stamps_are_a_set_whatever_their_order",
            "s3_one_actor_may_have_stamped_one_write_twice",
            "s3_the_set_of_stamps_does_not_depend_on_its_order",
        ],
    ),
    (
        "S4 and S5",
        "answers and parents of a retry",
        &["s4_an_answer_from_the_index_has_its_copies", "s5_the_stamps_of_a_superseded_parent_are_presented"],
    ),
];

/// Attacks on what is not there, and why.
const NOT_YET: [(&str, &str); 6] = [
    ("4c, the floor", "no row of the applied index is ever collected, so nothing is forgotten"),
    ("10e", "needs a change of the electorate while somebody owns"),
    ("16, the floor itself", "tombstones are never collected; that is what its test holds against a timer"),
    ("24", "needs reconciliation by fingerprints"),
    ("30, retirement", "needs members that leave"),
    ("N1 to N5", "rules that looked unnecessary: nothing breaks without them"),
];

/// How a fault is planted, and what catches it.
enum Caught {
    /// Random runs, by a check within a budget of seeds: a row of the table.
    Seeds(&'static str),
    /// A scenario of the simulator that is played without its rule.
    Scenario(&'static str),
    /// A test that breaks the rule itself.
    Test(&'static str),
    /// A broken rule of a model, which must have a counterexample.
    Model(&'static str),
    /// Nothing yet: what it breaks is not built.
    NotYet,
}
use Caught::{Model, NotYet, Scenario, Seeds, Test};

const FAULTS: [(&str, &[Caught]); 23] = [
    ("a view without the overlay", &[Seeds("NoOverlay"), Scenario("NoOverlay")]),
    ("a refusal released before its winner is synced", &[Scenario("RefusalEarly")]),
    ("effects before their batch is durable", &[Seeds("ReleaseEarly"), Scenario("ReleaseEarly")]),
    ("a past from the coordinator's own knowledge", &[Seeds("KnownPast"), Scenario("KnownPast")]),
    ("a past that is a plain vector", &[Seeds("VectorPast"), Scenario("VectorPast")]),
    ("a stamp without its object", &[Scenario("AnyObject")]),
    ("no applied index", &[Seeds("NoIndex"), Scenario("NoIndex")]),
    ("one stamp kept of a version", &[Scenario("OneStamp")]),
    ("a term vetoed by an acceptor", &[Test("attack_08_terms_are_not_for_acceptors_to_judge")]),
    ("a ballot reused after a time-out", &[Model("CachedAfterFailure")]),
    ("a ballot reused after a restart", &[Scenario("BallotsAgain"), Model("BallotReused")]),
    ("a promise given twice", &[Seeds("PromiseInMemory"), Model("AcceptIgnoresPromise")]),
    ("a quick read that compares no hashes", &[Seeds("LookUnchecked"), Test("a_quick_read_compares_hashes")]),
    ("a quick read of any ballots", &[Seeds("LookUnchecked"), Model("QuickReadAnyBallot")]),
    ("an answer before the round is finished", &[Seeds("AnsweredEarly"), Model("AppliedEarly")]),
    (
        "an acceptance again that counts as hearing the owner",
        &[Test("attack_10c_an_acceptance_again_does_not_keep_a_dead_owner_alive")],
    ),
    ("a renewal acknowledged after a takeover was promised", &[Seeds("NoBan"), Model("NoBan")]),
    (
        "a piggybacked promise that changes the owner",
        &[Seeds("OrdinaryIntroduces"), Model("OrdinaryIntroduces")],
    ),
    ("an old configuration skipped in phase 1", &[NotYet]),
    ("a wiped acceptor that votes", &[Seeds("WipedVotes")]),
    ("a tombstone collected on a timer", &[Scenario("TombstonesGo")]),
    ("a right judged by the policy of today", &[Scenario("TodaysRights")]),
    ("signatures checked for clients only", &[Seeds("PeersUnchecked")]),
];

/// All sources under a folder, without this file.
fn sources(folder: &str, into: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(path.to_str().unwrap(), into);
        } else if path.extension().is_some_and(|end| end == "rs") && path != Path::new("tests/proofs.rs") {
            into.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// The names of all functions in `tests` and `src`.
fn functions() -> BTreeSet<String> {
    let mut text = String::new();
    sources("tests", &mut text);
    sources("src", &mut text);
    names(&text)
}

fn names(text: &str) -> BTreeSet<String> {
    let name =
        |after: &str| after.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
    text.split("fn ").skip(1).filter_map(name).collect()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn every_attack_is_played_by_a_test_that_exists() {
    let functions = functions();
    for (attack, about, tests) in PLAYED {
        assert!(!tests.is_empty(), "attack {attack} ({about}) has no test");
        for test in tests {
            assert!(functions.contains(*test), "attack {attack} ({about}): there is no {test}");
        }
    }
}

#[test]
fn every_attack_is_listed_and_every_test_of_one_is_named() {
    let listed: Vec<&str> =
        PLAYED.iter().map(|(name, ..)| *name).chain(NOT_YET.iter().map(|(name, _)| *name)).collect();
    for number in 1..=30 {
        let of = |name: &&str| {
            let digits: String = name.chars().take_while(char::is_ascii_digit).collect();
            digits == number.to_string()
        };
        assert!(listed.iter().any(of), "attack {number} is not listed");
    }
    for (letter, last) in [('R', 8), ('O', 8), ('S', 5)] {
        for number in 1..=last {
            let name = format!("{letter}{number}");
            assert!(listed.iter().any(|all| all.split(' ').any(|one| one == name)), "{name} is not listed");
        }
    }
    let named: BTreeSet<&str> = PLAYED.iter().flat_map(|(_, _, tests)| tests.iter().copied()).collect();
    for test in functions().iter().filter(|name| is_of_an_attack(name)) {
        assert!(named.contains(test.as_str()), "{test} plays an attack, and no line names it");
    }
}

/// Whether a function is named after an attack: `attack_17_...`, `o3_...`.
fn is_of_an_attack(name: &str) -> bool {
    let digit = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    name.strip_prefix("attack_").is_some_and(digit)
        || ["r", "o", "s"].iter().any(|letter| {
            let rest = name.strip_prefix(letter);
            rest.is_some_and(|rest| digit(rest) && rest[1..].starts_with('_'))
        })
}

#[test]
fn every_planted_fault_has_a_layer_that_catches_it() {
    let (seeds, scenarios) = (read("tests/sim/planted.rs"), read("tests/sim/scripts/without.rs"));
    let (models, functions) = (read("tests/model/tables.rs"), functions());
    for (fault, layers) in FAULTS {
        assert!(!layers.is_empty(), "{fault}: nothing catches it");
        for layer in layers {
            let found = match layer {
                Seeds(plant) => seeds.contains(&format!("({plant}, \"")),
                Scenario(plant) => scenarios.contains(&format!("Plant::{plant},")),
                Test(name) => functions.contains(*name),
                Model(rule) => models.contains(&format!("found(Fault::{rule},")),
                NotYet => true,
            };
            assert!(found, "{fault}: what is said to catch it is not there");
        }
    }
}

/// The tests that the pages of `proto-docs` say guard something: `suite::module::function`, a module, or the
/// beginning of a function's name with `*`; and planted faults, named like `NoOverlay` in a line of the simulator.
#[test]
fn every_test_that_a_page_names_exists() {
    let (mut named, mut missing) = (0, Vec::new());
    for page in ["proto-docs/invariants.md", "proto-docs/histories.md"] {
        let text = read(page);
        for name in text.split('`').skip(1).step_by(2).filter(|name| name.contains("::")) {
            let (suite, path) = name.split_once("::").unwrap();
            let last = path.rsplit("::").next().unwrap();
            let functions = functions_of(suite);
            let found = match last.strip_suffix('*') {
                Some(start) => functions.iter().any(|function| function.starts_with(start)),
                None => functions.contains(last) || Path::new(&format!("tests/{suite}/{last}.rs")).exists(),
            };
            let folder = Path::new(&format!("tests/{suite}/{last}/mod.rs")).exists();
            if !(found || folder) {
                missing.push(format!("{page}: there is no {name}"));
            }
            named += 1;
        }
    }
    let plants = read("tests/sim/planted.rs");
    let text = read("proto-docs/invariants.md");
    for line in text.split("fault").skip(1).filter_map(|rest| rest.split(';').next()) {
        for plant in line.split('`').skip(1).step_by(2).filter(|name| name.starts_with(char::is_uppercase)) {
            if !plants.contains(&format!("({plant}, \"")) {
                missing.push(format!("invariants.md: there is no fault {plant}"));
            }
        }
    }
    assert!(named > 60, "{named} tests are named");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// The names of the functions of one test suite, or of one layer of the crate.
fn functions_of(suite: &str) -> BTreeSet<String> {
    let mut text = std::fs::read_to_string(format!("tests/{suite}.rs")).unwrap_or_default();
    for folder in [format!("tests/{suite}"), format!("src/{suite}")] {
        if Path::new(&folder).is_dir() {
            sources(&folder, &mut text);
        }
    }
    names(&text)
}
