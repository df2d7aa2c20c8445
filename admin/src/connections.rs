//! The connections of a server, and the clients that they belong to.

use std::time::Duration;

use leasehold::Error;
use leasehold::parts::{self, Parts, is_uuid};
use leasehold_transport::{DeploymentKind, Value};

/// A connection to a server, as `CLIENT LIST` shows it; see
/// [`Admin::connections`](crate::Admin::connections).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connection {
    /// The server.
    pub server: String,
    /// The remote address and port of the connection.
    pub address: String,
    /// The name of the connection. For a client of this library, it is [the client's
    /// name](leasehold::ClientBuilder::name).
    pub name: Option<String>,
    /// The [id](leasehold::Client::id) of the client, if it uses this library. The owners of its
    /// holds start with this id.
    pub client: Option<String>,
    /// The name and version of the library, as it reports them. Unknown before Redis 7.2.
    pub library: Option<String>,
    /// The time since the connection was made.
    pub age: Duration,
    /// The time since its last command.
    pub idle: Duration,
    /// The number of channels and patterns that it subscribes to.
    pub subscriptions: u64,
}

impl Connection {
    /// Reads a line of `CLIENT LIST`; `None` if it has no address.
    fn read(server: &str, line: &str) -> Option<Self> {
        let mut connection = Connection {
            server: server.to_owned(),
            ..Connection::default()
        };
        let (mut library, mut version) = ("", "");
        for (key, value) in line.split(' ').filter_map(|pair| pair.split_once('=')) {
            let seconds = || Duration::from_secs(value.parse().unwrap_or(0));
            match key {
                "addr" => value.clone_into(&mut connection.address),
                "name" => connection.is_called(value),
                "lib-name" => library = value,
                "lib-ver" => version = value,
                "age" => connection.age = seconds(),
                "idle" => connection.idle = seconds(),
                "sub" | "psub" | "ssub" => {
                    connection.subscriptions += value.parse::<u64>().unwrap_or(0);
                }
                _ => {}
            }
        }
        connection.library = match (library, version) {
            ("", _) => None,
            (library, "") => Some(library.to_owned()),
            (library, version) => Some(format!("{library} {version}")),
        };
        (!connection.address.is_empty()).then_some(connection)
    }

    /// Splits `<name>:<id>`; a connection of another library has a name only.
    fn is_called(&mut self, given: &str) {
        let ours = given.rsplit_once(':').filter(|(_, id)| is_uuid(id));
        let (name, id) = ours.map_or((given, None), |(name, id)| (name, Some(id.to_owned())));
        self.name = (!name.is_empty()).then(|| name.to_owned());
        self.client = id;
    }
}

/// Asks every server.
pub(crate) async fn list(parts: &Parts) -> Result<Vec<Connection>, Error> {
    if parts.is_closed() {
        return Err(Error::Closed);
    }
    let transport = parts.transport();
    if transport.kind() == DeploymentKind::Embedded {
        return Ok(Vec::new());
    }
    let asked = transport.all_nodes().into_iter().map(|node| async move {
        let server = transport.server_of(node);
        let reply = parts.command(node, &[b"CLIENT", b"LIST"]).await;
        // The call takes nothing, so a lost reply leaves nothing in doubt.
        let reply = reply.map_err(|error| parts::error(&server, error.took_nothing()))?;
        let Value::Text(text) = reply else {
            return Err(parts::unexpected(&server, reply));
        };
        Ok(text
            .lines()
            .filter_map(|line| Connection::read(&server, line))
            .collect::<Vec<_>>())
    });
    Ok(futures_util::future::try_join_all(asked).await?.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f11";

    fn read(line: &str) -> Connection {
        Connection::read("server", line).expect("an address")
    }

    #[test]
    fn a_connection_of_this_library_has_the_id_of_its_client() {
        let ours = read(&format!(
            "id=7 addr=10.0.0.1:4711 laddr=10.0.0.9:6379 fd=8 name=billing:eu@pod-7:{ID} age=12 \
             idle=3 flags=N db=0 sub=2 psub=0 ssub=1 multi=-1 lib-name=leasehold lib-ver=0.9.0"
        ));
        let expected = Connection {
            server: "server".to_owned(),
            address: "10.0.0.1:4711".to_owned(),
            name: Some("billing:eu@pod-7".to_owned()),
            client: Some(ID.to_owned()),
            library: Some("leasehold 0.9.0".to_owned()),
            age: Duration::from_secs(12),
            idle: Duration::from_secs(3),
            subscriptions: 3,
        };
        assert_eq!(ours, expected);
    }

    #[test]
    fn connections_of_other_libraries_have_their_own_name() {
        let other = read("id=7 addr=[::1]:4711 name=a:b age=1 idle=0 lib-name= lib-ver=");
        assert_eq!(
            (other.name.as_deref(), other.client, other.library),
            (Some("a:b"), None, None)
        );
        assert_eq!(read("addr=1.2.3.4:5 name= age=x").name, None);
        assert_eq!(Connection::read("server", ""), None);
        assert_eq!(Connection::read("server", "name=x"), None);
    }
}
