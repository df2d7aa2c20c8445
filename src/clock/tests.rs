//! Moments count the time for which the machine was suspended; timers do not.

use super::*;

const HOUR: Duration = Duration::from_secs(3600);
/// Two clocks cannot be read at the same instant.
const NOISE: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_suspension_moves_moments_and_not_timers() {
    for counts in [Counts::AllTime, Counts::TimerTime] {
        let machine = Machine::default();
        let clock = Clock::new(counts).on(&machine);
        let (before, timer) = (clock.now(), Instant::now());
        machine.suspend_for(HOUR);
        assert!(clock.now() + NOISE >= before + HOUR, "{counts:?}");
        assert_eq!(Instant::now(), timer);
        assert!(
            clock.timer(before + HOUR) <= timer + NOISE,
            "{counts:?}: it is over"
        );
        assert!(
            clock.timer(before + 2 * HOUR) <= timer + HOUR + NOISE,
            "{counts:?}: an hour is left"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn under_paused_time_moments_are_those_of_the_timers() {
    let clock = Clock::new(Counts::TimerTime);
    assert_eq!(clock.suspended(), Duration::ZERO);
    for span in [Duration::ZERO, Duration::from_nanos(1), HOUR] {
        let (now, timer) = (clock.now(), Instant::now());
        tokio::time::advance(span).await;
        assert_eq!(clock.now(), now + span);
        assert_eq!(clock.timer(now + span), timer + span);
    }
}

/// The thread that reads the clocks may be stopped between any two of them.
#[test]
fn a_moment_is_read_within_the_call() {
    let clock = Clock::new(Counts::AllTime);
    let mut last = clock.now();
    for _ in 0..10_000 {
        let (suspended, before) = (clock.suspended(), Instant::now());
        let now = clock.now();
        // Unless this machine is suspended in the middle.
        let second = Duration::from_secs(1);
        assert!(now <= Moment(Instant::now()) + clock.suspended() + second);
        assert!(now + second >= Moment(before) + suspended);
        assert!(now >= last, "time does not go back");
        assert_eq!(
            clock.suspended(),
            suspended,
            "and a deadline stays where it is"
        );
        last = now;
    }
}

#[test]
fn a_timer_of_a_moment_before_the_first_of_the_clock_is_over() {
    let machine = Machine::default();
    let clock = Clock::new(Counts::TimerTime).on(&machine);
    let before = clock.now();
    machine.suspend_for(Duration::from_secs(u64::MAX / 4_000_000_000));
    assert!(clock.timer(before) <= Instant::now());
}
