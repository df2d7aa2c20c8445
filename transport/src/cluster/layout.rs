//! A node's view of the cluster: which slots each node serves, and how new the view is.

use crate::call::Value;
use crate::endpoint::Security;
use crate::host_port::HostPort;
use crate::keyslot::SLOTS;

/// One node's view of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) ranges: Vec<Range>,
    /// Whether the node considers the cluster to work.
    pub(super) is_ok: bool,
    /// Rises with each failover.
    pub(super) epoch: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) address: HostPort,
    /// Another address of the same node.
    pub(super) also: Option<HostPort>,
    /// The name by which the nodes know it, whatever its address. Empty if they do not say.
    pub(super) id: String,
}

impl Layout {
    /// Reads the replies to CLUSTER SLOTS and CLUSTER INFO. `host` is the host of the node that was
    /// asked. With TLS, nodes are identified by their names, if they have any, because certificates
    /// contain names.
    pub(super) fn read(
        slots: &Value,
        info: &Value,
        host: &str,
        security: Security,
    ) -> Option<Layout> {
        let Value::Array(slots) = slots else {
            return None;
        };
        // Skip a node without an address. Its slots keep their present owner.
        let ranges: Vec<_> = slots
            .iter()
            .filter_map(|range| read_range(range, host, security))
            .collect();
        let is_unread = ranges.is_empty() && !slots.is_empty();
        if is_unread || served(&ranges) > SLOTS {
            return None;
        }
        let Value::Text(info) = info else { return None };
        let field = |name: &str| {
            info.lines()
                .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'))
        };
        Some(Layout {
            ranges,
            is_ok: field("cluster_state") == Some("ok"),
            epoch: field("cluster_current_epoch").and_then(|epoch| epoch.parse().ok())?,
        })
    }

    /// Orders views by reliability. A node that is cut off or behind has an older view. Of two
    /// equally old views, one may lack the address of a node.
    pub(super) fn rank(&self) -> (bool, u64, bool, usize) {
        (
            !self.ranges.is_empty(),
            self.epoch,
            self.is_ok,
            served(&self.ranges),
        )
    }
}

/// The number of slots that have a node.
fn served(ranges: &[Range]) -> usize {
    ranges
        .iter()
        .map(|range| usize::from(range.last - range.first) + 1)
        .sum()
}

