//! Every behaviour, once, on every bed: the embedded engine under paused time and a real server.
//!
//! A behaviour is an `async fn(Bed)` in one of the modules and a line in the list at the end.
#![expect(clippy::disallowed_methods, reason = "tests spawn tasks of their own")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![expect(clippy::large_futures, reason = "many at once, in one test")]

mod background;
mod bad_arguments;
mod basics;
mod both_sides;
mod connection;
mod contention;
mod copies;
mod delayed_commands;
mod direct_grant;
mod even_quorums;
mod every_end;
mod every_kind;
mod exclusion;
mod fair;
mod far_clients;
mod faulty_connection;
mod fenced;
mod for_each_kind;
mod forced;
mod garbled;
mod grace;
mod grouping;
mod guard;
mod handed_over_locks;
mod holders;
mod identity;
mod inspection;
mod kept_replies;
mod last_word;
mod latches;
mod late_release;
mod limits;
mod lock_settings;
mod loss;
mod many_readers;
mod memory_server;
mod multi;
mod multi_ends;
mod multi_faults;
mod outage;
mod own_releases;
mod permit_leases;
mod permits;
mod ping_only;
mod polled_late;
mod polling_locks;
mod predicted;
mod queue_expiry;
mod queue_places;
mod read_write;
mod reentry;
mod refusal;
mod restore;
mod semaphores;
mod service_faults;
mod shape;
mod silent_server;
mod suspension;
mod tokens;
mod undeclared_keys;
mod unpolled;
mod who;
mod without_messages;

