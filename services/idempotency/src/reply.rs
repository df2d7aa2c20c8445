//! A reply as the text that a store keeps.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode};

/// The reply to a request, and which request that was.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) fingerprint: String,
    pub(crate) response: Response<Bytes>,
}

/// Statuses below 500 that ask the client to try again.
const TRY_AGAIN: [u16; 5] = [408, 409, 423, 425, 429];

impl Reply {
    /// The reply of the service, and whether it is kept: then a client that gets it should not try
    /// again.
    pub(crate) fn of(
        response: Response<Result<Bytes, StatusCode>>,
        fingerprint: String,
    ) -> (Self, bool) {
        let (head, body) = response.into_parts();
        let asks_again = head.status.is_server_error() || TRY_AGAIN.contains(&head.status.as_u16());
        let (response, is_final) = match body {
            Ok(body) => (Response::from_parts(head, body), !asks_again),
            Err(broken) => {
                let mut empty = Response::new(Bytes::new());
                *empty.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                // The work of a reply that is too long is done, and must not be done again.
                (empty, broken == StatusCode::PAYLOAD_TOO_LARGE)
            }
        };
        let reply = Reply {
            fingerprint,
            response,
        };
        (reply, is_final)
    }

    /// The kept reply, if it is one to this request.
    pub(crate) fn replay(text: &str, fingerprint: &str) -> Result<Self, StatusCode> {
        match Reply::parse(text) {
            Some(reply) if reply.fingerprint == fingerprint => Ok(reply),
            Some(_) => Err(StatusCode::UNPROCESSABLE_ENTITY),
            // Not by this crate.
            None => Err(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    /// Lines: the fingerprint, the status, the headers, and an empty one before the body. Values
    /// and the body are any bytes, so they are in Base64.
    pub(crate) fn to_text(&self) -> String {
        let status = self.response.status().as_u16();
        let mut text = format!("{}\n{status}\n", self.fingerprint);
        for (name, value) in self.response.headers() {
            for part in [name.as_str(), ": ", &BASE64.encode(value), "\n"] {
                text += part;
            }
        }
        text + "\n" + &BASE64.encode(self.response.body())
    }

    fn parse(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\n\n")?;
        let mut lines = head.lines();
        let (fingerprint, status) = (lines.next()?.to_owned(), lines.next()?);
        let mut response = Response::new(BASE64.decode(body).ok()?.into());
        *response.status_mut() = StatusCode::from_bytes(status.as_bytes()).ok()?;
        for line in lines {
            let (name, value) = line.split_once(": ")?;
            let name = HeaderName::try_from(name).ok()?;
            let value = HeaderValue::try_from(BASE64.decode(value).ok()?).ok()?;
            response.headers_mut().append(name, value);
        }
        Some(Reply {
            fingerprint,
            response,
        })
    }
}
