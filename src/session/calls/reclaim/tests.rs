use super::*;
use crate::clock::{Clock, Counts};

const SESSION: Duration = Duration::from_secs(3);

fn primary(identity: &str, number: i64) -> Primary {
    Primary {
        identity: Arc::from(identity),
        number,
    }
}

/// The holds of the client have arrived.
fn told(of: Primary) -> Told {
    Told {
        primary: of,
        done: true,
        is_open: false,
    }
}

/// What was meant for another primary arrived at this one, which is in grace.
fn in_grace(of: Primary) -> Told {
    Told {
        done: false,
        ..told(of)
    }
}

/// The same, without a grace.
fn open(of: Primary) -> Told {
    Told {
        is_open: true,
        ..in_grace(of)
    }
}

#[tokio::test]
async fn a_reply_from_before_a_move_counts_for_nothing() {
    let now = Clock::new(Counts::TimerTime).now();
    let (sessions, key) = (Sessions::default(), Arc::from("r"));
    assert!(sessions.meant(&key, now).is_err(), "no session");
    sessions.registered(&key, primary("a", 1), now, now, SESSION);
    let (_, meant) = sessions.meant(&key, now).expect("a session");
    assert_eq!(sessions.checked(&meant, Ok(Value::Nil)), Ok(Value::Nil));

    let suspended = sessions.suspend(&key, now);
    assert_eq!(suspended.map(|(primary, _)| primary), Some(primary("a", 1)));
    assert!(sessions.meant(&key, now).is_err(), "suspended");
    let late = sessions.checked(&meant, Ok(Value::Nil));
    assert!(matches!(late, Err(CallError::Unknown(_))), "{late:?}");

    assert!(sessions.move_on(&key, &in_grace(primary("b", 2)), now));
    assert!(sessions.meant(&key, now).is_err(), "on its way");
    sessions.resume(&key, &told(primary("b", 2)), now);
    let (moved, meant) = sessions.meant(&key, now).expect("it goes on");
    assert_eq!(moved, primary("b", 2));
    assert_eq!(sessions.checked(&meant, Ok(Value::Nil)), Ok(Value::Nil));
}

#[tokio::test]
async fn what_another_primary_registered_prolongs_nothing() {
    let now = Clock::new(Counts::TimerTime).now();
    let (sessions, key) = (Sessions::default(), Arc::from("r"));
    sessions.registered(&key, primary("a", 1), now, now, SESSION);
    let later = now + SESSION / 2;
    sessions.registered(&key, primary("b", 2), later, later, SESSION);
    assert!(sessions.meant(&key, now + SESSION).is_err());
    sessions.registered(&key, primary("a", 1), later, later, SESSION);
    assert!(sessions.meant(&key, now + SESSION).is_ok());
}

#[tokio::test]
async fn a_session_that_is_over_does_not_come_back() {
    let now = Clock::new(Counts::TimerTime).now();
    let (sessions, key) = (Sessions::default(), Arc::from("r"));
    sessions.registered(&key, primary("a", 1), now, now, SESSION);
    let (_, meant) = sessions.meant(&key, now).expect("a session");
    let later = now + SESSION;
    sessions.registered(&key, primary("a", 1), later, later, SESSION);
    let late = sessions.checked(&meant, Ok(Value::Nil));
    assert!(matches!(late, Err(CallError::Unknown(_))), "{late:?}");
}

#[tokio::test]
async fn a_session_that_has_moved_does_not_go_back() {
    let now = Clock::new(Counts::TimerTime).now();
    let (sessions, key) = (Sessions::default(), Arc::from("r"));
    sessions.registered(&key, primary("a", 1), now, now, SESSION);
    sessions.suspend(&key, now);
    assert!(sessions.move_on(&key, &in_grace(primary("b", 2)), now));
    // The holds are brought, and the answer is lost. The former primary knows nothing of that.
    for former in [primary("a", 1), primary("c", 2)] {
        for former in [open(former.clone()), in_grace(former)] {
            assert!(!sessions.move_on(&key, &former, now), "{former:?}");
            assert!(!sessions.resume(&key, &former, now), "{former:?}");
            assert!(sessions.meant(&key, now).is_err(), "{former:?}");
        }
    }
    // It has let others in, and this client has not come.
    assert!(!sessions.resume(&key, &open(primary("b", 2)), now));
    assert!(sessions.meant(&key, now).is_err());
    sessions.resume(&key, &told(primary("b", 2)), now);
    assert!(sessions.meant(&key, now).is_ok());
}

#[tokio::test]
async fn a_primary_that_is_the_same_as_before_needs_no_holds() {
    let now = Clock::new(Counts::TimerTime).now();
    let (sessions, key) = (Sessions::default(), Arc::from("r"));
    sessions.registered(&key, primary("a", 1), now, now, SESSION);
    sessions.suspend(&key, now);
    let same = open(primary("a", 1));
    assert!(!sessions.move_on(&key, &same, now));
    assert!(sessions.resume(&key, &same, now));
    assert!(sessions.meant(&key, now).is_ok());
}
