//! A resource that counts who is there at once, and lets nobody go before it is opened.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use leasehold_testbed::wait_until;

use crate::LIMIT;

#[derive(Default)]
struct State {
    open: bool,
    inside: HashMap<String, usize>,
    /// The most at once: of all visitors, and of one.
    most: usize,
    most_of_one: usize,
    /// Those whose visit ended in order, by name.
    visitors: Vec<String>,
    /// Those to hang up on when they come next.
    refused: HashSet<String>,
}

#[derive(Clone)]
pub(crate) struct Resource {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Resource {
    /// Closed: who comes stays.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let resource = Resource {
            address,
            state: Arc::default(),
        };
        let serving = resource.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let resource = serving.clone();
                thread::spawn(move || resource.serve(&stream));
            }
        });
        resource
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn open(&self) {
        self.state().open = true;
    }

    pub(crate) fn until_inside(&self, visitors: usize) {
        let inside = || self.state().inside.values().sum::<usize>();
        wait_until("they are inside", LIMIT, || inside() == visitors);
    }

    /// The most at once.
    pub(crate) fn most(&self) -> usize {
        self.state().most
    }

    /// The most at once of one name.
    pub(crate) fn most_of_one(&self) -> usize {
        self.state().most_of_one
    }

    /// Visits that ended in order.
    pub(crate) fn visits(&self) -> usize {
        self.state().visitors.len()
    }

    /// The names of those visits, in their order.
    pub(crate) fn visitors(&self) -> Vec<String> {
        self.state().visitors.clone()
    }

    /// Hangs up on the next visitor of this name.
    pub(crate) fn refuse_once(&self, name: &str) {
        self.state().refused.insert(name.to_owned());
    }

    fn serve(&self, mut stream: &TcpStream) {
        let mut name = String::new();
        let mut reader = BufReader::new(stream);
        if reader.read_line(&mut name).is_err() {
            return;
        }
        let name = name.trim_end();
        if self.state().refused.remove(name) {
            return;
        }
        self.state().enter(name);
        let stays = self.until_open(stream);
        self.state().leave(name);
        // Counted out before it knows.
        if stays {
            self.state().visitors.push(name.to_owned());
            drop(stream.write_all(b"."));
        }
    }

    /// False if the visitor has gone before.
    fn until_open(&self, mut stream: &TcpStream) -> bool {
        stream
            .set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
        while !self.state().open {
            match stream.read(&mut [0]) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                _ => return false,
            }
        }
        true
    }
}

impl State {
    fn enter(&mut self, name: &str) {
        let of_one = self.inside.entry(name.to_owned()).or_default();
        *of_one += 1;
        self.most_of_one = self.most_of_one.max(*of_one);
        self.most = self.most.max(self.inside.values().sum());
    }

    fn leave(&mut self, name: &str) {
        *self.inside.get_mut(name).unwrap() -= 1;
    }
}
