//! The two ways of publishing to a channel.

/// The commands that publish to a channel and subscribe to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PubSub {
    /// PUBLISH and SUBSCRIBE. In a cluster, every node receives the message.
    Plain,
    /// SPUBLISH and SSUBSCRIBE. Only the node that serves the channel's slot receives the message.
    Sharded,
}

impl PubSub {
    pub(crate) fn publish_command(self) -> &'static str {
        match self {
            PubSub::Plain => "PUBLISH",
            PubSub::Sharded => "SPUBLISH",
        }
    }
}

/// How a cluster publishes the releases of locks: within the shard (`SPUBLISH`), or to all nodes
/// (`PUBLISH`). See `ClientBuilder::sharded_pubsub`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardedPubSub {
    /// Within the shard if the servers support that: Redis from 7.0, and all versions of Valkey.
    #[default]
    Auto,
    /// Within the shard.
    On,
    /// To all nodes.
    Off,
}
