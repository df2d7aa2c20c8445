//! A server or a proxy of others.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::keeper;
use super::port::Port;
use super::server::{end, new_folder};
use super::waiting::wait_until;

/// It listens on a free loopback port, and is gone when this is dropped.
#[derive(Debug)]
pub struct Program {
    process: Child,
    port: Port,
    folder: PathBuf,
}

impl Program {
    /// `command` gets the port, and a folder for the files of the program.
    pub fn start(command: impl Fn(u16, &Path) -> Command) -> Self {
        // Another process may take the free port before the program does: then try the next.
        for _ in 0..20 {
            let (port, folder) = (Port::reserve(), new_folder());
            let mut command = command(port.number(), &folder);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            // Its input ends with this program.
            let process = command.stdin(Stdio::piped()).spawn();
            let process = process.unwrap_or_else(|error| panic!("{command:?}: {error}"));
            keeper::keep(process.id());
            let mut program = Program {
                process,
                port,
                folder,
            };
            if program.comes_up() {
                return program;
            }
        }
        panic!("a program does not start");
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port.number()).into()
    }

    fn comes_up(&mut self) -> bool {
        let (address, mut ended) = (self.address(), false);
        wait_until("the program listens", Duration::from_secs(30), || {
            ended = self.process.try_wait().is_ok_and(|status| status.is_some());
            ended || TcpStream::connect(address).is_ok()
        });
        !ended
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        end(&mut self.process);
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
