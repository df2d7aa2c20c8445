//! The transport of one client of the engine, and the task that drives its connections.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::connections::{Answer, Arrival, Connections, Event, Next, Request};
use super::engine::Engine;
use super::faults::Activity;
use super::reply::to_value;
use crate::process::Process;
use crate::protocol::{Call, Value};
use crate::sync::Mutex;
use crate::transport::{CallError, Lane, Missed, Role, TransportEvents};

pub(crate) struct EmbeddedTransport {
    /// Which made it.
    process: Process,
    engine: Arc<Engine>,
    connections: Arc<Connections>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl EmbeddedTransport {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        events: Arc<dyn TransportEvents>,
        runtime: &Handle,
    ) -> Self {
        let connections = engine.add_client(|id| Arc::new(Connections::new(id, events)));
        let task = runtime.spawn(drive(EndOnDrop(engine.clone(), connections.clone())));
        let (process, engine, task) = (Process::this(), engine.clone(), Mutex::new(Some(task)));
        EmbeddedTransport { process, engine, connections, task }
    }

    pub(crate) async fn call(&self, lane: Lane, call: Call) -> Result<Value, CallError> {
        self.request(Role::Calls(lane), Request::Call(call)).await
    }

    /// After how long a call without a reply is given up. To be set before the first call.
    pub(crate) fn set_command_timeout(&self, timeout: Duration) {
        self.connections.set_command_timeout(timeout);
    }

    pub(crate) fn epoch(&self, lane: Lane) -> u64 {
        self.connections.epoch(Role::Calls(lane))
    }

    pub(crate) async fn subscribe(&self, channel: &Arc<str>) -> Result<(), CallError> {
        self.request(Role::Messages, Request::Subscribe(channel.clone())).await.map(drop)
    }

    pub(crate) fn unsubscribe(&self, channel: &Arc<str>) {
        self.connections.unsubscribe(channel);
    }

    pub(crate) fn server(&self) -> String {
        // The texts sort as the numbers do.
        format!("embedded:{:020}", self.engine.number)
    }

    pub(crate) fn reconnects(&self) -> u64 {
        self.connections.reconnects()
    }

    pub(crate) async fn close(&self) {
        self.end();
        let task = self.task.lock().take();
        if let Some(task) = task {
            // The task ends by itself, or its runtime has ended it.
            drop(task.await);
        }
    }

    /// Sends at the first poll. The server runs the request even if the future is dropped.
    async fn request(&self, role: Role, request: Request) -> Answer {
        if !self.process.is_this() {
            return Err(CallError::Forked);
        }
        let answer = self.connections.send(role, request);
        answer.await.unwrap_or(Err(CallError::Closed))
    }

    fn end(&self) {
        self.connections.end();
        self.engine.remove_client(self.connections.id);
    }
}

impl Drop for EmbeddedTransport {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for EmbeddedTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedTransport")
            .field("id", &self.connections.id)
            .finish_non_exhaustive()
    }
}

/// Ends the client when its task is dropped, even before the task ran: no call may wait for ever, and no
/// waiter for a message.
struct EndOnDrop(Arc<Engine>, Arc<Connections>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let events = self.1.events();
        self.1.end();
        self.0.remove_client(self.1.id);
        if let Some(events) = events {
            events.missed(Missed::All);
        }
    }
}

async fn drive(client: EndOnDrop) {
    let EndOnDrop(engine, connections) = &client;
    loop {
        match connections.next(engine.activity()) {
            Next::End => return,
            Next::Do(event) => {
                perform(engine, connections, event);
                // One event at a time, so that clients take turns.
                tokio::task::yield_now().await;
            }
            Next::Sleep(None) => connections.woken().await,
            Next::Sleep(Some(until)) => {
                tokio::select! {
                    biased;
                    () = tokio::time::sleep_until(until) => {}
                    () = connections.woken() => {}
                }
            }
        }
    }
}

fn perform(engine: &Engine, connections: &Connections, event: Event) {
    match event {
        Event::Arrive(arrival) if engine.activity() == Activity::Paused => {
            connections.hold(arrival);
        }
        Event::Arrive(arrival) => arrive(engine, connections, &arrival),
        Event::Answer { id, answer } => connections.finish(id, answer),
        Event::Deliver { epoch, message } => {
            if connections.receives(epoch)
                && let Some(events) = connections.events()
            {
                let channel = String::from_utf8_lossy(&message.channel);
                events.message(&channel, &message.payload);
            }
        }
        Event::Missed => {
            if let Some(events) = connections.events() {
                events.missed(Missed::All);
            }
        }
        Event::Healed(role) => healed(engine, connections, role),
    }
}

/// A request has reached the server.
fn arrive(engine: &Engine, connections: &Connections, arrival: &Arrival) {
    if !connections.arrives(arrival) {
        return;
    }
    let answer = match &arrival.request {
        Request::Call(call) => {
            let mut outcome = engine.call(call);
            if arrival.duplicated {
                outcome = engine.call(call);
            }
            to_value(outcome)
        }
        Request::Subscribe(channel) => {
            engine.subscribe(connections.id, &[&**channel]);
            Ok(Value::Nil)
        }
        Request::Unsubscribe(channel) => {
            engine.unsubscribe(connections.id, &[&**channel]);
            Ok(Value::Nil)
        }
    };
    connections.ran(arrival, answer);
}

fn healed(engine: &Engine, connections: &Connections, healed: Role) {
    if healed == Role::Messages {
        engine.unsubscribe_all(connections.id);
        for channel in connections.subscribed() {
            engine.subscribe(connections.id, &[&*channel]);
        }
    }
    let Some(events) = connections.events() else { return };
    match healed {
        Role::Calls(lane) => events.restored(lane),
        Role::Messages => events.missed(Missed::All),
    }
}
