//! A network in memory, for tests: every address of a URL, and every address that a server names, is
//! reached by a function of the test.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::io::DuplexStream;

use super::dial::Dial;
use super::endpoint::Endpoint;

type DialByText = dyn Fn(&str) -> io::Result<DuplexStream> + Send + Sync;

/// Dials `host:port`, or the path of a Unix socket.
#[derive(Clone)]
pub(crate) struct MemoryNetwork(Arc<DialByText>);

impl MemoryNetwork {
    pub(crate) fn new(
        dial: impl Fn(&str) -> io::Result<DuplexStream> + Send + Sync + 'static,
    ) -> Self {
        MemoryNetwork(Arc::new(dial))
    }

    pub(super) fn to(&self, endpoint: &Endpoint) -> Dial {
        let (dial, address) = (self.0.clone(), endpoint.address().to_string());
        Dial::Memory(Arc::new(move || {
            let (reader, writer) = tokio::io::split(dial(&address)?);
            Ok((Box::new(reader), Box::new(writer)))
        }))
    }
}

impl fmt::Debug for MemoryNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryNetwork")
    }
}
