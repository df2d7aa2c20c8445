//! Tests of valid times and overlaps, and of the contents and the size of the pictures.

use super::super::sample::{self, MS, at, cell, event, granted, held};
use super::*;
use crate::history::{Mode, What};

/// The valid times of the only hold of a history, in milliseconds.
fn valid(events: &[(u64, What)]) -> Vec<(u64, u64)> {
    let zero = at(0);
    let events: Vec<_> = events
        .iter()
        .map(|(at, what)| event(*at, 1, 1, "plain:0", what.clone()))
        .collect();
    let holds = Activity::of(&events).holds;
    assert_eq!(holds.len(), 1);
    holds[0]
        .valid
        .iter()
        .map(|span| ((span.start - zero) / MS, (span.end - zero) / MS))
        .collect()
}

fn lost() -> What {
    What::Lost {
        reason: "Gone".to_owned(),
    }
}

#[test]
fn a_hold_is_valid_until_its_release() {
    let events = [
        (100, granted(900)),
        (200, held(1000)),
        (300, What::Releasing),
        (350, What::Released { error: None }),
    ];
    assert_eq!(valid(&events), [(100, 300)]);
}

#[test]
fn a_hold_without_a_deadline_is_valid_until_its_release() {
    let forever = What::Granted {
        until: None,
        token: None,
        field: None,
    };
    assert_eq!(
        valid(&[
            (100, forever),
            (5000, What::Releasing),
            (5001, What::Released { error: None })
        ]),
        [(100, 5000)]
    );
}

#[test]
fn a_hold_is_not_valid_beyond_its_deadline() {
    assert_eq!(valid(&[(100, granted(900)), (1500, lost())]), [(100, 900)]);
}

#[test]
fn a_lost_hold_was_valid_until_its_last_report() {
    assert_eq!(
        valid(&[(100, granted(900)), (300, held(1100)), (400, lost())]),
        [(100, 300)]
    );
}

#[test]
fn a_doubted_hold_is_valid_again_when_it_is_reported_as_held() {
    let events = [
        (100, granted(900)),
        (300, held(1100)),
        (400, What::Doubted),
        (500, held(1300)),
        (600, What::Releasing),
    ];
    assert_eq!(valid(&events), [(100, 300), (500, 600)]);
}

#[test]
fn a_hold_of_a_vanished_process_was_valid_until_its_last_report() {
    assert_eq!(
        valid(&[(100, granted(900)), (300, held(1100))]),
        [(100, 300)]
    );
}

#[test]
fn only_valid_holds_overlap() {
    let holds = Activity::of(&sample::two_holders()).holds;
    let found = overlaps(&holds.iter().collect::<Vec<_>>());
    assert_eq!(found, vec![at(1900)..at(2100); 1]);
    let holds = Activity::of(&sample::taking_turns("plain", 1, 100)).holds;
    assert!(overlaps(&holds.iter().collect::<Vec<_>>()).is_empty());
}

#[test]
fn readers_do_not_count_as_overlapping() {
    let mut history = sample::readers();
    let number_of_overlaps =
        |history: &[Event]| overlaps(&Activity::of(history).holds.iter().collect::<Vec<_>>()).len();
    assert_eq!(number_of_overlaps(&history), 0);
    for event in &mut history {
        if let What::Asked { mode, .. } = &mut event.what {
            *mode = Mode::Exclusive;
        }
    }
    assert!(number_of_overlaps(&history) > 0);
}

#[test]
fn a_picture_has_only_marks_for_what_happened() {
    let draw = |history: &[Event]| {
        draw(
            history,
            &cell("single", "stop-client", "plain"),
            window(history),
        )
    };
    let has = |picture: &str, class: &str| picture.contains(&format!("class=\"{class}\" d"));
    let turns = draw(&sample::taking_turns("plain", 1, 100));
    for (class, seen) in [
        ("v", true),
        ("o", true),
        ("w", true),
        ("t", true),
        ("k", true),
        ("x", false),
        ("n", false),
    ] {
        assert_eq!(has(&turns, class), seen, "{class}: {turns}");
    }
    assert!(turns.contains(">stop-client</text>"), "{turns}");
    let two_holders = draw(&sample::two_holders());
    assert!(
        has(&two_holders, "x") && has(&two_holders, "n"),
        "{two_holders}"
    );
    assert!(has(&draw(&sample::readers()), "s"));
}

#[test]
fn a_busy_picture_stays_small_and_says_how_many_locks_it_shows() {
    let history = sample::taking_turns("plain", 12, 30);
    let picture = draw(
        &history,
        &cell("single", "stop-client", "plain"),
        window(&history),
    );
    assert!(picture.len() <= BYTES, "{}", picture.len());
    assert!(picture.contains(" of 12 locks"), "{picture}");
}

#[test]
fn the_default_window_is_around_the_first_fault() {
    let history = sample::taking_turns("plain", 1, 100);
    assert_eq!(window(&history), at(1000)..at(7000));
    assert_eq!(window(&[]), 0..SECOND);
}

#[test]
fn an_empty_history_has_a_picture() {
    let picture = draw(&[], &cell("single", "stop-client", "plain"), window(&[]));
    assert!(
        picture.contains("nobody held or wanted a lock"),
        "{picture}"
    );
}

#[test]
fn a_picture_focuses_on_an_overlap_and_the_fault_before_it() {
    // An earlier fault, which did not cause the overlap.
    let mut all = sample::two_holders();
    all.insert(0, sample::fault_begins(50, "first"));
    let (activity, faults) = (Activity::of(&all), faults(&all));
    assert_eq!(focus(&activity, &faults), Some(at(200)..at(6200)));
    assert_eq!(
        activity.reported_losses,
        [(1, "plain:0".to_owned(), at(2600))]
    );
    let picture = draw(&all, &cell("single", "failover", "plain"), window(&all));
    assert!(
        picture.contains("class=\"d\" d") && picture.contains("class=\"x\" d"),
        "{picture}"
    );
    assert!(picture.contains("loss reported"), "{picture}");
    assert_eq!(focus(&Activity::of(&sample::readers()), &faults), None);
}
