//! Every behaviour, once, on every backend: the embedded engine under paused time and a real server.
//!
//! A behaviour is an `async fn(World)` in one of the modules and a line in the list at the end.
#![expect(clippy::disallowed_methods, reason = "tests spawn tasks of their own")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::large_futures, reason = "many at once, in one test")]

#[path = "../support/mod.rs"]
mod support;

mod contention;
mod guard;
mod inspection;
mod loss;
mod outage;
mod reentry;
mod refusal;
mod shape;
mod world;

macro_rules! behaviours {
    ($($module:ident { $($behaviour:ident,)* })*) => {
        mod on_redis {
            $(mod $module {
                $(#[tokio::test]
                async fn $behaviour() {
                    crate::$module::$behaviour(crate::world::World::redis()).await;
                })*
            })*
        }

        mod embedded {
            $(mod $module {
                $(#[tokio::test(start_paused = true)]
                async fn $behaviour() {
                    crate::$module::$behaviour(crate::world::World::embedded()).await;
                })*
            })*
        }
    };
}

behaviours! {
    contention {
        two_values_exclude_each_other,
        a_zero_wait_asks_once,
        a_zero_wait_never_rests,
        a_wait_ends_when_it_should,
        a_waiter_of_the_same_client_is_woken,
        a_waiter_of_another_client_is_woken,
        local_waiters_are_served_in_order,
        a_hand_over_keeps_the_lock_held,
        a_fixed_lease_is_taken_over_in_one_call,
        a_shorter_lease_is_not_handed_over,
        without_hand_over_every_release_goes_to_redis,
        other_clients_get_their_turn_between_streaks,
        many_clients_all_get_it,
        a_dropped_wait_leaves_nothing,
        a_dropped_front_passes_the_front_on,
        an_abandoned_hand_over_goes_to_the_next,
        a_waiter_hears_of_every_kind_of_end,
        a_key_of_another_client_is_taken_at_its_expiry,
        the_safety_poll_finds_what_no_message_told,
    }
    reentry {
        the_same_value_re_enters,
        an_owner_re_enters_by_name,
        futures_of_one_owner_share_a_hold,
        a_nested_lease_never_shortens_the_outer,
        an_inner_release_leaves_the_lease_alone,
        a_longer_inner_lease_counts,
        an_outer_guard_may_go_first,
        a_lost_hold_is_not_re_entered,
        a_cancelled_re_entry_keeps_the_outer_hold,
    }
    guard {
        unlock_reports_and_frees,
        a_drop_frees,
        a_drop_on_a_plain_thread_frees,
        a_drop_while_unwinding_frees,
        a_guard_may_outlive_lock_and_client,
        run_ends_the_work_when_the_lock_is_lost,
        run_returns_what_the_work_returns,
        a_closure_runs_under_the_lock,
        extend_moves_the_deadline_forward_only,
        max_hold_ends_a_hold,
        a_forgotten_guard_leaves_the_lock_to_its_lease,
        a_handle_moves_a_hold_to_another_client,
        a_handle_of_an_ended_hold_is_refused,
        shutdown_releases_and_wakes_everybody,
        a_client_that_is_dropped_releases,
        nothing_is_left_at_rest,
    }
    loss {
        a_fixed_lease_ends_by_itself,
        a_renewed_lease_outlives_its_length,
        a_deleted_key_is_noticed,
        a_forced_release_is_noticed_and_wakes,
        a_lost_lock_is_not_resurrected,
        a_lock_taken_by_another_is_reported_lost,
        a_renewal_extends_only_what_is_ours,
        a_late_unlock_touches_nobody,
        a_key_of_another_type_is_a_loss,
        a_loss_lets_the_next_local_waiter_in,
    }
    inspection {
        a_free_lock_looks_free,
        a_held_lock_shows_its_holder,
        the_key_is_redissons,
        a_key_always_has_an_expiry,
        a_foreign_holder_is_seen,
        a_key_without_expiry_is_seen_as_such,
        names_may_carry_a_tag_and_a_prefix,
    }
    refusal {
        bad_names_are_refused_before_anything_is_sent,
        bad_leases_are_refused_before_anything_is_sent,
        a_key_of_another_type_is_reported,
        an_absurdly_long_wait_is_for_ever,
        a_corrupt_handle_is_refused,
        a_closed_client_refuses,
    }
}
