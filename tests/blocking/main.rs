//! Threads without a runtime, on the embedded engine and on a real server.
//!
//! A behaviour is a `fn(&Bed)` in one of the modules and a line in the list at the end. What all
//! callers have in common is in `tests/conformance`; here is what a thread adds.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod async_code;
mod connecting;
mod ends;
mod executors;
mod harness;
mod process;
mod sharing;
mod standstill;

leasehold_testbed::behaviours! {
    thread on leasehold_testbed::Bed::server;
    sharing {
        threads_and_tasks_of_one_client_wait_for_each_other,
        a_future_that_the_work_waits_for_is_inside,
    }
    ends {
        a_drop_on_another_thread_frees,
        the_last_value_frees_though_it_is_dropped_in_async_code,
        a_guard_is_renewed_when_its_client_is_gone,
        a_shutdown_ends_waits_and_holds,
        connections_outlive_the_last_blocking_value,
    }
    async_code {
        a_call_in_a_task_panics_and_sends_nothing,
        a_call_in_a_future_that_is_blocked_on_panics_and_sends_nothing,
        the_runtime_of_an_async_client_may_end,
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
        a_guard_ends_within_its_bound,
    }
}