fn read_range(range: &Value, asked: &str, security: Security) -> Option<Range> {
    let Value::Array(parts) = range else {
        return None;
    };
    let [
        Value::Int(first),
        Value::Int(last),
        Value::Array(primary),
        ..,
    ] = parts.as_slice()
    else {
        return None;
    };
    let [host, Value::Int(port), rest @ ..] = primary.as_slice() else {
        return None;
    };
    let host = match host {
        Value::Text(host) if !host.is_empty() && host != "?" => host.as_str(),
        // The node does not know its own address: use the one at which it was asked.
        _ => asked,
    };
    let port = u16::try_from(*port).ok().filter(|port| *port != 0)?;
    let id = match rest.first() {
        Some(Value::Text(id)) => id.clone(),
        _ => String::new(),
    };
    let named = rest.iter().find_map(|part| match part.field("hostname") {
        Some(Value::Text(name)) if !name.is_empty() => Some(name.as_str()),
        _ => None,
    });
    let at = |host: &str| HostPort::new(host, port);
    let (address, also) = match named {
        Some(name) if security == Security::Tls && name != host => (at(name), Some(at(host))),
        Some(name) if name != host => (at(host), Some(at(name))),
        _ => (at(host), None),
    };
    let slot = |number: &i64| {
        u16::try_from(*number)
            .ok()
            .filter(|slot| usize::from(*slot) < SLOTS)
    };
    let (first, last) = (slot(first)?, slot(last)?);
    (first <= last).then_some(Range {
        first,
        last,
        address,
        also,
        id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    fn range(host: Value, more: Vec<Value>) -> Value {
        let primary = [vec![host, Value::Int(7001), text("id")], more].concat();
        let replica = Value::Array(vec![text("r"), Value::Int(7002), text("id2")]);
        let parts = vec![
            Value::Int(0),
            Value::Int(5460),
            Value::Array(primary),
            replica,
        ];
        Value::Array(vec![Value::Array(parts)])
    }

    fn read(slots: &Value, security: Security) -> Range {
        let info = text("cluster_state:ok\r\ncluster_current_epoch:6\r\n");
        let layout = Layout::read(slots, &info, "asked", security).expect("a layout");
        assert_eq!((layout.is_ok, layout.epoch), (true, 6));
        layout.ranges.into_iter().next().expect("a range")
    }

    #[test]
    fn a_node_without_an_address_has_the_address_that_was_asked() {
        for host in [text(""), text("?"), Value::Nil] {
            assert_eq!(
                read(&range(host, vec![]), Security::Plain).address.host,
                "asked"
            );
        }
        assert_eq!(
            read(&range(text("10.0.0.1"), vec![]), Security::Plain)
                .address
                .host,
            "10.0.0.1"
        );
    }

    #[test]
    fn a_name_is_another_address_and_the_first_where_certificates_are_checked() {
        let names = Value::Array(vec![text("hostname"), text("redis-1")]);
        let slots = range(text("10.0.0.1"), vec![names]);
        for (security, first, second) in [
            (Security::Tls, "redis-1", "10.0.0.1"),
            (Security::Plain, "10.0.0.1", "redis-1"),
        ] {
            let range = read(&slots, security);
            let also = range.also.expect("another address");
            assert_eq!(
                (range.address.host.as_str(), also.host.as_str()),
                (first, second)
            );
        }
    }

    #[test]
    fn a_range_without_an_address_is_skipped_and_the_rest_is_used() {
        let info = text("cluster_state:ok\r\ncluster_current_epoch:6\r\n");
        for host in [text(""), text("?"), Value::Nil] {
            let lost = Value::Array(vec![host, Value::Int(0), text("id3")]);
            let lost = Value::Array(vec![Value::Int(5461), Value::Int(16_383), lost]);
            let Value::Array(mut slots) = range(text("h"), vec![]) else {
                panic!("an array")
            };
            let whole = Value::Array(slots.clone());
            slots.insert(0, lost.clone());
            let read = |slots: &Value| Layout::read(slots, &info, "asked", Security::Plain);
            let layout = read(&Value::Array(slots)).expect("a layout");
            let ranges: Vec<_> = layout
                .ranges
                .iter()
                .map(|range| (range.first, range.last))
                .collect();
            assert_eq!(ranges, [(0, 5460)]);
            assert_eq!(read(&whole).expect("a layout").rank(), layout.rank());
            // There is no node to go to.
            assert_eq!(read(&Value::Array(vec![lost])), None);
        }
    }

    #[test]
    fn of_two_views_of_one_epoch_the_one_with_more_addresses_wins() {
        let info = text("cluster_state:ok\r\ncluster_current_epoch:6\r\n");
        let at = |first, last| {
            let node = Value::Array(vec![text("h"), Value::Int(7001)]);
            Value::Array(vec![Value::Int(first), Value::Int(last), node])
        };
        let rank = |slots| {
            Layout::read(&slots, &info, "h", Security::Plain)
                .expect("a layout")
                .rank()
        };
        let [some, all] = [vec![at(0, 9)], vec![at(0, 9), at(10, 16_383)]].map(Value::Array);
        assert!(rank(all) > rank(some));
    }

    #[test]
    fn malformed_layouts_are_refused() {
        let info = text("cluster_state:ok\r\ncluster_current_epoch:6\r\n");
        let (no_port, no_epoch) = (range(text("h"), vec![]), text("cluster_state:ok"));
        assert_eq!(Layout::read(&Value::Nil, &info, "h", Security::Plain), None);
        assert_eq!(
            Layout::read(&no_port, &no_epoch, "h", Security::Plain),
            None
        );
        let Value::Array(range) = &no_port else {
            panic!("an array")
        };
        // One node serves each slot. A view that names more owners than there are slots is refused.
        let twice = Value::Array([range.as_slice(), range, range, range].concat());
        assert_eq!(Layout::read(&twice, &info, "h", Security::Plain), None);
        let Value::Array(mut backwards) = range[0].clone() else {
            panic!("a range")
        };
        backwards.swap(0, 1);
        let backwards = Value::Array(vec![Value::Array(backwards)]);
        assert_eq!(Layout::read(&backwards, &info, "h", Security::Plain), None);
        let Value::Array(mut parts) = no_port else {
            panic!("an array")
        };
        parts[0] = Value::Array(vec![Value::Int(0), Value::Int(16_384), Value::Nil]);
        assert_eq!(
            Layout::read(&Value::Array(parts), &info, "h", Security::Plain),
            None
        );
    }
}
