//! What one user takes: a lock of the simulated kind, or its two sides.

use leasehold::{Lock, ReadWriteLock};

use crate::kind::Kind;
use crate::ledger::Side;
use crate::plan::name_of;
use crate::user::User;

#[derive(Clone)]
pub(crate) enum Target {
    One(Lock),
    Sides(ReadWriteLock),
}

impl Target {
    pub(crate) fn new<S>(user: &User<S>, name: usize) -> Self {
        let (client, name) = (&user.clients[0], name_of(name));
        let one = match user.plan.kind {
            Kind::Plain => client.lock(name),
            Kind::Fair => client.fair_lock(name),
            Kind::Fenced => client.fenced_lock(name).into(),
            Kind::NonReentrant => client.lock(name).non_reentrant(),
            Kind::Spin if user.actor.process.is_multiple_of(2) => client.lock(name),
            Kind::Spin => client.spin_lock(name),
            Kind::String => client.string_lock(name),
            Kind::ReadWrite => return Target::Sides(client.read_write_lock(name)),
            other => unreachable!("{other} has users of its own"),
        };
        Target::One(one)
    }

    pub(crate) fn side(&self, side: Side) -> &Lock {
        match (self, side) {
            (Target::One(lock), _) => lock,
            (Target::Sides(both), Side::Read) => both.read(),
            (Target::Sides(both), Side::Write) => both.write(),
        }
    }
}
