//! Scores of sorted sets: how they are written, parsed and bounded.

use std::cmp::Ordering;

use super::super::data::Score;
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
        let score = match inner.unwrap_or(word) {
            // Like `strtod`.
            [] => 0.0,
            text => parse_float(text).ok_or("ERR min or max is not a float")?,
        };
        Ok(Bound {
            score,
            exclusive: inner.is_some(),
        })
    }
}

/// The interval from `min` to `max` of ZRANGEBYSCORE.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    min: Bound,
    max: Bound,
}

impl Bounds {
    pub(super) fn parse(min: &[u8], max: &[u8]) -> Result<Self, ErrorReply> {
        Ok(Bounds {
            min: Bound::parse(min)?,
            max: Bound::parse(max)?,
        })
    }

    pub(super) fn hold(&self, score: f64) -> bool {
        let above = match Score(score).cmp(&Score(self.min.score)) {
            Ordering::Less => false,
            Ordering::Equal => !self.min.exclusive,
            Ordering::Greater => true,
        };
        let below = match Score(score).cmp(&Score(self.max.score)) {
            Ordering::Less => true,
            Ordering::Equal => !self.max.exclusive,
            Ordering::Greater => false,
        };
        above && below
    }
}
