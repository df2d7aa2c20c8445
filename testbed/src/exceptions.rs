//! Behaviours that differ on some servers, each with its reason. One that is named here must fail
//! there, unless it is a matter of luck.

use std::panic::{AssertUnwindSafe, catch_unwind};

struct Exceptions {
    profile: &'static str,
    why: &'static str,
    behaviours: &'static [&'static str],
    by_luck: bool,
}

/// What is different where no message of a release arrives.
const GRANTS_OF_FAIR_LOCKS: Exceptions = Exceptions {
    profile: "",
    why: "nobody hears that a release has given the lock",
    behaviours: &[
        "direct_grant::a_release_gives_the_lock_to_the_next_waiter",
        "direct_grant::a_grant_that_nobody_hears_of_is_found",
        "direct_grant::a_release_gives_nothing_to_who_waits_for_another_lock",
        "direct_grant::a_fixed_lease_is_asked_for",
        "direct_grant::a_short_lease_ends_in_time",
        "direct_grant::who_has_asked_for_two_places_believes_no_message",
        "direct_grant::after_a_reconnect_no_message_is_believed",
        "direct_grant::who_dies_with_a_grant_costs_its_place",
        "direct_grant::who_waits_behind_redisson_listens_itself",
    ],
    by_luck: false,
};

