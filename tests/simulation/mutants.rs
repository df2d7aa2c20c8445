//! Every mutant of the library must be found by the simulation of the kind of lock that it is in.

use leasehold::Mutant;

use crate::kind::Kind;
use crate::plan::{Cast, Weather};
use crate::run::run;
use crate::synchronizers;
use crate::way::Way;

/// Seeds within which every mutant must be found.
const MUTANT_SEEDS: u64 = 400;

/// The kind of lock in which a mutant lives.
fn home(mutant: Mutant) -> Kind {
    match mutant {
        Mutant::PlaceNotKept
        | Mutant::PlaceOfLeaverKept
        | Mutant::ZeroWaitPasses
        | Mutant::NewcomerFirst
        | Mutant::NextUntold => Kind::Fair,
        Mutant::TokenTakenOver | Mutant::CounterEnds | Mutant::TurnBeginsAgain => Kind::Fenced,
        Mutant::ReadRenewsHashOnly
        | Mutant::UpgradeWaits
        | Mutant::DowngradeEndsReads
        | Mutant::WriteHandedOverReaders
        | Mutant::ReaderPassesWriter => Kind::ReadWrite,
        Mutant::SecondJoins | Mutant::SecondWaits => Kind::NonReentrant,
        Mutant::SpinWithoutPause | Mutant::ReleaseUntold => Kind::Spin,
        Mutant::StringReleaseBlind | Mutant::StringRenewBlind => Kind::String,
        _ => Kind::Plain,
    }
}

/// The weather that brings a fault to light, where it takes long in any other.
fn shows_in(mutant: Mutant, weather: Weather) -> bool {
    match mutant {
        Mutant::NoPoliteness => weather == Weather::Busy,
        Mutant::UnknownForgotten => weather == Weather::Lossy,
        _ => true,
    }
}

#[test]
fn every_mutant_is_caught() {
    must_catch(Way::Calls);
}

#[test]
fn every_mutant_is_caught_over_bytes() {
    must_catch(Way::Bytes);
}

fn must_catch(way: Way) {
    let mut missed = Vec::new();
    let others = synchronizers::own_mutants();
    for mutant in Mutant::ALL.iter().filter(|mutant| !others.contains(mutant)) {
        let kind = home(*mutant);
        let mut seeds: Vec<u64> = (1..=MUTANT_SEEDS).collect();
        seeds.sort_by_key(|seed| !shows_in(*mutant, Weather::of(*seed)));
        let mut outcomes =
            seeds.into_iter().map(|seed| (seed, run(kind, seed, Cast::Usual, way, Some(*mutant))));
        let caught = outcomes.find_map(|(seed, outcome)| Some((seed, outcome.violation?)));
        match caught {
            Some((seed, odd)) => println!("{mutant:?}: caught by {kind} seed {seed}: {odd}"),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not caught within {MUTANT_SEEDS} seeds: {missed:?}");
}
