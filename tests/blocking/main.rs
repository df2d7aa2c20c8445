//! Threads without a runtime: every behaviour of `leasehold::blocking`, on the embedded engine and on a real
//! server.
//!
//! A behaviour is a `fn(&Bed)` in one of the modules and a line in the list at the end. What all callers
//! have in common is in `tests/conformance`; here is what a thread adds.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod async_code;
mod connecting;
mod ends;
mod exclusion;
mod executors;
mod family;
mod harness;
mod loss;
mod process;
mod sections;
mod settings;
mod standstill;

leasehold_testbed::behaviours! {
    thread on leasehold_testbed::Bed::server;
    exclusion {
        threads_of_two_clients_exclude_each_other,
        a_wait_ends_when_it_should,
        a_release_wakes_a_thread_of_the_same_client,
        a_release_wakes_a_thread_of_another_client,
        threads_and_tasks_of_one_session_wait_for_each_other,
        a_bad_name_is_refused,
    }
    ends {
        an_unlock_frees_before_it_returns,
        a_drop_on_another_thread_frees,
        the_last_value_frees_though_it_is_dropped_in_async_code,
        a_guard_is_renewed_when_its_client_is_gone,
        a_shutdown_ends_waits_and_holds,
        a_forgotten_guard_leaves_the_lock_to_its_lease,
        a_hold_moves_to_another_client_as_text,
        a_guard_goes_on_in_async_code,
    }
    loss {
        another_thread_learns_of_the_loss,
        an_unlock_after_a_loss_says_so,
        a_fixed_lease_ends,
        a_renewed_lease_does_not_end,
        a_lease_that_is_extended_ends_later,
        the_longest_hold_ends,
        work_is_not_begun_without_the_lock,
        work_that_outlives_the_lock_ends_with_the_loss,
    }
    sections {
        a_callee_of_the_work_reenters_the_lock,
        a_thread_that_the_work_starts_is_shut_out,
        a_lock_that_is_not_re_entrant_is_refused_inside,
        work_returns_its_result_and_the_lock_is_free,
        work_may_fail_with_an_error_of_its_own,
        a_panic_in_the_work_frees_the_lock,
        a_future_that_the_work_waits_for_is_inside,
    }
    async_code {
        a_call_in_a_task_panics_and_sends_nothing,
        a_call_in_a_future_that_is_blocked_on_panics_and_sends_nothing,
        an_unlock_in_a_task_panics_and_frees,
        a_thread_for_blocking_work_may_call,
        a_thread_that_has_entered_a_runtime_may_call,
        the_runtime_of_an_async_client_may_end,
    }
    family {
        every_kind_of_lock_is_taken_again_with_its_guard,
        readers_share_and_a_writer_is_alone,
        a_writer_goes_on_reading,
        tokens_grow,
        several_locks_are_one,
        a_quorum_is_one_lock,
        an_owner_takes_its_lock_again,
        permits_are_counted,
        permits_with_ids_are_given_back_by_id,
        a_latch_lets_all_threads_go,
        held_locks_are_reported,
    }
    settings {
        every_setting_arrives,
        every_setting_of_an_acquisition_arrives,
        an_owner_takes_both_sides_again,
        a_quorum_is_held_on_every_server,
        connections_outlive_the_last_blocking_value,
    }
    executors {
        every_kind_is_waited_for,
        a_reader_waits_for_a_writer,
        permits_are_waited_for,
        a_latch_is_waited_for,
        work_runs_under_a_lock,
        a_server_that_stands_still_is_not_waited_for,
        a_shutdown_is_waited_for,
    }
    standstill {
        an_acquisition_ends_within_its_bound,
        a_question_ends_within_its_bound,
        a_preflight_ends_within_its_bound,
        a_guard_ends_within_its_bound,
    }
}
