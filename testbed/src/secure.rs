//! A server that speaks TLS, with certificates of the test's own authorities.

use std::path::PathBuf;

use crate::authority::{Authority, Issued};
use crate::process::server::Server;

/// The server's other port, which `server` uses, is plain.
#[derive(Debug)]
pub struct Secure {
    pub server: Server,
    pub port: u16,
    folder: Folder,
}

/// Files of a test, which go with it.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Secure {
    /// Shows this certificate. With an authority of clients, a client must show one, too.
    pub fn start(shown: &Issued, clients: Option<&Authority>) -> Self {
        Secure::start_with(shown, clients, &[])
    }

    /// A cluster of one node.
    pub fn start_cluster(shown: &Issued, clients: Option<&Authority>) -> Self {
        let bus = free_port().to_string();
        let cluster = [
            "--cluster-enabled",
            "yes",
            "--cluster-port",
            &bus,
            "--tls-cluster",
            "yes",
        ];
        let secure = Secure::start_with(shown, clients, &cluster);
        secure
            .server
            .command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
        secure
    }

    fn start_with(shown: &Issued, clients: Option<&Authority>, further: &[&str]) -> Self {
        let folder = Folder::temporary();
        let certificate = folder.write("certificate.pem", &shown.certificate);
        let key = folder.write("key.pem", &shown.key);
        let authority = folder.write(
            "clients.pem",
            clients.map_or(&shown.certificate, Authority::pem),
        );
        let port = free_port();
        let (tls_port, auth) = (
            port.to_string(),
            if clients.is_some() { "yes" } else { "no" },
        );
        let arguments = [
            "--tls-port",
            &tls_port,
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &authority,
            "--tls-auth-clients",
            auth,
        ];
        let server = Server::start_with(&[&arguments, further].concat());
        Secure {
            server,
            port,
            folder,
        }
    }

    /// From now on the certificates of clients must be signed by this authority.
    pub fn trust(&self, clients: &Authority) {
        let name = format!("clients-{}.pem", fastrand::u64(..));
        let file = self.folder.write(&name, clients.pem());
        let set = self
            .server
            .command(&["CONFIG", "SET", "tls-ca-cert-file", &file]);
        assert_eq!(set.text(), "OK");
    }

    /// Ends all TLS connections.
    pub fn kill_clients(&self) {
        self.server.command(&[
            "CLIENT",
            "KILL",
            "LADDR",
            &format!("127.0.0.1:{}", self.port),
        ]);
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a free port")
        .local_addr()
        .expect("a free port")
        .port()
}

impl Folder {
    pub fn temporary() -> Self {
        let path = std::env::temp_dir().join(format!("leasehold-tls-{}", fastrand::u64(..)));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    /// Writes a file, and says where it is.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("a plain path").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