const ALL: &[Exceptions] = &[
    Exceptions {
        profile: "ElastiCache Serverless",
        why: "a release does not see the leases of other readers, whose keys it finds itself",
        behaviours: &["many_readers::a_long_lease_goes_with_its_reader"],
        by_luck: false,
    },
    Exceptions {
        profile: "ElastiCache Serverless",
        why: "each key that a search finds is looked at by a call of its own",
        behaviours: &["listing::one_call_looks_at_hundreds_of_keys"],
        by_luck: false,
    },
    Exceptions {
        profile: "Alibaba Tair, script_check_enable 0",
        why: "each key that a search finds is looked at by a call of its own",
        behaviours: &["listing::one_call_looks_at_hundreds_of_keys"],
        by_luck: false,
    },
    Exceptions {
        profile: "ElastiCache Serverless",
        why: "a key that is no text cannot be named in a call",
        behaviours: &[
            "listing::a_lock_whose_name_is_no_text_is_freed_by_force",
            "listing::names_that_are_no_text_are_listed",
        ],
        by_luck: false,
    },
    Exceptions {
        profile: "Dragonfly",
        why: "a key that is no text cannot be named in a call",
        behaviours: &[
            "listing::a_lock_whose_name_is_no_text_is_freed_by_force",
            "listing::names_that_are_no_text_are_listed",
        ],
        by_luck: false,
    },
    Exceptions {
        profile: "Alibaba Tair, script_check_enable 0",
        why: "a key that is no text cannot be named in a call",
        behaviours: &["listing::names_that_are_no_text_are_listed"],
        by_luck: false,
    },
    Exceptions {
        profile: "Envoy",
        why: "it has no Pub/Sub: waiters ask, and nobody hears of a release",
        behaviours: &[
            "both_sides::a_downgrade_lets_readers_in_at_once",
            "contention::a_waiter_hears_of_every_kind_of_end",
            "contention::a_warm_channel_that_is_used_again_is_kept",
            "contention::the_safety_poll_makes_up_for_a_lost_message",
            "fair::a_cancelled_head_passes_its_message_on",
            "fair::a_forced_release_notifies_the_head_of_the_queue",
            "fair::a_timed_out_head_lets_the_next_in",
            "fair::a_waiter_that_comes_back_to_a_free_lock_gets_it",
            "fair::a_waiter_that_timed_out_in_doubt_has_left_the_queue",
            "forced::a_message_alone_ends_nothing",
            "forced::a_permit_that_is_released_by_its_id_is_lost_at_once",
            "forced::its_holder_is_told_at_once",
            "forced::only_the_given_owner_is_forced",
            "forced::permits_of_an_owner_come_back",
            "forced::short_holds_pay_nothing",
            "forced::the_other_readers_go_on",
            "forced::what_a_message_said_is_forgotten_with_the_answer",
            "last_word::a_latch_that_opened_unheard_is_found_at_the_end_of_the_wait",
            "latches::a_front_that_nobody_polls_hides_nothing",
            "latches::a_latch_can_be_awaited",
            "latches::a_latch_that_opened_during_an_outage_is_found_open",
            "latches::a_lost_message_costs_one_poll",
            "latches::a_message_does_not_open_a_latch",
            "latches::deleting_lets_all_go",
            "limits::a_higher_limit_counts_when_it_lets_somebody_in",
            "limits::a_higher_limit_wakes_waiters_without_one",
            "listing::semaphores_and_latches_in_use_are_listed",
            "lock_settings::a_lock_has_a_safety_poll_of_its_own",
            "lock_settings::permits_and_latches_are_asked_for_as_often",
            "many_readers::the_last_one_alive_frees_the_lock_among_dead_ones",
            "multi::members_of_members_have_one_order",
            "multi::one_name_on_two_servers_has_one_order",
            "multi_faults::a_doubt_of_an_earlier_round_is_reported_at_the_end",
            "polling_locks::a_spin_lock_publishes_its_release",
            "queue_places::a_redisson_thread_behind_dead_waiters_is_notified",
            "read_write::a_side_is_forced_without_the_other",
            "read_write::waiting_readers_come_in_together",
            "semaphores::a_timed_wait_ends_with_the_last_release",
            "semaphores::a_waiter_for_many_waits_for_all",
            "semaphores::more_permits_than_were_set_are_waited_for",
            "semaphores::one_release_lets_many_in",
            "who::waiters_are_listed",
        ],
        by_luck: false,
    },
    Exceptions {
        profile: "Envoy",
        why: "it has no Pub/Sub: a waiter must ask while the lock happens to be free",
        behaviours: &[
            "basics::a_name_that_reads_like_another_kind_is_a_lock_of_its_own",
            "contention::other_clients_get_their_turn_at_a_fenced_lock",
            "contention::other_clients_get_their_turn_between_fixed_leases",
            "contention::other_clients_get_their_turn_between_streaks",
            "queue_places::no_waiter_spins_behind_a_dead_head",
            "read_write::a_dead_reader_does_not_live_on_others_renewals",
            "unpolled::a_grant_that_is_not_picked_up_goes_to_another_client",
        ],
        by_luck: true,
    },
    Exceptions {
        profile: "Envoy",
        why: "it has no Pub/Sub: nobody listens for a grant",
        behaviours: &[
            "forced::a_name_is_never_read_as_a_grant",
            "handed_over_locks::a_fixed_lease_is_asked_for",
            "handed_over_locks::a_full_list_is_given_to_its_end",
            "handed_over_locks::a_release_gives_the_lock_to_the_next_waiter",
            "handed_over_locks::a_short_lease_ends_in_time",
            "handed_over_locks::a_yielding_waiter_takes_what_it_is_given",
            "handed_over_locks::after_a_reconnect_no_message_of_before_is_believed",
            "handed_over_locks::after_a_streak_all_waiters_may_ask",
            "handed_over_locks::no_message_to_all_is_believed",
            "handed_over_locks::only_the_last_attempt_is_believed",
            "handed_over_locks::the_list_is_no_holder",
            "handed_over_locks::the_list_stays_with_the_hold",
            "handed_over_locks::the_longest_hold_counts_from_the_grant",
            "handed_over_locks::waiters_get_it_in_the_order_in_which_they_came",
            "handed_over_locks::what_was_given_is_handed_over_and_renewed",
            "handed_over_locks::who_dies_with_the_lock_costs_a_claim",
            "handed_over_locks::who_does_not_listen_is_given_nothing",
            "handed_over_locks::who_finds_no_room_lets_earlier_waiters_go_first",
            "handed_over_locks::who_finds_no_room_waits_all_the_same",
            "handed_over_locks::who_has_left_is_given_nothing",
            "handed_over_locks::who_has_waited_for_long_asks",
            "handed_over_locks::who_is_not_listed_gets_its_turn",
            "handed_over_locks::who_is_not_listed_has_no_larger_share",
            "handed_over_locks::who_is_not_listed_is_told_of_a_short_lease",
            "handed_over_locks::who_is_too_far_away_for_its_claim_is_not_listed",
            "handed_over_locks::who_leaves_with_the_lock_passes_it_on",
            "handed_over_locks::who_waits_for_a_holder_of_another_kind_is_not_listed",
            "queue_places::a_deleted_queue_forms_again",
        ],
        by_luck: false,
    },
    Exceptions {
        profile: "Envoy",
        why: "each key that a search finds is looked at by a call of its own",
        behaviours: &["listing::one_call_looks_at_hundreds_of_keys"],
        by_luck: false,
    },
    Exceptions {
        profile: "Envoy",
        why: "a key that is no text cannot be named in a call",
        behaviours: &["listing::names_that_are_no_text_are_listed"],
        by_luck: false,
    },
    Exceptions {
        profile: "Envoy",
        ..GRANTS_OF_FAIR_LOCKS
    },
    Exceptions {
        profile: "Alibaba Tair, script_check_enable 0",
        ..GRANTS_OF_FAIR_LOCKS
    },
    Exceptions {
        profile: "Alibaba Tair, script_check_enable 0",
        why: "its scripts publish nothing: a waiter must ask while the lock happens to be free",
        behaviours: &[
            "after::waiters_learn_the_new_end",
            "basics::a_name_that_reads_like_another_kind_is_a_lock_of_its_own",
            "both_sides::a_downgrade_is_not_handed_over",
            "both_sides::a_downgrade_lets_readers_in_at_once",
            "contention::a_dropped_front_passes_the_front_on",
            "contention::a_waiter_hears_of_every_kind_of_end",
            "contention::a_warm_channel_that_is_used_again_is_kept",
            "contention::other_clients_get_their_turn_between_streaks",
            "every_kind::a_waiter_gets_what_is_released_in_time",
            "fair::a_cancelled_head_passes_its_message_on",
            "fair::a_forced_release_notifies_the_head_of_the_queue",
            "fair::a_timed_out_head_lets_the_next_in",
            "forced::a_name_is_never_read_as_a_grant",
            "forced::a_permit_that_is_released_by_its_id_is_lost_at_once",
            "forced::its_holder_is_told_at_once",
            "forced::only_the_given_owner_is_forced",
            "forced::permits_of_an_owner_come_back",
            "forced::the_other_readers_go_on",
            "handed_over_locks::a_full_list_is_given_to_its_end",
            "handed_over_locks::a_release_gives_the_lock_to_the_next_waiter",
            "handed_over_locks::a_yielding_waiter_takes_what_it_is_given",
            "handed_over_locks::after_a_streak_all_waiters_may_ask",
            "handed_over_locks::waiters_get_it_in_the_order_in_which_they_came",
            "handed_over_locks::what_was_given_is_handed_over_and_renewed",
            "handed_over_locks::who_does_not_listen_is_given_nothing",
            "handed_over_locks::who_finds_no_room_lets_earlier_waiters_go_first",
            "handed_over_locks::who_finds_no_room_waits_all_the_same",
            "handed_over_locks::who_has_waited_for_long_asks",
            "handed_over_locks::who_is_not_listed_gets_its_turn",
            "handed_over_locks::who_is_not_listed_has_no_larger_share",
            "handed_over_locks::who_is_not_listed_is_told_of_a_short_lease",
            "handed_over_locks::who_leaves_with_the_lock_passes_it_on",
            "latches::a_message_does_not_open_a_latch",
            "latches::deleting_lets_all_go",
            "limits::a_higher_limit_counts_when_it_lets_somebody_in",
            "limits::a_higher_limit_wakes_waiters_without_one",
            "limits::alternating_limits_give_out_no_more_than_the_higher",
            "listing::semaphores_and_latches_in_use_are_listed",
            "many_readers::the_last_one_alive_frees_the_lock_among_dead_ones",
            "polled_late::a_rarely_polled_caller_gets_permits_and_passes_an_open_latch",
            "polling_locks::a_spin_lock_publishes_its_release",
            "queue_places::a_deleted_queue_forms_again",
            "queue_places::a_redisson_thread_behind_dead_waiters_is_notified",
            "read_write::a_dead_reader_does_not_live_on_others_renewals",
            "read_write::a_side_is_forced_without_the_other",
            "read_write::waiting_readers_come_in_together",
            "semaphores::a_timed_wait_ends_with_the_last_release",
            "semaphores::a_waiter_for_many_waits_for_all",
            "semaphores::one_release_lets_many_in",
            "unpolled::a_grant_that_is_not_picked_up_goes_to_another_client",
            "unpolled::a_grant_that_is_not_picked_up_goes_to_the_next_waiter",
            "unpolled::a_place_in_a_fair_queue_is_not_kept_for_it",
            "unpolled::an_unlock_is_carried_out_whether_it_is_polled_or_not",
            "unpolled::members_of_a_lock_of_several_are_not_kept",
            "who::waiters_are_listed",
        ],
        by_luck: true,
    },
];

/// Runs a behaviour on the engine. An exception of the profile must fail.
pub fn on_profile(name: &str, behaviour: impl FnOnce()) {
    let Some(exception) = exception(name) else {
        return behaviour();
    };
    if !exception.by_luck {
        let outcome = catch_unwind(AssertUnwindSafe(behaviour));
        assert!(outcome.is_err(), "it works, although {}", exception.why);
    }
}

/// The exception that this behaviour is on the profile of this run.
fn exception(behaviour: &str) -> Option<&'static Exceptions> {
    let profile = std::env::var("LEASEHOLD_PROFILE").ok()?;
    ALL.iter()
        .find(|of| of.profile == profile && of.behaviours.contains(&behaviour))
}
