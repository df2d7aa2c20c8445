//! Searches and looks at locks, preflights, and locks that Redis frees later: each behaviour on the
//! embedded engine under paused time and on a real server; preflights on servers of many kinds.
#![expect(clippy::disallowed_methods, reason = "tests spawn tasks of their own")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod after;
mod failovers;
mod listing;
mod preflight;
mod rights;
mod shape;
mod testbed;
mod undeclared_keys;
mod who;

leasehold_testbed::behaviours! {
    task on leasehold_testbed::Bed::server;
    after {
        every_kind_stays_locked_for_the_rest,
        waiters_learn_the_new_end,
        a_rest_of_zero_is_a_release,
        a_guard_that_is_not_the_last_is_refused,
        a_lock_with_several_holders_is_refused,
        a_hold_that_is_gone_is_reported,
        a_forced_release_frees_it_before,
        a_read_hold_that_was_taken_under_it_is_not_cut_short,
        the_process_may_end,
    }
    listing {
        a_reader_whose_lease_ended_is_not_listed,
        each_reader_is_listed_with_its_own_lease,
        a_writers_own_read_is_listed_with_its_own_lease,
        a_count_that_is_no_readers_is_not_followed,
        every_kind_is_listed_as_what_it_is,
        semaphores_and_latches_in_use_are_listed,
        other_keys_are_left_out_and_in_nobodys_way,
        names_that_are_no_text_are_listed,
        a_lock_whose_name_is_no_text_is_freed_by_force,
        one_key_is_looked_at_as_a_search_lists_it,
        an_idle_semaphore_is_listed_if_it_has_a_limit,
        a_prefix_is_not_taken_as_a_pattern,
        thousands_of_locks_are_each_listed_once,
        one_call_looks_at_hundreds_of_keys,
        a_list_is_cut_off_beyond_ten_thousand_locks,
        held_locks_are_listed,
        a_crowd_of_readers_is_listed,
        a_closed_client_and_a_dead_server_are_reported,
    }
    who {
        a_holder_is_listed_with_its_description,
        foreign_text_is_not_listed,
        many_readers_are_described_separately,
        waiters_are_listed,
    }
}
