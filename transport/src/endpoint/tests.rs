//! Every accepted form and every refused form. No secret is ever shown.

use super::*;

impl Endpoint {
    pub(crate) fn parse(text: &str) -> Result<Self, SettingError> {
        Endpoint::of(&UrlParts::of(text)?)
    }
}

fn parse(text: &str) -> Endpoint {
    Endpoint::parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn reason(text: &str) -> String {
    match Endpoint::parse(text) {
        Ok(endpoint) => panic!("{text} was accepted as {endpoint}"),
        Err(SettingError::Url { reason }) => reason,
        Err(other) => panic!("{text}: {other:?}"),
    }
}

#[test]
fn addresses_are_parsed() {
    let table = [
        ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379", None),
        ("redis://localhost", "redis://localhost:6379", None),
        ("redis://localhost/", "redis://localhost:6379", None),
        (
            "  redis://localhost:7000/3\n",
            "redis://localhost:7000/3",
            Some(3),
        ),
        ("redis://[::1]:7000/0", "redis://[::1]:7000/0", Some(0)),
        ("redis://user:secret@h:1/255", "redis://h:1/255", Some(255)),
        ("REDIS://h", "redis://h:6379", None),
        ("valkey://:secret@h/2", "redis://h:6379/2", Some(2)),
        ("redis://h:", "redis://h:6379", None),
        ("redis://h:/0", "redis://h:6379/0", Some(0)),
        ("redis://h:007000//1", "redis://h:7000/1", Some(1)),
        ("redis://[0:0::FF]", "redis://[::ff]:6379", None),
        (
            "redis://one_host%2Dname.",
            "redis://one_host-name.:6379",
            None,
        ),
        (
            "redis://xn--bcher-kva.example",
            "redis://xn--bcher-kva.example:6379",
            None,
        ),
    ];
    for (text, shown, database) in table {
        let endpoint = parse(text);
        assert_eq!(endpoint.to_string(), shown, "{text}");
        assert_eq!(endpoint.database(), database, "{text}");
    }
}

#[test]
#[cfg(unix)]
fn unix_sockets_are_parsed() {
    let endpoint = parse("redis+unix:///run/redis%20one.sock?db=7");
    assert_eq!(
        endpoint.address(),
        &Address::Unix("/run/redis one.sock".into())
    );
    assert_eq!(endpoint.database(), Some(7));
    assert_eq!(
        endpoint.to_string(),
        "redis+unix:///run/redis one.sock?db=7"
    );
    assert_eq!(parse("redis+unix:///s").database(), None);
    assert_eq!(parse("redis+unix:/s"), parse("redis+unix:///s"));
    assert_eq!(
        parse("valkey+unix:///s?db=1"),
        parse("redis+unix:///s?db=1")
    );
    let endpoint = parse("redis+unix:///run/redis.sock?user=ann&pass=a+b%26c&db=0");
    assert_eq!(endpoint.address(), &Address::Unix("/run/redis.sock".into()));
    let credentials = endpoint.credentials().unwrap();
    assert_eq!(
        (credentials.user.as_deref(), credentials.password.as_str()),
        (Some("ann"), "a+b&c")
    );
    assert_eq!(endpoint.to_string(), "redis+unix:///run/redis.sock?db=0");
}

#[test]
#[cfg(feature = "tls")]
fn tls_is_parsed() {
    let endpoint = parse("rediss://:secret@h/2");
    assert_eq!(endpoint.address(), &Address::Tls(HostPort::new("h", 6379)));
    assert_eq!(endpoint.to_string(), "rediss://h:6379/2");
    assert_eq!(parse("valkeys://:secret@h/2"), endpoint);
}

#[test]
#[cfg(not(feature = "tls"))]
fn a_url_with_tls_names_the_missing_feature() {
    assert!(reason("rediss://h").contains("feature `tls`"));
}

#[test]
fn credentials_are_decoded() {
    let table = [
        ("redis://h", None),
        ("redis://:p%40ss%2F%23%25w@h", Some((None, "p@ss/#%w"))),
        ("redis://ann:secret@h", Some((Some("ann"), "secret"))),
        ("redis://a%3Ab:%C3%A9@h", Some((Some("a:b"), "é"))),
        // Not escaped, but unambiguous.
        (
            "redis://:p@s^s{w|o:r[é\"@h",
            Some((None, "p@s^s{w|o:r[é\"")),
        ),
    ];
    for (text, expected) in table {
        let endpoint = parse(text);
        let credentials = endpoint
            .credentials()
            .map(|credentials| (credentials.user.as_deref(), credentials.password.as_str()));
        assert_eq!(credentials, expected, "{text}");
    }
}

#[test]
fn refusals_give_a_reason_and_never_show_the_secret() {
    let table = [
        ("", "scheme is missing: write redis://host:port"),
        ("hunter2", "scheme is missing: write redis://host:port"),
        ("hunter2:6379", "scheme is missing: write redis://host:port"),
        ("hunter2:x@h", "scheme is missing: write redis://host:port"),
        (
            "127.0.0.1:6379",
            "the scheme is missing: write redis://127.0.0.1:6379",
        ),
        (
            "[::1]:6379",
            "the scheme is missing: write redis://[::1]:6379",
        ),
        ("redis:hunter2", "scheme is missing"),
        ("//hunter2", "scheme is missing"),
        ("http://h", "unknown scheme"),
        ("redis://", "host is missing"),
        ("redis:///0", "host is missing"),
        ("redis://:hunter2@", "host is missing"),
        ("redis://:hunter2@h:99999", "port"),
        ("redis://:hunter2@h:0", "port"),
        ("redis://:hunter2@h:port", "port"),
        ("redis://:hunter2@h:+7", "port"),
        ("redis://:hunter2@[::1]7", "port"),
        ("redis://:hunter2@[::1]é7", "port"),
        ("redis://ann:hunt/er2@h", "percent-encoded"),
        ("redis://:hunt/er2@h", "percent-encode"),
        ("redis://:hunt#er2@h", "`#`"),
        ("redis://[fe80::1%25hunter2]", "without a zone"),
        ("redis://[hunter2", "no host name has"),
        ("redis://hunt er2", "no host name has"),
        ("redis://hunt\ner2", "no host name has"),
        ("redis://hünter.example", "ASCII"),
        ("redis://h%C3%BCnter.example", "ASCII"),
        ("redis://:x@h/0#hunter2", "`#`"),
        ("redis://h/hunter2", "database"),
        ("redis://h/256", "database"),
        ("redis://h/-1", "database"),
        ("redis://h/1/2", "database"),
        ("redis://h?hunter2=1", "query"),
        ("redis://h/1?db=2", "query"),
        ("redis://hunter2@h", "without a password"),
        ("redis://:hunter2%zz@h", "hex digits"),
        ("redis://:hunter2%ff@h", "UTF-8"),
        #[cfg(unix)]
        ("redis+unix://", "path"),
        #[cfg(unix)]
        ("redis+unix://tmp/x.sock", "three slashes"),
        #[cfg(unix)]
        ("redis+unix:///x.sock?hunter2=1", "db, user and pass"),
        #[cfg(unix)]
        ("redis+unix:///x.sock?user=hunter2", "without a password"),
        #[cfg(unix)]
        ("redis+unix://:hunter2@/x.sock", "no host"),
        #[cfg(unix)]
        ("redis+unix:///x.sock?db=1&db=2", "once each"),
    ];
    for (text, part) in table {
        let reason = reason(text);
        assert!(reason.contains(part), "{text}: {reason}");
        assert!(!reason.contains("hunt"), "{text}: {reason}");
    }
}

#[test]
fn debug_shows_no_secret() {
    let shown = format!("{:?}", parse("redis://ann:hunter2@h/1"));
    assert_eq!(shown, "Endpoint(redis://h:6379/1)");
}

#[test]
#[cfg(feature = "tls")]
fn a_certificate_names_the_host_that_a_map_gives_unless_that_is_an_address() {
    use crate::address_map::AddressMap;
    use crate::deployment::Deployment;
    let cluster = Deployment::parse("rediss-cluster://h").expect("a URL");
    for (named, reached, certified) in [
        ("10.0.0.1:6379", "node.example:6380", "node.example"),
        ("node.internal:6379", "node.example:6380", "node.example"),
        ("node.internal:6379", "127.0.0.1:7001", "node.internal"),
        ("10.0.0.1:6379", "[::1]:7001", "10.0.0.1"),
    ] {
        let (host, port) = named.rsplit_once(':').unwrap();
        let named_at = HostPort::new(host, port.parse().unwrap());
        let map = AddressMap::table([(named, reached)]);
        let mapped = cluster.clone().mapped_by(map).expect("a table");
        let endpoint = mapped.server_at(&named_at).expect("a table");
        let HostPort { host, .. } = endpoint.host_port();
        assert_eq!(endpoint.certified(&host), certified, "{named} at {reached}");
        let unmapped = cluster.server_at(&named_at).expect("no map");
        let HostPort { host, .. } = unmapped.host_port();
        assert_eq!(unmapped.certified(&host), host);
    }
}
