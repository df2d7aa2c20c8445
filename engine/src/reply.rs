//! Replies with their RESP2 types.

/// A Redis string: any bytes.
pub(crate) type Bytes = Vec<u8>;

/// A reply that is not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A null bulk string or a null array.
    Nil,
    /// `:1`
    Int(i64),
    /// `+OK`
    Status(String),
    /// `$2`
    Bulk(Vec<u8>),
    /// `*2`. An element is an error if a script returned one.
    Array(Vec<Result<Reply, ErrorReply>>),
}

/// An error reply, its code first: `WRONGTYPE Operation against …`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ErrorReply(pub String);

/// The outcome of a command.
pub(crate) type Outcome = Result<Reply, ErrorReply>;

impl From<&str> for ErrorReply {
    fn from(text: &str) -> Self {
        ErrorReply(text.to_owned())
    }
}

impl Reply {
    pub(crate) fn ok() -> Reply {
        Reply::Status("OK".to_owned())
    }

    pub(crate) fn count(number: usize) -> Reply {
        Reply::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }

    pub(crate) fn bulk_or_nil(text: Option<&Bytes>) -> Reply {
        text.map_or(Reply::Nil, |text| Reply::Bulk(text.clone()))
    }

    pub(crate) fn bulks(texts: impl IntoIterator<Item = Bytes>) -> Reply {
        Reply::Array(
            texts
                .into_iter()
                .map(|text| Ok(Reply::Bulk(text)))
                .collect(),
        )
    }
}

impl From<bool> for Reply {
    fn from(yes: bool) -> Self {
        Reply::Int(i64::from(yes))
    }
}
