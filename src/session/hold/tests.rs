//! What a hold knows when its last guard goes and a reader comes at the same moment.

use super::*;
use crate::protocol::kind::Kind;

const TERMS: Terms =
    Terms { lease: Duration::from_secs(30), renewed: true, max_hold: None, drift: Duration::ZERO };

fn write_hold() -> Hold {
    let place = Place::new(Kind::Write, "", "x").expect("a good name");
    let names = Names {
        place: Arc::new(place),
        field: Arc::from("client:1:write"),
        client: Uuid::nil(),
        mutants: Mutants::default(),
    };
    Hold::new(1, names, TERMS, Instant::now())
}

#[tokio::test]
async fn a_write_hold_with_a_reader_under_it_is_not_handed_over() {
    let hold = write_hold();
    assert!(hold.stays_with_its_owner());
    assert!(matches!(hold.leave(TERMS), Left::Last));
    assert!(!hold.is_clear());
}

/// Its field may be the next writer's by then: a reader that named it would get in beside that one.
#[tokio::test]
async fn no_reader_comes_under_a_write_hold_whose_last_guard_went() {
    let hold = write_hold();
    assert!(matches!(hold.leave(TERMS), Left::Last));
    assert!(!hold.stays_with_its_owner());
    assert!(hold.is_clear(), "it may be handed over");
}
