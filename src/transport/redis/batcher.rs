//! Sends what queues on a wire: one task for each command connection, driven where that is driven.
//!
//! # Bounds
//!
//! Each call is in one command at most. The task ends with its connection, and after [`close`]
//! when the last answer was passed on.
//!
//! [`close`]: Wire::close

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, sleep};

use super::Shared;
use super::evaluate::{eval, eval_sha, not_loaded};
use super::wire::{Block, HELD_MAX, Job, Outcome, Wire};
use crate::protocol::{Value, batch};
use crate::transport::{CallError, Fault, Lane, sort_error_reply};

struct Batcher {
    wire: Arc<Wire>,
    shared: Arc<Shared>,
    lane: Lane,
}

/// Runs until the wire is closed and everything that was sent is answered.
pub(super) async fn run(wire: Arc<Wire>, shared: Arc<Shared>, lane: Lane) {
    let batcher = Batcher { wire, shared, lane };
    let wire = &*batcher.wire;
    let mut under_way = FuturesUnordered::new();
    let alarm = sleep(HELD_MAX);
    tokio::pin!(alarm);
    let mut armed = false;
    loop {
        while let Some(parcel) = wire.take() {
            let (jobs, flight) = (parcel.jobs, parcel.flight);
            let batcher = &batcher;
            let mut delivery = Box::pin(async move {
                batcher.deliver(jobs).await;
                drop(flight);
            });
            // INVARIANT W1: given to fred before anything else can be.
            let done = futures::poll!(&mut delivery).is_ready();
            drop(parcel.block);
            if !done {
                under_way.push(delivery);
            }
        }
        if !armed && wire.has_queue() {
            alarm.as_mut().reset(Instant::now() + HELD_MAX);
            armed = true;
        }
        if under_way.is_empty() && wire.is_closed() {
            return;
        }
        tokio::select! {
            biased;
            Some(()) = under_way.next() => {}
            () = wire.due.notified() => {}
            () = &mut alarm, if armed => armed = false,
        }
    }
}

impl Batcher {
    /// Sends jobs as one command and answers them. Its first poll sends.
    async fn deliver(&self, mut jobs: Vec<Job>) {
        let Some(first) = jobs.first() else { return };
        let since = first.since;
        let together = (jobs.len() > 1).then(|| batch::batch(jobs.iter().map(|job| &job.call)));
        let Some(call) = together.flatten() else {
            return self.one_by_one(jobs).await;
        };
        let client = &self.wire.client;
        let mut outcome = eval_sha(client, &call, Some(self.wire.left(since))).await;
        if not_loaded(&outcome) {
            let block = self.wire.block();
            // INVARIANT W2: an undo of one of these may have been sent meanwhile; later ones queue.
            jobs.retain(|job| !job.answer.is_closed());
            let Some(call) = batch::batch(jobs.iter().map(|job| &job.call)) else { return };
            if jobs.is_empty() {
                return;
            }
            outcome = sent_in(block, eval(client, &call, self.wire.left(since))).await;
        }
        match outcome {
            Ok(reply) => self.share(jobs, reply),
            // One key that this user may not touch, and none of the calls was run.
            Err(CallError::Refused(_)) => {
                let block = self.wire.block();
                jobs.retain(|job| !job.answer.is_closed());
                sent_in(block, self.one_by_one(jobs)).await;
            }
            Err(error) => {
                for job in jobs {
                    self.answer(job, Err(error.clone()));
                }
            }
        }
    }

    /// Sends each job as a command of its own. Its first poll sends all of them.
    async fn one_by_one(&self, jobs: Vec<Job>) {
        let mut sent = Vec::with_capacity(jobs.len());
        for job in jobs {
            let mut delivery = Box::pin(self.alone(job));
            if futures::poll!(&mut delivery).is_pending() {
                sent.push(delivery);
            }
        }
        for delivery in sent {
            delivery.await;
        }
    }

    async fn alone(&self, job: Job) {
        let (client, wire) = (&self.wire.client, &self.wire);
        let mut outcome = eval_sha(client, &job.call, Some(wire.left(job.since))).await;
        if not_loaded(&outcome) {
            let block = wire.block();
            // INVARIANT W2: as for a batch.
            if job.answer.is_closed() {
                return;
            }
            outcome = sent_in(block, eval(client, &job.call, wire.left(job.since))).await;
        }
        self.answer(job, outcome);
    }

    /// Gives each job its part of the reply.
    fn share(&self, jobs: Vec<Job>, reply: Value) {
        match batch::replies(reply, jobs.len()) {
            Ok(replies) => {
                for (job, reply) in jobs.into_iter().zip(replies) {
                    self.answer(job, reply.map_err(|text| sort_error_reply(&text)));
                }
            }
            Err(unexpected) => {
                let fault = Fault(format!("unexpected reply of a batch: {:?}", unexpected.0));
                for job in jobs {
                    self.answer(job, Err(CallError::Unknown(fault.clone())));
                }
            }
        }
    }

    fn answer(&self, job: Job, outcome: Outcome) {
        self.shared.line(self.lane).learn(&outcome);
        // Nobody may be waiting any more.
        drop(job.answer.send(outcome));
    }
}

/// Keeps the block until `sending` was polled once: until it has sent.
async fn sent_in<T>(block: Block<'_>, sending: impl Future<Output = T>) -> T {
    let mut sending = Box::pin(sending);
    match futures::poll!(&mut sending) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => {
            drop(block);
            sending.await
        }
    }
}
