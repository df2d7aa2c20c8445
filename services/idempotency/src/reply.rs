//! A reply as the text that a store keeps.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;

/// The reply to a request, and which request that was.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) fingerprint: String,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Statuses below 500 that ask the client to try again.
const TRY_AGAIN: [u16; 5] = [408, 409, 423, 425, 429];

impl Reply {
    /// What is kept for a reply that is longer than the limit.
    pub(crate) fn too_long(fingerprint: String) -> Self {
        Reply {
            fingerprint,
            status: StatusCode::INTERNAL_SERVER_ERROR,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    /// Whether a reply with this status is kept: a client that gets it should not try again.
    pub(crate) fn is_final(status: StatusCode) -> bool {
        !status.is_server_error() && !TRY_AGAIN.contains(&status.as_u16())
    }

    /// Lines: the fingerprint, the status, the headers, and an empty one before the body. Values and the body are any
    /// bytes, so they are in Base64.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.fingerprint, self.status.as_u16());
        for (name, value) in &self.headers {
            for part in [name.as_str(), ": ", &BASE64.encode(value), "\n"] {
                text += part;
            }
        }
        text + "\n" + &BASE64.encode(&self.body)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\n\n")?;
        let mut lines = head.lines();
        let (fingerprint, status) = (lines.next()?.to_owned(), lines.next()?);
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(": ")?;
            let name = HeaderName::try_from(name).ok()?;
            let value = HeaderValue::try_from(BASE64.decode(value).ok()?).ok()?;
            headers.append(name, value);
        }
        Some(Reply {
            fingerprint,
            status: StatusCode::from_bytes(status.as_bytes()).ok()?,
            headers,
            body: BASE64.decode(body).ok()?.into(),
        })
    }

    pub(crate) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}
