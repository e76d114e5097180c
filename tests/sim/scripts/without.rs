//! Scenarios played again with the rule switched off that they are about: each must then fail, and say
//! what it is meant to say.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

/// A scenario, the rule that is off, and words of what is said then.
type Row = (fn(), Plant, &'static str);

const WITHOUT: [Row; 28] = [
    (
        attacks::attack_01_two_winners_while_a_batch_is_in_flight,
        Plant::NoOverlay,
        "of two creates is not refused",
    ),
    (
        attacks::attack_01_a_refusal_waits_for_the_winner_that_it_shows,
        Plant::RefusalEarly,
        "nothing is durable yet",
    ),
    (
        attacks::attack_01_a_refusal_waits_for_the_winner_that_it_shows,
        Plant::ReleaseEarly,
        "nothing is durable yet",
    ),
    (attacks::attack_02_vector_past_loses_sibling, Plant::VectorPast, "!x.stamps"),
    (attacks::attack_02_vector_past_loses_sibling, Plant::KnownPast, "!x.stamps"),
    (attacks::attack_03_foreign_stamp, Plant::AnyObject, "Applied"),
    (attacks::attack_04a_retry_after_being_built_upon, Plant::NoIndex, "W was applied, and its retry"),
    (attacks::attack_05_two_stamps_one_write, Plant::NoClaims, "convergence is broken"),
    (attacks::attack_05_two_stamps_one_write, Plant::OneStamp, "convergence is broken"),
    (attacks::attack_06a_refuse_is_a_check_not_a_guarantee, Plant::ListsNothing, "learns of the other (P2)"),
    (attacks::attack_08_whoever_has_no_right_writes_nothing, Plant::AnyAuthor, "Applied"),
    (
        rules::attack_08_a_right_that_was_taken_back_makes_no_replica_differ,
        Plant::TodaysRights,
        "node 2 differs",
    ),
    (
        registers::attack_09_a_ballot_is_not_used_again_after_a_restart,
        Plant::BallotsAgain,
        "a ballot was used",
    ),
    (operators::attack_11_config_cannot_fork, Plant::VotesInMemory, "disk does not know of it"),
    (
        attacks::attack_12_counters_are_unique_over_keys_and_rise_over_restarts,
        Plant::CountersAgain,
        "handed out twice",
    ),
    (
        attacks::attack_14_an_acknowledgement_lists_the_other_or_a_version_after_it,
        Plant::ListsNothing,
        "Z is what is listed",
    ),
    (
        damage::attack_15_a_disk_that_came_back_is_noticed_by_its_own_mark,
        Plant::MarkIgnored,
        "its high-water file remembers more",
    ),
    (
        damage::attack_15_a_disk_that_came_back_is_noticed_by_its_peers,
        Plant::PeersForget,
        "its peers remember more",
    ),
    (
        rules::attack_16_a_deletion_outlives_a_replica_that_slept_through_it,
        Plant::TombstonesGo,
        "P1 is broken",
    ),
    (attacks::attack_23_a_merge_has_no_cap, Plant::MergeCapped, "a read of all that was admitted"),
    (
        attacks::attack_25_a_value_comes_with_its_write_and_goes_with_its_version,
        Plant::HashIsEnough,
        "Applied",
    ),
    (attacks::attack_26_a_full_disk_refuses_writes_and_serves_reads, Plant::FullUnnoticed, "Applied"),
    (attacks::attack_26_a_failed_sync_releases_nothing, Plant::SyncRetried, "goes on after a failed sync"),
    (
        siblings::s2_an_event_does_not_cover_what_a_lost_row_knew,
        Plant::PreviousFromPeers,
        "that its actor forgot",
    ),
    (siblings::s3_stamps_are_a_set_whatever_their_order, Plant::OneStamp, "both stamps are kept"),
    (siblings::s4_an_answer_from_the_index_has_its_copies, Plant::IndexAnswers, "durable only on [0]"),
    (siblings::s5_the_stamps_of_a_superseded_parent_are_presented, Plant::PresentsNothing, "UnknownParents"),
    (cases::case_12_an_append_whose_reply_is_lost_happens_once, Plant::RetryRefused, "Refused"),
];

#[test]
fn scenarios_fail_without_their_rule() {
    let mut wrong = Vec::new();
    for (scenario, plant, words) in WITHOUT {
        PLANT.set(plant);
        let end = catch_unwind(AssertUnwindSafe(scenario));
        PLANT.set(Plant::Nothing);
        let said = match end {
            Ok(()) => "nothing".to_owned(),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                    .unwrap_or_default()
            }
        };
        if !said.contains(words) {
            wrong.push(format!("{plant:?}: expected `{words}`, and it says: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
