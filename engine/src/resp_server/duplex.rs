//! The state of a connection: two pipes, their faults, and how it breaks.
//!
//! Bytes arrive when their reader takes them. Bytes not yet taken when the connection breaks were
//! in flight.

use std::io;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::pipe::{Delivery, Pipe, StreamEnd};
use crate::faults::{Delay, Direction, Faults};

/// The outcome of a read.
pub(super) enum Read {
    Some,
    End,
    Lost(io::Error),
    /// More bytes are due, but the reader must yield before it takes them.
    Yield,
    /// Nothing is due before this time, or before the connection changes.
    Later(Option<Instant>),
}

pub(super) struct Duplex {
    faults: Faults,
    rng: fastrand::Rng,
    /// Added to each delay of this connection.
    extra_delay: Duration,
    requests: Pipe,
    replies: Pipe,
    /// The client cannot dial until this instant, because the connection broke.
    broken: Option<Instant>,
    /// Tasks to wake once the lock is released.
    pub(super) woken: Vec<Waker>,
}

impl Duplex {
    pub(super) fn new(faults: Faults, mut rng: fastrand::Rng) -> Self {
        Duplex {
            extra_delay: faults.uneven.draw(&mut rng),
            faults,
            rng,
            requests: Pipe::new(),
            replies: Pipe::new(),
            broken: None,
            woken: Vec::new(),
        }
    }

    pub(super) fn set_faults(&mut self, faults: Faults, mut rng: fastrand::Rng) {
        self.extra_delay = faults.uneven.draw(&mut rng);
        self.faults = faults;
        self.rng = rng;
    }

    /// Replies and messages arrive this much later.
    pub(super) fn delay(&mut self, by: Duration) {
        self.faults.reply = Delay::fixed(by);
    }

    pub(super) fn faults(&self) -> &Faults {
        &self.faults
    }

    pub(super) fn pipe(&mut self, direction: Direction) -> &mut Pipe {
        match direction {
            Direction::Requests => &mut self.requests,
            Direction::Replies => &mut self.replies,
        }
    }

    /// The instant from which the client can dial again, if the connection broke.
    pub(super) fn away_until(&self) -> Option<Instant> {
        self.broken
    }

    /// True if both ends exist, as far as the client can know.
    pub(super) fn is_open(&self) -> bool {
        let ended = self.requests.has_end() || self.replies.has_end();
        self.broken.is_none() && !ended && !self.replies.is_unread
    }

    pub(super) fn chance(&mut self, part: f64) -> bool {
        // A chance of zero draws no number, so that the seed gives the same run without that fault.
        part > 0.0 && self.rng.f64() < part
    }

    fn after(&mut self, now: Instant, delay: Delay) -> Instant {
        now + delay.draw(&mut self.rng)
    }

    fn arrival(&mut self, direction: Direction, now: Instant) -> Instant {
        let delay = match direction {
            Direction::Requests => self.faults.request,
            Direction::Replies => self.faults.reply,
        };
        self.after(now, delay) + self.extra_delay
    }

    /// Accepts bytes for the other end, and returns how many. `None` while there is no room.
    pub(super) fn write(
        &mut self,
        direction: Direction,
        now: Instant,
        bytes: &[u8],
        context: &Context<'_>,
    ) -> io::Result<Option<usize>> {
        if direction == Direction::Requests && self.has_client_noticed(now) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let capacity = self.faults.capacity;
        let pipe = self.pipe(direction);
        let taken = match pipe.delivery {
            _ if pipe.is_unread || pipe.has_end() => bytes.len(),
            Delivery::Drops => {
                pipe.has_gap = true;
                bytes.len()
            }
            Delivery::Passes | Delivery::Stalls => {
                let taken = bytes.len().min(capacity.saturating_sub(pipe.in_flight()));
                if taken == 0 && !bytes.is_empty() {
                    pipe.writer = Some(context.waker().clone());
                    return Ok(None);
                }
                let due = self.arrival(direction, now);
                self.pipe(direction).write(&bytes[..taken], due);
                taken
            }
        };
        self.pipe(direction).sent += taken as u64;
        self.wake_reader(direction);
        Ok(Some(taken))
    }

