//! What happens on the connections, as their owner is told.

use std::fmt::Display;
use std::time::Duration;

use crate::lane::Lane;

/// The channels on which messages may have been missed.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "it has a function")]
pub enum Missed<'a> {
    /// On every channel.
    All,
    /// On this channel.
    Channel(&'a str),
    /// On every channel for which this function returns true.
    Where(&'a dyn Fn(&str) -> bool),
}

/// Receives messages and events of the connections. Each is ignored by default. No method may
/// block.
pub trait TransportEvents: Send + Sync + 'static {
    /// A server has answered the handshake of a connection, after this time.
    fn greeted(&self, _after: Duration) {}
    /// A message arrived on a subscribed channel.
    fn message(&self, _channel: &str, _payload: &[u8]) {}
    /// Messages may have been missed, because of a reconnect or a full queue.
    fn missed(&self, _what: Missed<'_>) {}
    /// The server has refused a channel that was to be restored. It is not asked for again until
    /// somebody subscribes.
    fn refused(&self, _channel: &str) {}
    /// A connection to this server was lost. `_why` is the reason.
    fn disconnected(&self, _server: &dyn Display, _why: &dyn Display) {}
    /// The connection that carries the renewals of the keys for which `_concerns` returns true was
    /// lost. Their server may be another one by now.
    fn out_of_reach(&self, _concerns: &dyn Fn(&str) -> bool) {}
    /// A connection to this server has replaced a lost one.
    fn reconnected(&self, _server: &dyn Display) {}
    /// The lane has a connection again after a loss, to the server of the keys for which
    /// `_concerns` returns true. The server may have restarted without its data.
    fn restored(&self, _lane: Lane, _concerns: &dyn Fn(&str) -> bool) {}
    /// Another server now serves the keys for which `_concerns` returns true. It may lack the last
    /// writes of the previous server.
    fn primary_changed(&self, _concerns: &dyn Fn(&str) -> bool) {}
}
