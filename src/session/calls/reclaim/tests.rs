use super::*;
use crate::clock::{Clock, Counts};

const SESSION: Duration = Duration::from_secs(3);

fn primary(identity: &str, number: i64) -> Primary {
    Primary {
        identity: Arc::from(identity),
        number,
    }
}

fn told(of: Primary) -> Told {
    Told {
        primary: of,
        done: true,
        is_open: false,
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
