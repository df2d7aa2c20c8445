//! Scores of sorted sets: how they are written, read and bounded.

use super::super::number::{format_float, parse_float};
use super::super::reply::{Bytes, ErrorReply, Reply};

pub(super) fn score(word: &[u8]) -> Result<f64, ErrorReply> {
    parse_float(word).ok_or_else(|| "ERR value is not a valid float".into())
}

pub(super) fn score_text(score: f64) -> Bytes {
    format_float(score).into_bytes()
}

pub(super) fn score_reply(score: f64) -> Reply {
    Reply::Bulk(score_text(score))
}

#[derive(Clone, Copy, Debug)]
struct Bound {
    score: f64,
    exclusive: bool,
}

impl Bound {
    fn parse(word: &[u8]) -> Result<Self, ErrorReply> {
        let inner = word.strip_prefix(b"(");
        let score = parse_float(inner.unwrap_or(word)).ok_or("ERR min or max is not a float")?;
        Ok(Bound { score, exclusive: inner.is_some() })
    }
}

/// From `min` to `max`, as in ZRANGEBYSCORE.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    min: Bound,
    max: Bound,
}

impl Bounds {
    pub(super) fn parse(min: &[u8], max: &[u8]) -> Result<Self, ErrorReply> {
        Ok(Bounds { min: Bound::parse(min)?, max: Bound::parse(max)? })
    }

    pub(super) fn hold(&self, score: f64) -> bool {
        let above = score > self.min.score || score == self.min.score && !self.min.exclusive;
        let below = score < self.max.score || score == self.max.score && !self.max.exclusive;
        above && below
    }
}
