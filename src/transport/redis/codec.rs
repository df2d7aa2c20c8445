//! RESP3: what a server sends, taken out of a buffer piece by piece.

use bytes::{Buf as _, BytesMut};
use redis_protocol::resp3::decode::complete::decode_range;
use redis_protocol::resp3::types::RangeFrame;

use crate::protocol::Value;

/// One thing that the server sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Incoming {
    /// The answer to the oldest command without one; `Err` is the text of an error answer, or of
    /// one inside an array.
    Reply(Result<Value, String>),
    /// What nobody asked for, or the confirmation of a subscription: its kind comes first.
    Push(Vec<Value>),
}

/// Bytes that are not RESP3, or more than a reply may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

/// Takes frames out of what was read.
#[derive(Debug, Default)]
pub(crate) struct Decoder {}

impl Decoder {
    /// The next frame, if the buffer holds all of it.
    pub(crate) fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Incoming>, Malformed> {
        match decode_range(buffer) {
            Ok(None) => Ok(None),
            Err(error) => Err(Malformed(error.to_string())),
            Ok(Some((frame, taken))) => {
                let incoming = match frame {
                    RangeFrame::Push { data, .. } => Incoming::Push(
                        data.into_iter()
                            .map(|item| value(buffer, item))
                            .collect::<Result<_, _>>()
                            .map_err(Malformed)?,
                    ),
                    frame => Incoming::Reply(value(buffer, frame)),
                };
                buffer.advance(taken);
                Ok(Some(incoming))
            }
        }
    }
}

fn value(buffer: &[u8], frame: RangeFrame) -> Result<Value, String> {
    let text =
        |range: (usize, usize)| String::from_utf8_lossy(&buffer[range.0..range.1]).into_owned();
    let all = |items: Vec<RangeFrame>| {
        items.into_iter().map(|item| value(buffer, item)).collect::<Result<Vec<_>, _>>()
    };
    Ok(match frame {
        RangeFrame::Number { data, .. } => Value::Int(data),
        RangeFrame::Null | RangeFrame::Hello { .. } => Value::Nil,
        RangeFrame::BlobString { data, .. }
        | RangeFrame::SimpleString { data, .. }
        | RangeFrame::VerbatimString { data, .. }
        | RangeFrame::BigNumber { data, .. }
        | RangeFrame::ChunkedString(data) => Value::Text(text(data)),
        RangeFrame::Array { data, .. } | RangeFrame::Push { data, .. } => Value::Array(all(data)?),
        RangeFrame::Set { data, .. } => Value::Array(all(data.into_iter().collect())?),
        RangeFrame::Map { data, .. } => {
            Value::Array(all(data.into_iter().flat_map(|(key, item)| [key, item]).collect())?)
        }
        RangeFrame::Boolean { data, .. } => Value::Int(data.into()),
        RangeFrame::Double { data, .. } => Value::Text(data.to_string()),
        RangeFrame::SimpleError { data, .. } | RangeFrame::BlobError { data, .. } => {
            return Err(text(data));
        }
    })
}
