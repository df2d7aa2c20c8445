//! One client's link to the engine: the methods of a transport, and the task that drives them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::engine::{Activity, Engine};
use super::port::{Answer, Arrival, Event, Line, Next, Port, Request};
use super::reply::to_value;
use crate::protocol::{Call, Value};
use crate::transport::{CallError, Lane, Sink};

pub(crate) struct Link {
    engine: Arc<Engine>,
    port: Arc<Port>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Link {
    pub(crate) fn new(engine: &Arc<Engine>, sink: Arc<dyn Sink>, runtime: &Handle) -> Self {
        let port = engine.add_port(|id| Arc::new(Port::new(id, sink)));
        let task = runtime.spawn(drive(EndOnDrop(engine.clone(), port.clone())));
        Link { engine: engine.clone(), port, task: Mutex::new(Some(task)) }
    }

    pub(crate) async fn call(&self, lane: Lane, call: Call) -> Result<Value, CallError> {
        self.request(lane.into(), Request::Run(call)).await
    }

    /// After how long a call without a reply is given up. To be set before the first call.
    pub(crate) fn set_command_timeout(&self, timeout: Duration) {
        self.port.set_command_timeout(timeout);
    }

    pub(crate) fn epoch(&self, lane: Lane) -> u64 {
        self.port.epoch(lane.into())
    }

    pub(crate) async fn subscribe(&self, channel: &Arc<str>) -> Result<(), CallError> {
        self.request(Line::Messages, Request::Listen(channel.clone())).await.map(drop)
    }

    pub(crate) fn unsubscribe(&self, channel: &Arc<str>) {
        self.port.unlisten(channel);
    }

    pub(crate) fn server(&self) -> String {
        // As texts they have the order of their numbers.
        format!("embedded:{:020}", self.engine.number)
    }

    pub(crate) fn reconnects(&self) -> u64 {
        self.port.reconnects()
    }

    pub(crate) async fn close(&self) {
        self.hang_up();
        let task = self.task.lock().take();
        if let Some(task) = task {
            // It ends by itself, or its runtime has ended it.
            drop(task.await);
        }
    }

    /// Sends at the first poll; the server runs it even if nobody waits any more.
    async fn request(&self, line: Line, request: Request) -> Answer {
        let answer = self.port.send(line, request);
        answer.await.unwrap_or(Err(CallError::Closed))
    }

    fn hang_up(&self) {
        self.port.end();
        self.engine.remove_peer(self.port.id);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.hang_up();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("id", &self.port.id).finish_non_exhaustive()
    }
}

/// Ends the link when its task goes, whoever ended it, even before it ran: no call may wait for ever.
struct EndOnDrop(Arc<Engine>, Arc<Port>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.1.end();
        self.0.remove_peer(self.1.id);
    }
}

async fn drive(link: EndOnDrop) {
    let EndOnDrop(engine, port) = &link;
    loop {
        match port.next(engine.activity()) {
            Next::End => return,
            Next::Do(event) => {
                perform(engine, port, event);
                // One thing at a time, so that links take turns.
                tokio::task::yield_now().await;
            }
            Next::Sleep(None) => port.woken().await,
            Next::Sleep(Some(until)) => {
                tokio::select! {
                    biased;
                    () = tokio::time::sleep_until(until) => {}
                    () = port.woken() => {}
                }
            }
        }
    }
}

fn perform(engine: &Engine, port: &Port, event: Event) {
    match event {
        Event::Arrive(arrival) if engine.activity() == Activity::Paused => port.hold(arrival),
        Event::Arrive(arrival) => arrive(engine, port, &arrival),
        Event::Answer { id, answer } => port.finish(id, answer),
        Event::Deliver { epoch, message } => {
            if port.receives(epoch)
                && let Some(sink) = port.sink()
            {
                let channel = String::from_utf8_lossy(&message.channel);
                sink.message(&channel, &message.payload);
            }
        }
        Event::Missed => {
            if let Some(sink) = port.sink() {
                sink.missed();
            }
        }
        Event::Healed(line) => healed(engine, port, line),
    }
}

/// A request has reached the server.
fn arrive(engine: &Engine, port: &Port, arrival: &Arrival) {
    if !port.arrives(arrival) {
        return;
    }
    let answer = match &arrival.request {
        Request::Run(call) => {
            let mut outcome = engine.call(call);
            if arrival.twice {
                outcome = engine.call(call);
            }
            to_value(outcome)
        }
        Request::Listen(channel) => {
            engine.listen(port.id, &[&**channel]);
            Ok(Value::Nil)
        }
        Request::Unlisten(channel) => {
            engine.unlisten(port.id, &[&**channel]);
            Ok(Value::Nil)
        }
    };
    port.ran(arrival, answer);
}

fn healed(engine: &Engine, port: &Port, healed: Line) {
    if healed == Line::Messages {
        engine.unlisten_all(port.id);
        for channel in port.wanted() {
            engine.listen(port.id, &[&*channel]);
        }
    }
    let Some(sink) = port.sink() else { return };
    match healed.lane() {
        Some(lane) => sink.restored(lane),
        None => sink.missed(),
    }
}
