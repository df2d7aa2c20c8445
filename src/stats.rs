//! Plain counters of what a client has done and what it keeps. They are always on.

use std::fmt;

use crate::telemetry::Counter;

macro_rules! stats {
    (
        counted { $($(#[doc = $doc:literal])* $name:ident,)* }
        looked_up { $($(#[doc = $other_doc:literal])* $other:ident,)* }
    ) => {
        /// The counters behind [`Stats`].
        #[derive(Debug)]
        pub(crate) struct Counters { $(pub(crate) $name: Counter,)* }

        impl Default for Counters {
            fn default() -> Self {
                Counters {
                    $($name: Counter::new(
                        concat!("leasehold_", stringify!($name), "_total"),
                    ),)*
                }
            }
        }

        /// The counters as metrics, with their help.
        #[cfg(feature = "metrics")]
        pub(crate) const METRICS: &[(&str, &str)] =
            &[$((concat!("leasehold_", stringify!($name), "_total"), concat!($($doc),*)),)*];

        /// What a client has done since it was made, and what it keeps now.
        ///
        /// [`Client::stats`](crate::Client::stats) takes this snapshot. The fields are read one
        /// after another, so they need not be consistent with each other.
        ///
        /// # Examples
        ///
        #[cfg_attr(feature = "embedded", doc = "```")]
        #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), leasehold::Error> {
        /// # let client = leasehold::Client::embedded();
        /// client.lock("orders:42").lock().await?.unlock().await?;
        ///
        /// let stats = client.stats();
        /// assert_eq!(stats.acquired_at_once, 1);
        /// for (name, value) in stats.iter() {
        ///     println!("leasehold_{name} {value}"); // for an exporter
        /// }
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: u64,)*
            $($(#[doc = $other_doc])* pub $other: u64,)*
        }

        impl Stats {
            /// Every field with its name, in the order of declaration, for an exporter.
            ///
            /// The fields whose description says *now* are gauges. The others only rise.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [
                    $((stringify!($name), self.$name),)*
                    $((stringify!($other), self.$other),)*
                ]
                .into_iter()
            }
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Stats {
                Stats { $($name: self.$name.value(),)* ..Stats::default() }
            }
        }
    };
}

stats! {
    counted {
        /// Acquisitions granted by the first call, with no waiter of this client ahead.
        acquired_at_once,
        /// Acquisitions granted after waiting, hand-overs included.
        acquired_after_waiting,
        /// Acquisitions handed over within this client.
        handed_over,
        /// Acquisitions and releases that were woken and not polled: the client cleaned up for the
        /// caller.
        cancelled_as_unpolled,
        /// Re-entries.
        reentered,
        /// Acquisitions that ended with a time-out.
        timed_out,
        /// Waiters woken by a message.
        wakes,
        /// Wakes after which another owner still held the lock.
        wakes_in_vain,
        /// Holds that were renewed.
        renewed,
        /// Renewals that got no answer.
        renewals_failed,
        /// Holds lost before they were released.
        lost,
        /// Releases that were queued for the background.
        releases_queued,
        /// Releases that were given up: refused, or without an answer for two leases and 10 s.
        releases_failed,
        /// Script calls.
        calls,
        /// Safety polls sent.
        polls,
    }
    looked_up {
        /// Connections that were made again after they broke.
        reconnects,
        /// Channels subscribed now, including those kept warm.
        subscriptions,
        /// Waiters registered with channels now.
        listeners,
        /// Names held or waited for now.
        local_queues,
        /// Futures that wait for a lock now. One that waits for a quorum lock counts for each of
        /// its members.
        waiting,
        /// Holds that the watchdog knows now.
        holds,
        /// Releases not yet settled now.
        releases_pending,
    }
}

/// `name=value` for each field, separated by blanks.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (name, value)) in self.iter().enumerate() {
            let blank = if position == 0 { "" } else { " " };
            write!(f, "{blank}{name}={value}")?;
        }
        Ok(())
    }
}

pub(crate) fn count(counter: &Counter) {
    counter.add(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_name_and_value() {
        let stats = Stats {
            calls: 7,
            releases_pending: 3,
            ..Stats::default()
        };
        let fields: Vec<_> = stats.iter().collect();
        assert!(fields.contains(&("calls", 7)) && fields.contains(&("releases_pending", 3)));
        assert_eq!(fields.iter().map(|(_, value)| value).sum::<u64>(), 10);
        // `Debug` shows every field of the struct.
        let debug = format!("{stats:?}");
        assert_eq!(debug.matches(": ").count(), fields.len());
        assert!(
            fields
                .iter()
                .all(|(name, value)| debug.contains(&format!("{name}: {value}")))
        );
    }

    #[test]
    fn stats_are_shown_on_one_line() {
        let shown = Stats {
            acquired_at_once: 2,
            ..Stats::default()
        }
        .to_string();
        assert!(
            shown.starts_with("acquired_at_once=2 acquired_after_waiting=0 "),
            "{shown}"
        );
        assert!(shown.ends_with(" releases_pending=0"), "{shown}");
    }
}
