//! What a batch sends, and how its reply is taken apart.

use std::time::Duration;

use super::*;
use crate::protocol::plain;

/// What stands before some of the scripts, and once before all of them.
const SHARED: &str = include_str!("../lua/lease.lua");

fn each() -> [Call; 4] {
    let (key, owner, from): (Arc<str>, Arc<str>, Arc<str>) = ("k".into(), "o".into(), "f".into());
    let lease = Duration::from_secs(1);
    [
        plain::acquire(&key, &owner, lease),
        plain::reenter(&key, &owner, lease, 2),
        plain::release(&key, 0, &owner),
        plain::take_over(&key, &from, &owner, lease),
    ]
}

#[test]
fn the_script_counts_scripts_and_arguments_as_the_calls_do() {
    let calls = each();
    let scripts: Vec<_> = calls.iter().map(|call| call.script.name).collect();
    let arguments: Vec<_> = calls.iter().map(|call| call.args.len().to_string()).collect();
    let text = BATCH.text;
    assert!(text.starts_with(SHARED));
    assert!(text.contains(&format!("local scripts = {{ {} }}", scripts.join(", "))), "{text}");
    assert!(text.contains(&format!("local arguments = {{ {} }}", arguments.join(", "))), "{text}");
    for (call, number) in calls.iter().zip(1..) {
        assert_eq!(call.script.number_in_batch(), Some(number));
        assert!(takes(call));
        let own = call.script.text.strip_prefix(SHARED).unwrap_or(call.script.text);
        let function = format!("local function {}(KEYS, ARGV)\n", call.script.name);
        assert!(text.contains(&(function + own + "end\n")), "{}", call.script.name);
    }
    let together = batch(calls.iter()).expect("all of them can be part of it");
    assert_eq!((together.keys.len(), together.args.len()), (4, 4 + 2 + 3 + 4 + 3));
}

#[test]
fn other_calls_are_not_part_of_a_batch() {
    let call = plain::inspect("k");
    assert!(!takes(&call));
    assert!(batch([call].iter()).is_none());
}

#[test]
fn a_reply_of_the_wrong_shape_is_refused() {
    let error = Value::Array(vec![Value::Text("WRONGTYPE x".into())]);
    let good = Value::Array(vec![Value::Int(3), Value::Nil, error.clone(), Value::Int(7)]);
    let told: Vec<_> = replies(good, 3).expect("three replies").collect();
    assert_eq!(told, [Ok(Value::Nil), Err("WRONGTYPE x".to_owned()), Ok(Value::Int(7))]);
    let bad = [
        Value::Nil,
        Value::Array(vec![]),
        Value::Array(vec![Value::Int(1), Value::Nil]),
        Value::Array(vec![Value::Int(2), Value::Nil]),
        Value::Array(vec![Value::Nil, Value::Nil, Value::Nil]),
        Value::Array(vec![Value::Int(2), Value::Nil, Value::Text("x".into())]),
        Value::Array(vec![Value::Int(2), Value::Nil, Value::Array(vec![Value::Nil])]),
    ];
    for reply in bad {
        assert!(replies(reply.clone(), 2).is_err(), "{reply:?}");
    }
}
