//! One direction of a connection: the bytes in flight, and the end of the stream.
//!
//! # Invariants
//!
//! - **PIPE-1** The lengths in `written` add up to the length of `bytes`.
//! - **PIPE-2** No bytes are due before earlier bytes, and the end is not due before any byte.

use std::collections::VecDeque;
use std::task::Waker;

use bytes::{Buf as _, BytesMut};
use tokio::io::ReadBuf;
use tokio::time::Instant;

/// What happens to bytes in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Passes,
    /// Bytes stay where they are.
    Stalls,
    /// Bytes and the end of the stream vanish, and neither end notices.
    Drops,
}

/// How a reader learns that nothing more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    Closed,
    Reset,
}

#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) delivery: Delivery,
    bytes: BytesMut,
    /// The sizes of the writes, and when each is due.
    written: VecDeque<(usize, Instant)>,
    last_due: Instant,
    end: Option<(Instant, StreamEnd)>,
    /// The reader is gone, so written bytes vanish.
    pub(super) is_unread: bool,
    /// Bytes were dropped, so the direction cannot continue.
    pub(super) has_gap: bool,
    /// The next chunk does not come before this instant.
    pub(super) pauses_until: Option<Instant>,
    /// A chunk was read. The next one must be a separate event.
    pub(super) yields: bool,
    pub(super) sent: u64,
    pub(super) arrived: u64,
    /// The connection breaks when this many bytes have arrived.
    pub(super) breaks_at: Option<u64>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

impl Pipe {
    pub(super) fn new() -> Self {
        Pipe {
            delivery: Delivery::Passes,
            bytes: BytesMut::new(),
            written: VecDeque::new(),
            last_due: Instant::now(),
            end: None,
            is_unread: false,
            has_gap: false,
            pauses_until: None,
            yields: false,
            sent: 0,
            arrived: 0,
            breaks_at: None,
            reader: None,
            writer: None,
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn write(&mut self, bytes: &[u8], due: Instant) {
        self.bytes.extend_from_slice(bytes);
        let due = self.after_the_last(due);
        self.written.push_back((bytes.len(), due));
    }

    pub(super) fn end(&mut self, due: Instant, how: StreamEnd) {
        if self.end.is_none() {
            let due = self.after_the_last(due);
            self.end = Some((due, how));
        }
    }

    fn after_the_last(&mut self, due: Instant) -> Instant {
        self.last_due = self.last_due.max(due);
        self.last_due
    }

    /// The number of bytes that are due.
    pub(super) fn due(&self, now: Instant) -> usize {
        self.written
            .iter()
            .take_while(|(_, due)| *due <= now)
            .map(|(length, _)| length)
            .sum()
    }

    /// When the next bytes or the end are due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let end = self.end.map(|(due, _)| due);
        let next = self.written.front().map(|(_, due)| *due).or(end)?;
        Some(self.pauses_until.map_or(next, |until| until.max(next)))
    }

    /// The end, if it is due and all bytes before it have arrived.
    pub(super) fn ended(&self, now: Instant) -> Option<StreamEnd> {
        let (due, how) = self.end?;
        (self.bytes.is_empty() && due <= now).then_some(how)
    }

    pub(super) fn has_end(&self) -> bool {
        self.end.is_some()
    }

    /// Hands over the first `count` bytes.
    pub(super) fn hand_over(&mut self, count: usize, into: &mut ReadBuf<'_>) {
        into.put_slice(&self.bytes[..count]);
        self.bytes.advance(count);
        self.arrived += count as u64;
        let mut left = count;
        while left > 0 {
            let Some((length, _)) = self.written.front_mut() else {
                break;
            };
            let part = left.min(*length);
            *length -= part;
            left -= part;
            if *length == 0 {
                self.written.pop_front();
            }
        }
    }

    /// Replaces the end of the direction: the first `kept` bytes are due at `due`, followed by the
    /// end.
    pub(super) fn end_with(&mut self, kept: usize, due: Instant, how: StreamEnd) {
        self.bytes.truncate(kept);
        self.written.clear();
        if !self.bytes.is_empty() {
            self.written.push_back((self.bytes.len(), due));
        }
        self.end = Some((due, how));
        self.last_due = due;
        self.pauses_until = None;
        self.delivery = Delivery::Passes;
    }

    /// Bytes in flight vanish, and so do later ones.
    pub(super) fn drop_bytes(&mut self) {
        self.delivery = Delivery::Drops;
        let ends = self.end.take().is_some();
        self.has_gap |= ends || !self.bytes.is_empty();
        self.bytes.clear();
        self.written.clear();
    }

    /// The reader is gone.
    pub(super) fn stop_reading(&mut self) {
        self.is_unread = true;
        self.bytes.clear();
        self.written.clear();
    }
}
