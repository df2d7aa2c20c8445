//! Connections of the library, or those that `LEASEHOLD_CONNECTION` names.

use leasehold::{Client, ClientBuilder};
use leasehold_testbed::Bed;

pub(crate) fn server() -> Bed {
    Bed::server_through(builder)
}

fn builder(url: &str) -> ClientBuilder {
    match std::env::var("LEASEHOLD_CONNECTION").as_deref() {
        #[cfg(feature = "fred")]
        Ok("fred") => {
            use leasehold_fred::fred::{clients, types::config};

            let config = config::Config::from_url(url).expect("a URL");
            let pattern = clients::Client::new(config, None, None, None);
            leasehold_fred::builder(&pattern).expect("one server")
        }
        Ok(other) => panic!("LEASEHOLD_CONNECTION: no such connection: {other}"),
        Err(_) => Client::builder(url),
    }
}
