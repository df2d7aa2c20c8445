//! Both sides of the read/write lock: one hash with the fields of readers and writers and a mode,
//! and for each read hold a key that expires with its lease.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{AcquireArgs, Force, KindCalls, NewField, joined_field, ms};
use super::kind::Kind;
use super::resource::Resource;
use super::script::scripts;
use super::{Arg, Call, Field, Keys, Publish, Value, lock};

scripts! {
    FORCE_RELEASE = "rw_force_release" from "shared/tell_clients.lua"
        "read_write/force_release.lua";
    READ_ACQUIRE = "read_acquire" from "shared/lease.lua" "read_write/read_acquire.lua", takes;
    READ_EXTEND = "read_extend" from "shared/lease.lua" "read_write/read_extend.lua";
    READ_FORCE_RELEASE = "read_force_release" from "shared/tell_clients.lua"
        "read_write/read_holds.lua" "read_write/read_force_release.lua", reads_undeclared_keys;
    READ_RELEASE = "read_release" from "read_write/read_holds.lua" "read_write/read_release.lua",
        reads_undeclared_keys;
    READ_RENEW = "read_renew" from "shared/lease.lua" "read_write/read_renew.lua";
    READ_TIDY = "read_tidy" from "read_write/read_holds.lua" "read_write/read_tidy.lua",
        reads_undeclared_keys;
    WRITE_ACQUIRE = "write_acquire" from "shared/lease.lua" "read_write/write_acquire.lua", takes;
    WRITE_RELEASE = "write_release" from "read_write/read_holds.lua" "read_write/write_release.lua",
        reads_undeclared_keys;
}

pub(super) static READ_CALLS: KindCalls = KindCalls {
    acquire: read_acquire,
    reenter: read_extend,
    release: read_release,
    force_release: read_force_release,
    renewal: &READ_RENEW,
    renewal_keys: read_keys,
    ..lock::CALLS
};

pub(super) static WRITE_CALLS: KindCalls = KindCalls {
    field: write_field,
    acquire: write_acquire,
    release: write_release,
    force_release,
    ..lock::CALLS
};

fn write_field(NewField { client, number, .. }: NewField<'_>) -> Field {
    joined_field(client, number, ":write")
}

/// The key that expires with a read hold.
fn lease_key(resource: &Resource, field: &str) -> Arc<str> {
    Arc::from(format!(
        "{}:{field}:rwlock_timeout:1",
        resource.extra_keys[0]
    ))
}

fn read_keys(resource: &Resource, field: &str) -> Keys {
    [resource.key.clone(), lease_key(resource, field)]
        .into_iter()
        .collect()
}

fn read_acquire(resource: &Resource, _publish: Publish, args: &AcquireArgs<'_>) -> Call {
    let writer = args
        .writer
        .map_or(Arg::from(""), |writer| writer.clone().into());
    let keys = read_keys(resource, args.field);
    Call::new(
        &READ_ACQUIRE,
        keys,
        args.owner_and_lease().into_iter().chain([writer]),
    )
}

fn read_extend(resource: &Resource, field: &Field, lease: Duration, _count: u32) -> Call {
    Call::new(
        &READ_EXTEND,
        read_keys(resource, field),
        [field.clone().into(), ms(lease)],
    )
}

fn read_release(resource: &Resource, publish: Publish, _count: u32, field: &Field) -> Call {
    let prefix = resource.extra_keys[0].clone();
    let keys = read_keys(resource, field).into_iter().chain([prefix]);
    Call::new(&READ_RELEASE, keys, resource.release_args(publish, field))
}

/// The call that looks at the other readers, if a release returned their keys because the server
/// refuses to read keys that are not declared.
pub(crate) fn tidy(resource: &Resource, publish: Publish, released: &Value) -> Option<Call> {
    let (Value::Array(parts), [prefix, ..]) = (released, &*resource.extra_keys) else {
        return None;
    };
    let lifetimes = parts.iter().filter_map(|part| match part {
        Value::Text(key) if key.starts_with(&**prefix) => Some(Arc::from(key.as_str())),
        _ => None,
    });
    let keys = resource.keys().chain(lifetimes);
    Some(Call::new(&READ_TIDY, keys, resource.publish_args(publish)))
}

fn write_acquire(resource: &Resource, _publish: Publish, args: &AcquireArgs<'_>) -> Call {
    Call::new(&WRITE_ACQUIRE, resource.only_key(), args.owner_and_lease())
}

fn write_release(resource: &Resource, publish: Publish, count: u32, field: &Field) -> Call {
    if count > 0 {
        // Lowering a count is the same as for any hash lock.
        return lock::release(resource, publish, count, field);
    }
    Call::new(
        &WRITE_RELEASE,
        resource.keys(),
        resource.release_args(publish, field),
    )
}

fn force_release(resource: &Resource, publish: Publish, force: Force<'_>) -> Call {
    let mode = if resource.kind == Kind::Read {
        "read"
    } else {
        "write"
    };
    let publish = resource.publish_args(publish).into_iter();
    let args = publish.chain([Arg::from(mode)]).chain(force.args());
    Call::new(&FORCE_RELEASE, resource.only_key(), args)
}

/// Other readers keep the lock, so the holds of one owner end like released ones.
fn read_force_release(resource: &Resource, publish: Publish, force: Force<'_>) -> Call {
    let Some(owner) = force.owner else {
        return force_release(resource, publish, force);
    };
    let lifetime = lease_key(resource, owner);
    let keys = resource.keys().chain([lifetime]);
    let args = resource.force_args(publish, force);
    Call::new(&READ_FORCE_RELEASE, keys, args)
}