    /// True if the client could have noticed the end.
    fn has_client_noticed(&self, now: Instant) -> bool {
        self.replies.delivery == Delivery::Passes && self.replies.ended(now).is_some()
    }

    /// Hands over the next chunk.
    pub(super) fn read(
        &mut self,
        direction: Direction,
        now: Instant,
        into: &mut ReadBuf<'_>,
        context: &Context<'_>,
    ) -> Read {
        let read = self.look(direction, now, into);
        if let Read::Later(_) = read {
            self.pipe(direction).reader = Some(context.waker().clone());
        }
        read
    }

    fn look(&mut self, direction: Direction, now: Instant, into: &mut ReadBuf<'_>) -> Read {
        let pipe = self.pipe(direction);
        if pipe.delivery != Delivery::Passes {
            return Read::Later(None);
        }
        if std::mem::take(&mut pipe.yields) && pipe.next_due().is_some_and(|due| due <= now) {
            return Read::Yield;
        }
        let pauses = pipe.pauses_until.is_some_and(|until| until > now);
        let due = if pauses { 0 } else { pipe.due(now) };
        let size = due.min(into.remaining());
        if size > 0 && self.hand_over(direction, now, size, into) > 0 {
            return Read::Some;
        }
        match self.pipe(direction).ended(now) {
            Some(StreamEnd::Closed) => Read::End,
            Some(StreamEnd::Reset) => Read::Lost(io::ErrorKind::ConnectionReset.into()),
            None => Read::Later(self.pipe(direction).next_due()),
        }
    }

    /// One chunk of the bytes that are due, or the part of it that arrives before the connection
    /// breaks.
    fn hand_over(
        &mut self,
        direction: Direction,
        now: Instant,
        most: usize,
        into: &mut ReadBuf<'_>,
    ) -> usize {
        let mut size = most;
        if self.faults.chunk_max < usize::MAX {
            size = size.min(self.rng.usize(1..=self.faults.chunk_max.max(1)));
        }
        let breaks = self.breaks_within(direction, &mut size);
        let pauses = (!breaks && self.chance(self.faults.hesitate))
            .then(|| self.after(now, self.faults.hesitation));
        let is_chunked = self.faults.chunk_max < usize::MAX;
        let pipe = self.pipe(direction);
        pipe.hand_over(size, into);
        pipe.pauses_until = pauses;
        pipe.yields = is_chunked;
        let writer = pipe.writer.take();
        self.woken.extend(writer);
        if breaks {
            self.break_up(now);
        }
        size
    }

    /// True if the connection breaks within this chunk, which is shortened to that point.
    fn breaks_within(&mut self, direction: Direction, size: &mut usize) -> bool {
        if self.broken.is_some() {
            return false;
        }
        let chance = match direction {
            Direction::Requests => self.faults.cut_request,
            Direction::Replies => self.faults.cut_reply,
        };
        let mut breaks = self.chance(chance);
        if breaks {
            *size = self.rng.usize(0..=*size);
        }
        let pipe = self.pipe(direction);
        if let Some(at) = pipe.breaks_at {
            let left = usize::try_from(at.saturating_sub(pipe.arrived)).unwrap_or(usize::MAX);
            if left <= *size {
                *size = left;
                breaks = true;
            }
        }
        breaks
    }

    /// Breaks the connection after `bytes` more bytes have arrived.
    pub(super) fn break_after(&mut self, direction: Direction, bytes: u64, now: Instant) {
        let pipe = self.pipe(direction);
        pipe.breaks_at = Some(pipe.arrived + bytes);
        if bytes == 0 {
            self.break_up(now);
        }
    }

