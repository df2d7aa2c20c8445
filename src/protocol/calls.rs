//! The calls that the session makes for every kind. [`replies`](super::replies) decodes their
//! replies.
//!
//! A kind has its own scripts where its keys differ. Arguments and replies are the same for all
//! kinds, so the session only needs to know what [`Kind`] says.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::kind::Kind;
use super::resource::Resource;
use super::script::Script;
use super::{Arg, Call, Field, Keys, Publish};
use crate::client_id::ClientId;

/// Whether an acquisition waits in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queueing {
    Not,
    /// At the end, and no call has asked for a place before.
    First,
    AtTheEnd,
    /// The waiter's place was kept in time, but is gone.
    AtTheFront,
    /// The waiter has a place, and gets no new one if it is gone.
    Keep,
    /// Not in a queue: the waiter is listed in the holder's field, with the number of this attempt.
    InHolderField {
        attempt: u64,
    },
}

/// The arguments of one attempt to take a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AcquireArgs<'a> {
    pub(crate) field: &'a Field,
    pub(crate) lease: Duration,
    /// The number of permits of a semaphore; one for anything else.
    pub(crate) permits: u32,
    /// The total number of permits that the acquisition declares.
    pub(crate) limit: Option<u32>,
    pub(crate) queueing: Queueing,
    /// Waiters of this client behind which a place at the front is, the last one first.
    pub(crate) behind: &'a [Arc<str>],
    /// How long a place in the queue lasts without a heartbeat, and a lease that a release begins.
    pub(crate) claim: Duration,
    /// The write hold under which a read hold is taken.
    pub(crate) writer: Option<&'a Field>,
}

impl AcquireArgs<'_> {
    pub(super) fn owner_and_lease(&self) -> [Arg; 2] {
        [self.field.clone().into(), ms(self.lease)]
    }
}

/// What makes the field of a new hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewField<'a> {
    pub(crate) client_id: ClientId,
    /// The same as text.
    pub(crate) client: &'a str,
    /// No other field of the client is made from it.
    pub(crate) number: u64,
    pub(crate) permits: u32,
    /// No release may give the lock to it: the lease is shorter than the time for which a place in
    /// the queue is kept, or another lock has the same queue.
    pub(crate) must_ask: bool,
    pub(crate) heard_by: HeardBy,
}

/// Who is subscribed to the messages to an owner that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeardBy {
    /// The owner, on its channel.
    Owner,
    /// Its client, on a channel for all of its waiters. The messages name the owner's channel.
    Client,
}

/// The arguments of a forced release.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Force<'a> {
    /// Any owner, if none is given.
    pub(crate) owner: Option<&'a str>,
    /// A [note](super::forced::note) for the holder.
    pub(crate) note: &'a str,
}

impl Force<'_> {
    pub(super) fn args(self) -> [Arg; 2] {
        [self.owner.unwrap_or_default(), self.note].map(Arg::from)
    }
}

/// The calls of one kind. Kinds share the calls that are the same for them.
pub(super) struct KindCalls {
    /// A field that no other acquisition ever uses.
    pub(super) field: fn(NewField<'_>) -> Field,
    /// Takes the lock, or returns how long it is still held.
    pub(super) acquire: fn(&Resource, Publish, &AcquireArgs<'_>) -> Call,
    /// Raises the count of a hold to a number and extends its lease to at least a duration.
    pub(super) reenter: fn(&Resource, &Field, Duration, u32) -> Call,
    /// Lowers the count to a number. Zero ends the hold, and a wait in Redis.
    pub(super) release: fn(&Resource, Publish, u32, &Field) -> Call,
    /// Ends every hold of the lock, or those of one owner.
    pub(super) force_release: fn(&Resource, Publish, Force<'_>) -> Call,
    pub(super) inspect: &'static Script,
    /// Renews many holds for one lease: for each of them its keys and its field.
    pub(super) renewal: &'static Script,
    pub(super) renewal_keys: fn(&Resource, &str) -> Keys,
}

pub(crate) fn ms(span: Duration) -> Arg {
    Arg::Int(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))
}

/// The commands by which scripts publish. Each call has one, so their texts are shared.
static PUBLISH: LazyLock<[Arc<str>; 2]> = LazyLock::new(|| ["PUBLISH", "SPUBLISH"].map(Arc::from));

impl Resource {
    /// The key and the extra keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = Arc<str>> {
        std::iter::once(&self.key).chain(&self.extra_keys).cloned()
    }

    pub(super) fn only_key(&self) -> [Arc<str>; 1] {
        [self.key.clone()]
    }

    /// The channel of a script and the command by which it publishes.
    pub(super) fn publish_args(&self, publish: Publish) -> [Arg; 2] {
        let [plain, sharded] = &*PUBLISH;
        let command = if **plain == *publish { plain } else { sharded };
        [self.channel(), command].map(|text| Arg::Text(text.clone()))
    }

    pub(super) fn force_args(
        &self,
        publish: Publish,
        force: Force<'_>,
    ) -> impl Iterator<Item = Arg> {
        self.publish_args(publish).into_iter().chain(force.args())
    }

    /// The arguments of the release of a whole hold.
    pub(super) fn release_args(&self, publish: Publish, field: &Field) -> [Arg; 3] {
        let [channel, command] = self.publish_args(publish);
        [channel, command, field.clone().into()]
    }
}

/// The field of most kinds, in Redisson's form: `<client uuid>:<number>`.
pub(super) fn plain_field(NewField { client, number, .. }: NewField<'_>) -> Field {
    joined_field(client, number, "")
}

/// A UUID, two colons, and two numbers or a number and a word.
const FIELD_MAX: usize = 36 + 2 + 20 + 20;

/// `<client uuid>:<number><end>`. Each acquisition makes one, so it is joined in place.
pub(super) fn joined_field(client: &str, number: u64, end: &str) -> Field {
    let mut digits = itoa::Buffer::new();
    let mut text = [0; FIELD_MAX];
    let mut length = 0;
    for part in [client, ":", digits.format(number), end] {
        text[length..][..part.len()].copy_from_slice(part.as_bytes());
        length += part.len();
    }
    Arc::from(str::from_utf8(&text[..length]).expect("BUG: texts are joined"))
}

/// One call that renews many holds for one lease, if their kinds share a script: resource and owner
/// of each.
pub(super) fn renew(calls: &KindCalls, lease: Duration, holds: &[(&Resource, &Field)]) -> Call {
    let keys = |(resource, field): &(&Resource, &Field)| (calls.renewal_keys)(resource, field);
    let fields = holds.iter().map(|(_, field)| Arg::Text((*field).clone()));
    Call::new(
        calls.renewal,
        holds.iter().flat_map(keys),
        std::iter::once(ms(lease)).chain(fields),
    )
}

/// True if a hold of this kind may have this field. The sides of a read/write lock share a hash,
/// which also contains the fields of the other side, and the mode.
pub(crate) fn may_be_field(kind: Kind, text: &str) -> bool {
    match kind {
        Kind::String => true,
        Kind::Write => is_write(text),
        Kind::Read => !is_write(text) && text != MODE,
        _ => text != MODE,
    }
}

/// The entry in the hash of a read/write lock that says which side holds it. No holder has this
/// field.
pub(super) const MODE: &str = "mode";

/// True for the field of a writer.
pub(super) fn is_write(field: &str) -> bool {
    field.ends_with(":write")
}
