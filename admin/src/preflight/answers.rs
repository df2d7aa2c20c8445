//! Parses the texts of a server. What the server does not report, or must not, is `None`.

use std::collections::BTreeMap;

use leasehold_transport::Value;

/// The lines of INFO or CLUSTER INFO, or the pairs of CONFIG GET, by name.
#[derive(Debug, Default)]
pub(super) struct Fields(BTreeMap<String, String>);

impl Fields {
    /// Parses lines `name:value`.
    pub(super) fn of_lines(reply: Option<&Value>) -> Self {
        let Some(Value::Text(text)) = reply else {
            return Fields::default();
        };
        let lines = text
            .lines()
            .filter_map(|line| line.trim_end().split_once(':'));
        Fields(
            lines
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// Parses a map, or an array of alternating names and values.
    pub(super) fn of_pairs<'a>(replies: impl Iterator<Item = &'a Value>) -> Self {
        let mut fields = BTreeMap::new();
        for reply in replies {
            let Value::Array(items) = reply else { continue };
            for pair in items.chunks_exact(2) {
                if let [Value::Text(name), Value::Text(value)] = pair {
                    fields.insert(name.to_ascii_lowercase(), value.clone());
                }
            }
        }
        Fields(fields)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// Reads `yes` or `no`, or 1 or 0.
    pub(super) fn truth(&self, name: &str) -> Option<bool> {
        match self.text(name)? {
            "yes" | "1" => Some(true),
            "no" | "0" => Some(false),
            _ => None,
        }
    }
}

/// Reads a field of a line `name=value,name=value`.
pub(super) fn part<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split(',')
        .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn lines_pairs_and_parts_are_found_by_name() {
        let info = text("# Server\r\nredis_version:7.0.15\r\naof_enabled:0\r\n\r\n");
        let info = Fields::of_lines(Some(&info));
        assert_eq!(info.text("redis_version"), Some("7.0.15"));
        assert_eq!(
            (info.truth("aof_enabled"), info.truth("cluster_enabled")),
            (Some(false), None)
        );
        let pairs = [
            Value::Array(vec![text("appendonly"), text("yes")]),
            Value::Array(vec![text("min-replicas-to-write"), text("2")]),
            Value::Nil,
        ];
        let config = Fields::of_pairs(pairs.iter());
        assert_eq!(config.truth("appendonly"), Some(true));
        assert_eq!(config.number("min-replicas-to-write"), Some(2));
        let replica = "ip=127.0.0.1,port=7001,state=online,offset=42,lag=1";
        assert_eq!(
            (part(replica, "offset"), part(replica, "set")),
            (Some("42"), None)
        );
    }

    #[test]
    fn a_refused_answer_is_unknown() {
        assert_eq!(Fields::of_lines(None).text("redis_version"), None);
        assert_eq!(Fields::of_pairs([].iter()).truth("appendonly"), None);
    }
}