    /// Breaks the connection for the client, and decides what happens to the bytes in flight.
    pub(super) fn break_up(&mut self, now: Instant) {
        if self.broken.is_some() {
            return;
        }
        let away = self.faults.away;
        self.broken = Some(self.after(now, away));
        let how = if self.rng.bool() {
            StreamEnd::Closed
        } else {
            StreamEnd::Reset
        };
        let mut kept = 0;
        if self.chance(self.faults.torn_reply) {
            kept = self.rng.usize(0..=self.replies.in_flight());
        }
        self.replies.end_with(kept, now, how);
        let (mut kept, mut due) = (0, now);
        if self.chance(self.faults.late_after_cut) {
            let all = self.requests.in_flight();
            // Keep or drop a command as a whole.
            kept = if self.rng.bool() {
                all
            } else {
                self.rng.usize(0..=all)
            };
            due = self.after(now, self.faults.late);
        }
        self.requests.end_with(kept, due, how);
        self.wake_all();
    }

    /// Nothing arrives any more, at either end.
    pub(super) fn sever(&mut self, now: Instant) {
        self.broken.get_or_insert(now);
        self.requests.end_with(0, now, StreamEnd::Reset);
        self.replies.end_with(0, now, StreamEnd::Reset);
        self.wake_all();
    }

    /// The writer of a direction has finished.
    pub(super) fn close(&mut self, direction: Direction, now: Instant) {
        if self.pipe(direction).has_end() {
            return;
        }
        if self.pipe(direction).delivery == Delivery::Drops {
            self.pipe(direction).has_gap = true;
            return;
        }
        let mut due = self.arrival(direction, now);
        if direction == Direction::Requests {
            let all = self.requests.in_flight();
            let mut kept = all;
            if self.chance(self.faults.lost_at_close) {
                kept = self.rng.usize(0..=all);
            }
            let late = self.chance(self.faults.late_after_cut);
            if late {
                due = self.after(now, self.faults.late);
            }
            if late || kept < all {
                let delivery = self.requests.delivery;
                self.requests.end_with(kept, due, StreamEnd::Closed);
                self.requests.delivery = delivery;
            }
        }
        self.pipe(direction).end(due, StreamEnd::Closed);
        self.wake_reader(direction);
    }

    /// The reader of a direction is gone.
    pub(super) fn stop_reading(&mut self, direction: Direction) {
        let pipe = self.pipe(direction);
        pipe.stop_reading();
        let writer = pipe.writer.take();
        self.woken.extend(writer);
    }

    /// From now on nothing arrives in this direction. Its writer notices when the pipe is full.
    pub(super) fn stall(&mut self, direction: Direction) {
        if self.broken.is_none() {
            self.pipe(direction).delivery = Delivery::Stalls;
        }
    }

    /// From now on, bytes in this direction vanish.
    pub(super) fn half_open(&mut self, direction: Direction) {
        if self.broken.is_none() {
            let pipe = self.pipe(direction);
            pipe.drop_bytes();
            let writer = pipe.writer.take();
            self.woken.extend(writer);
        }
    }

    /// Lets bytes pass again. If some are missing, both ends find out that the connection is
    /// broken.
    pub(super) fn heal(&mut self, now: Instant) {
        if self.requests.has_gap || self.replies.has_gap {
            self.break_up(now);
        } else if self.broken.is_none() {
            self.requests.delivery = Delivery::Passes;
            self.replies.delivery = Delivery::Passes;
            self.wake_all();
        }
    }

    fn wake_reader(&mut self, direction: Direction) {
        let reader = self.pipe(direction).reader.take();
        self.woken.extend(reader);
    }

    fn wake_all(&mut self) {
        for direction in [Direction::Requests, Direction::Replies] {
            let pipe = self.pipe(direction);
            let tasks = [pipe.reader.take(), pipe.writer.take()];
            self.woken.extend(tasks.into_iter().flatten());
        }
    }
}
