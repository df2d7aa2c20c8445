//! Ports that no other test uses, in this process or in another one.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};

/// A port that belongs to a server, whether that runs or not, until this is dropped. If the server
/// is dead, its clients must not reach anybody else there: tests name their locks alike.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    /// Nobody else can bind this socket, in this process or in another one. No server of the tests
    /// uses UDP.
    _token: UdpSocket,
}

/// Difference between the ports of a cluster node and of its bus.
const BUS: u16 = 10_000;

impl Port {
    pub(super) fn reserve() -> Self {
        // Those that were passed over are bound until one is found: none of them comes again.
        let mut passed = Vec::new();
        loop {
            let listener = bind();
            if let Some(port) = Self::take(port_of(&listener)) {
                return port;
            }
            passed.push(listener);
        }
    }

    /// And its port for the bus, which lies where servers put it that cannot be told (Redis 6.2).
    pub(super) fn reserve_with_bus() -> (Self, Option<Self>) {
        let mut passed = Vec::new();
        loop {
            let port = Port::reserve();
            let bus = port.number.checked_add(BUS);
            let is_free = |&bus: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, bus)).is_ok();
            match bus.filter(is_free).and_then(Self::take) {
                Some(bus) => return (port, Some(bus)),
                None => passed.push(port),
            }
        }
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// `None` if a test has it, in this process or in another one.
    fn take(number: u16) -> Option<Self> {
        let token = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Port {
            number,
            _token: token,
        })
    }
}

/// A listener that is at no server's port, not even at a dead one's: no client of another test
/// looks for a server here.
pub fn listen() -> TcpListener {
    let mut passed = Vec::new();
    loop {
        let listener = bind();
        // Dropped at once: the listener itself keeps the port from now on.
        if Port::take(port_of(&listener)).is_some() {
            return listener;
        }
        passed.push(listener);
    }
}

fn bind() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port")
}

fn port_of(listener: &TcpListener) -> u16 {
    listener.local_addr().expect("its address").port()
}