leasehold_testbed::behaviours! {
    task on crate::connection::server;
    exclusion {
        every_pattern_of_a_service_excludes,
        nested_sections_re_enter,
        code_outside_a_section_is_excluded,
        a_task_of_a_local_set_is_not_inside,
        a_section_whose_hold_is_lost_lets_nobody_in,
        a_guard_of_another_lock_proves_nothing,
        a_time_out_says_whether_its_own_client_is_in_the_way,
        the_sides_of_a_lock_follow_the_same_rule,
        every_end_of_a_hold_is_reported,
        the_result_of_the_work_is_returned_even_if_the_release_fails,
        work_runs_under_permits_too,
    }
    lock_settings {
        a_lock_has_a_lease_of_its_own,
        permits_have_a_lease_of_their_own,
        each_hold_is_renewed_by_its_own_lease,
        locks_that_are_taken_by_one_call_have_their_own_leases,
        a_lost_reply_of_one_call_reports_the_longest_lease,
        a_hold_passes_to_no_shorter_lease,
        a_nested_lease_does_not_shorten_renewals,
        a_lock_has_a_safety_poll_of_its_own,
        a_lock_that_waits_for_long_asks_again,
        permits_and_latches_are_asked_for_as_often,
        retries_end_an_acquisition,
        retries_end_an_acquisition_of_several_locks,
        pauses_are_as_they_were_set,
        bad_settings_are_refused_before_anything_is_sent,
    }
    unpolled {
        a_grant_that_is_not_picked_up_goes_to_another_client,
        a_grant_that_is_not_picked_up_goes_to_the_next_waiter,
        a_grant_that_nobody_picks_up_is_released,
        an_unlock_is_carried_out_whether_it_is_polled_or_not,
        a_re_entry_that_is_not_picked_up_keeps_nothing,
        members_of_a_lock_of_several_are_not_kept,
        permits_and_latches_do_not_wait_for_it_either,
        a_place_in_a_fair_queue_is_not_kept_for_it,
    }
    polled_late {
        a_rarely_polled_caller_gets_a_free_lock,
        each_doubling_costs_one_poll,
        a_rarely_polled_caller_gets_a_contended_lock_in_the_end,
        a_rarely_polled_caller_gets_a_further_guard,
        a_rarely_polled_caller_restores_a_hold,
        a_rarely_polled_caller_gets_permits_and_passes_an_open_latch,
        a_time_out_says_that_its_future_was_polled_too_rarely,
        a_late_time_out_says_whether_its_own_client_is_in_the_way,
        a_late_caller_delays_others_for_at_most_twice_its_lateness,
    }
    contention {
        a_zero_wait_asks_once,
        a_zero_wait_never_rests,
        local_waiters_are_served_in_order,
        a_hand_over_keeps_the_lock_held,
        a_fixed_lease_is_not_handed_over,
        a_shorter_lease_is_not_handed_over,
        without_hand_over_every_release_goes_to_redis,
        other_clients_get_their_turn_between_streaks,
        other_clients_get_their_turn_between_fixed_leases,
        other_clients_get_their_turn_at_a_fenced_lock,
        other_clients_get_their_turn_where_waiters_ask,
        a_dropped_front_passes_the_front_on,
        an_abandoned_hand_over_goes_to_the_next,
        a_waiter_hears_of_every_kind_of_end,
        a_key_of_another_client_is_taken_at_its_expiry,
        the_safety_poll_makes_up_for_a_lost_message,
        a_warm_channel_that_is_used_again_is_kept,
        a_hold_that_is_gone_lets_local_waiters_in,
    }
    reentry {
        an_outer_guard_may_go_first,
        a_lock_that_is_held_can_be_made_non_reentrant,
        a_dropped_inner_guard_is_not_counted_for_the_next_owner,
    }
    guard {
        unlock_reports_and_frees,
        a_drop_frees,
        a_drop_on_a_plain_thread_frees,
        a_drop_while_unwinding_frees,
        a_guard_may_outlive_lock_and_client,
        run_ends_the_work_when_the_lock_is_lost,
        run_looks_at_the_clock_before_each_poll,
        run_returns_what_the_work_returns,
        a_closure_runs_under_the_lock,
        extend_moves_the_deadline_forward_only,
        a_hold_released_in_time_is_never_reported_lost,
        an_owner_moves_a_hold_to_another_client,
        a_client_that_is_dropped_releases,
        finished_acquisitions_leave_nothing_behind,
    }
    loss {
        a_fixed_lease_ends_without_a_release,
        a_deleted_key_is_noticed,
        a_lost_lock_is_not_resurrected,
        a_lock_taken_by_another_is_reported_lost,
        a_renewal_extends_only_what_is_ours,
        a_late_unlock_touches_nobody,
        a_key_of_another_type_is_a_loss,
        a_permanent_key_stays_with_its_holder,
    }
    forced {
        its_holder_is_told_at_once,
        a_reason_is_short_and_printable,
        a_message_alone_ends_nothing,
        what_a_message_said_is_forgotten_with_the_answer,
        short_holds_pay_nothing,
        only_the_given_owner_is_forced,
        the_other_readers_go_on,
        permits_of_an_owner_come_back,
        a_permit_that_is_released_by_its_id_is_lost_at_once,
        an_owner_that_no_lock_has_is_refused,
        a_name_is_never_read_as_a_grant,
    }
    suspension {
        a_hold_is_lost_at_once_when_the_suspension_was_longer_than_its_lease,
        a_hold_is_renewed_soon_when_the_suspension_was_shorter_than_its_lease,
        the_longest_hold_counts_a_suspension,
        several_locks_are_lost_as_one_is,
        a_waiter_of_the_same_client_goes_on,
    }
    basics {
        a_lock_can_be_awaited,
        a_name_that_reads_like_another_kind_is_a_lock_of_its_own,
    }
    own_releases {
        a_dropped_guard_is_in_nobodys_way_at_home,
        a_question_comes_after_what_was_dropped,
        dropped_permits_are_available_at_home,
        an_abandoned_acquisition_is_in_nobodys_way_at_home,
        a_release_without_a_reply_does_not_hold_up_its_client,
    }
    every_kind {
        every_client_sees_a_held_lock,
        nested_holds_are_counted,
        a_second_time_may_be_an_error,
        a_wait_that_is_over_ends,
        a_forced_release_frees,
        the_remaining_lease_is_reported,
        inner_releases_leave_the_lease_alone,
        contenders_of_one_client_all_get_it,
        contenders_of_many_clients_all_get_it,
        a_waiter_gets_what_is_released_in_time,
        a_renewed_lease_lasts,
        renewal_outlives_a_nested_cycle,
        a_tag_keeps_all_keys_together,
    }
    last_word {
        a_lost_message_is_made_up_for_at_the_end_of_the_wait,
        a_latch_that_opened_unheard_is_found_at_the_end_of_the_wait,
    }
    every_end {
        a_fixed_lease_ends_for_a_waiter,
        a_dead_holder_costs_one_lease,
        a_loss_is_reported_and_the_next_hold_is_renewed,
        a_dropped_acquisition_leaves_nothing,
        a_longest_hold_ends_it,
        a_shutdown_ends_hand_overs_on_their_way,
        a_shutdown_ends_acquisitions_on_their_way,
        a_dead_server_is_an_error,
    }
    fair {
        waiters_of_all_clients_are_served_in_order,
        live_waiters_outlast_a_holder_of_four_claims,
        a_wait_that_was_given_up_delays_nobody,
        a_zero_wait_neither_queues_nor_passes,
        a_cancelled_head_passes_its_message_on,
        a_timed_out_head_lets_the_next_in,
        a_waiter_that_timed_out_has_left_the_queue,
        a_waiter_that_timed_out_in_doubt_has_left_the_queue,
        a_forced_release_notifies_the_head_of_the_queue,
        the_queue_is_called_after_the_prefixed_name,
        a_waiter_that_comes_back_to_a_free_lock_gets_it,
    }
    direct_grant {
        a_release_gives_the_lock_to_the_next_waiter,
        a_grant_that_nobody_hears_of_is_found,
        a_fixed_lease_is_asked_for,
        a_short_lease_ends_in_time,
        who_has_asked_for_two_places_believes_no_message,
        after_a_reconnect_no_message_is_believed,
        who_dies_with_a_grant_costs_its_place,
        a_release_gives_nothing_to_who_waits_for_another_lock,
        who_waits_behind_redisson_listens_itself,
    }
    handed_over_locks {
        a_release_gives_the_lock_to_the_next_waiter,
        what_was_given_is_handed_over_and_renewed,
        waiters_get_it_in_the_order_in_which_they_came,
        who_has_waited_for_long_asks,
        a_fixed_lease_is_asked_for,
        a_short_lease_ends_in_time,
        only_the_last_attempt_is_believed,
        no_message_to_all_is_believed,
        the_longest_hold_counts_from_the_grant,
        after_a_reconnect_no_message_of_before_is_believed,
        who_has_left_is_given_nothing,
        who_leaves_with_the_lock_passes_it_on,
        who_does_not_listen_is_given_nothing,
        who_dies_with_the_lock_costs_a_claim,
        after_a_streak_all_waiters_may_ask,
        who_is_not_listed_gets_its_turn,
        who_is_not_listed_has_no_larger_share,
        who_waits_for_a_holder_of_another_kind_is_not_listed,
        who_finds_no_room_waits_all_the_same,
        a_full_list_is_given_to_its_end,
        who_finds_no_room_lets_earlier_waiters_go_first,
        a_yielding_waiter_takes_what_it_is_given,
        who_is_not_listed_is_told_of_a_short_lease,
        who_is_too_far_away_for_its_claim_is_not_listed,
        the_list_is_no_holder,
        the_list_stays_with_the_hold,
    }
    queue_places {
        deadlines_are_the_servers_and_do_not_add_up,
        dead_places_cost_one_claim_together,
        a_dead_java_waiter_costs_its_deadline,
        no_waiter_spins_behind_a_dead_head,
        a_place_without_a_deadline_is_dead,
        a_purged_waiter_gets_its_place_back,
        a_deleted_queue_forms_again,
        waiters_that_come_back_stand_in_their_order,
        a_longer_claim_ahead_costs_a_newcomer_nothing,
        claims_of_different_lengths_keep_their_order,
        a_redisson_thread_behind_dead_waiters_is_notified,
    }
    queue_expiry {
        a_queue_of_the_dead_expires,
        a_living_waiter_keeps_its_queue,
        a_place_that_is_put_back_leaves_the_expiry,
        a_queue_with_a_thread_of_redisson_stays,
        a_queue_that_the_last_thread_left_expires_again,
    }
    read_write {
        a_writer_waits_for_the_last_lease_of_readers,
        the_lease_falls_back_to_what_is_left_of_the_first_read,
        many_readers_hold_longer_than_a_lease,
        nested_reads_leave_no_entry,
        waiting_readers_come_in_together,
        a_side_is_forced_without_the_other,
        readers_and_writers_mix,
        a_dead_reader_does_not_live_on_others_renewals,
        a_renewal_shortens_no_other_readers_lease,
        readers_are_not_starved_by_writers_of_their_client,
    }
    many_readers {
        a_release_never_ends_the_lease_of_another_reader,
        a_long_lease_goes_with_its_reader,
        the_last_one_alive_frees_the_lock_among_dead_ones,
        dead_ones_leave_while_others_go_on_reading,
        a_reader_whose_keys_are_permanent_is_alive,
    }
    both_sides {
        a_read_inside_a_write_comes_and_goes,
        a_downgrade_lets_readers_in_at_once,
        a_downgrade_is_not_handed_over,
        a_downgrade_is_renewed,
        an_upgrade_is_refused_at_once,
        a_writer_re_enters_and_readers_follow,
    }
    fenced {
        every_way_in_takes_the_next_token,
        a_nested_section_has_the_token_of_the_outer_one,
        a_failed_acquisition_takes_no_token,
        the_counter_outlives_every_end_of_a_hold,
        tokens_are_exact_as_far_as_the_counter_goes,
        a_counter_that_gives_no_token_leaves_nothing_behind,
        a_text_is_kept_once,
    }
    polling_locks {
        a_waiter_never_subscribes,
        pauses_grow_to_their_longest,
        pauses_double_from_the_first,
        a_spin_lock_publishes_its_release,
        a_spin_lock_takes_a_wait_as_long_as_it_is,
        a_string_key_without_expiry_is_reported_and_not_touched,
        a_hash_key_without_expiry_is_reported_and_not_touched,
        a_string_lock_is_a_token_with_an_expiry,
        a_string_lock_that_a_peer_has_taken_is_lost,
        every_waiter_reports_a_missing_expiry,
    }
    without_messages {
        waiters_of_every_kind_poll,
        waiters_for_permits_and_latches_poll,
        polling_waiters_of_a_fair_lock_are_served_in_order,
    }
    multi {
        a_failed_multi_lock_gives_back_exactly_what_it_took,
        opposite_orders_do_not_wait_for_each_other,
        a_peer_with_another_order_is_given_way,
        a_member_with_a_long_queue_is_taken_in_the_end,
        there_is_one_deadline_for_all,
        a_fixed_lease_begins_when_the_last_is_taken,
        members_of_members_have_one_order,
        one_name_on_two_servers_has_one_order,
        one_that_is_locked_in_part_looks_locked,
        a_member_without_expiry_is_reported,
        sets_that_make_no_sense_are_refused,
    }
    multi_ends {
        the_loss_of_one_member_is_the_loss_of_all,
        a_client_that_closes_ends_what_needs_it,
        a_longest_hold_ends_a_quorum,
        a_quorum_counts_as_its_majority_does,
        members_on_several_servers_are_all_needed,
        a_member_that_is_lost_does_not_count_for_the_deadline,
        a_quorum_that_cannot_be_taken_looks_locked,
    }
    even_quorums {
        more_refusals_than_are_spare_end_the_wait,
        who_waits_for_a_quorum_is_counted,
        half_of_the_members_are_no_majority,
        spare_members_may_be_lost_and_no_more,
        a_majority_says_how_often_it_is_held,
    }
    multi_faults {
        a_member_lost_during_the_wait_is_taken_again,
        a_doubt_of_an_earlier_round_is_reported_at_the_end,
    }
    identity {
        every_owner_text_begins_with_the_id_of_its_client,
        connections_are_called_as_they_shall_be,
        a_ping_is_one_call_and_checks_that_the_server_answers,
    }
    inspection {
        the_key_is_redissons,
        a_key_always_has_an_expiry,
        a_key_without_expiry_is_seen_as_such,
        names_may_carry_a_tag_and_a_prefix,
    }
    refusal {
        a_key_of_another_type_is_reported,
        a_forced_release_deletes_no_data,
        an_absurdly_long_wait_is_for_ever,
    }
    bad_arguments {
        a_bad_name_is_refused,
        a_bad_prefix_is_named,
        one_bad_member_refuses_all,
        a_bad_lease_is_refused,
        a_bad_number_is_refused,
        the_greatest_numbers_are_right,
        the_greatest_spans_are_taken,
        a_closed_client_refuses,
        a_dead_server_is_reported_by_every_call,
        an_odd_name_is_a_name,
    }
    restore {
        a_hold_with_a_live_guard_is_not_restored_again,
        a_text_that_is_no_owners_changes_nothing,
        an_owner_text_may_be_anything_within_its_limit,
        a_hold_under_release_is_given_to_nobody,
        a_hold_taken_by_a_cancelled_restore_is_given_to_nobody,
        only_one_of_many_restores_of_one_text_succeeds,
        only_one_of_several_threads_restores_one_text,
        a_text_that_is_used_again_can_be_restored_again,
    }
    semaphores {
        more_permits_than_were_set_are_waited_for,
        permits_are_set_once,
        a_semaphore_with_a_life_ends_with_its_holds,
        permits_are_added_and_taken_away,
        a_waiter_for_many_waits_for_all,
        a_timed_wait_ends_with_the_last_release,
        a_drained_semaphore_has_none,
        a_release_does_not_make_a_deleted_semaphore_again,
        one_release_lets_many_in,
        a_front_that_gives_up_lets_the_next_ask,
        the_total_of_a_semaphore_can_be_set,
        a_key_of_another_type_is_reported,
    }
    limits {
        a_limit_makes_the_semaphore,
        another_limit_changes_the_number_by_the_difference,
        the_first_limit_replaces_a_number_that_was_set,
        more_permits_than_the_limit_are_refused_at_once,
        a_semaphore_without_a_number_is_refused_at_once,
        alternating_limits_give_out_no_more_than_the_higher,
        a_higher_limit_counts_when_it_lets_somebody_in,
        a_higher_limit_wakes_waiters_without_one,
        a_waiter_is_served_by_its_own_limit,
        a_number_that_was_deleted_is_made_again_around_its_holders,
        a_total_that_is_set_counts_as_a_limit,
        a_limit_ends_with_its_semaphore,
        a_limit_whose_reply_was_lost_counts_once,
    }
    holders {
        permits_of_a_dead_client_come_back,
        a_stolen_permit_is_reported_lost,
        a_name_in_braces_has_holds_of_its_own,
        a_forgotten_permit_comes_back_by_no_lease,
        a_change_whose_reply_was_lost_counts_once,
        a_cancelled_acquisition_gives_back_what_it_took,
    }
    permits {
        a_prefix_names_both_keys,
        a_lease_can_be_changed_by_id,
        a_missing_semaphore_has_none,
        counts_follow_the_leases,
        a_semaphore_that_expires_leaves_no_key,
        the_number_of_permits_can_be_changed,
        several_at_once_are_all_or_none,
        an_unknown_or_expired_id_releases_nothing,
        one_bad_id_and_none_is_released,
        the_next_call_brings_expired_permits_back,
        the_remaining_lease_of_a_permit_is_reported,
        a_permit_that_never_expires_is_left_alone,
        a_stolen_permit_is_reported_lost,
        a_call_whose_reply_was_lost_counts_once,
    }
    permit_leases {
        an_extension_never_shortens,
        a_late_copy_of_an_acquisition_changes_nothing,
        permits_that_lost_one_of_them_are_lost,
        a_renewal_is_not_longer_than_redis_can_be_kept,
        a_semaphore_that_is_made_anew_has_no_holds,
        holds_outlast_a_life_that_java_took_away,
        holds_end_with_a_life_that_came_later,
        a_drain_takes_those_of_dead_holders_too,
        no_permits_make_no_semaphore,
    }
    latches {
        a_latch_can_be_awaited,
        all_waiters_go_at_zero,
        a_count_never_falls_below_zero,
        a_count_is_set_once_until_it_is_zero,
        a_count_of_zero_sets_nothing,
        deleting_lets_all_go,
        a_late_waiter_finds_the_latch_open,
        a_lost_message_costs_one_poll,
        a_latch_that_opened_during_an_outage_is_found_open,
        a_message_does_not_open_a_latch,
        a_front_that_nobody_polls_hides_nothing,
        a_reply_is_kept_until_no_late_copy_can_come,
        a_change_whose_reply_was_lost_counts_once,
    }
    kept_replies {
        a_thousand_changes_keep_a_handful_of_replies,
        a_dropped_change_keeps_no_key_for_itself,
    }
    who {
        a_holder_shows_its_name_and_purpose,
        a_client_that_describes_its_holds_needs_no_purpose,
        a_description_lasts_as_long_as_the_renewals,
        a_permanent_lock_is_described,
        a_hold_that_was_handed_over_has_its_own_purpose,
        a_time_out_with_a_purpose_says_who_is_in_the_way,
        a_client_without_descriptions_pays_nothing,
        a_purpose_that_cannot_be_stored_is_refused,
        a_key_of_another_kind_in_its_place_harms_nobody,
        foreign_text_in_a_description_is_not_passed_on,
        waiters_are_listed,
    }
    silent_server {
        a_try_takes_at_most_two_timeouts_of_a_command,
        a_call_may_have_a_shorter_bound,
    }
}
