//! Every form of a URL that is accepted, and those that are refused.

use super::*;

fn reason(url: &str) -> String {
    match Deployment::parse(url) {
        Err(SettingError::Url { reason }) => reason,
        other => panic!("{url}: {other:?}"),
    }
}

#[test]
fn sentinels_with_and_without_ports() {
    let url = "redis-sentinel://u:p%40s@s1,s2:5000,[::1]:7/locks/3?sentinel_password=x";
    let found = Deployment::parse(url).expect("a URL");
    let shown = found.to_string();
    assert_eq!(shown, "redis-sentinel://[::1]:7,s1:26379,s2:5000/locks/3");
    let at = |host, port| {
        let named = HostPort::new(host, port);
        found.server_at(&named).expect("no map")
    };
    let server = at("10.0.0.1", 6379);
    let login = server.credentials().expect("those of the servers");
    assert_eq!(
        (login.user.as_deref(), &*login.password),
        (Some("u"), "p@s")
    );
    let own = found.endpoints[0]
        .credentials()
        .expect("those of the sentinels");
    assert_eq!((own.user.as_deref(), &*own.password), (None, "x"));
    assert_eq!(
        (server.database(), found.endpoints[0].database()),
        (Some(3), None)
    );
    assert_eq!(at("fe80::1", 1).to_string(), "redis://[fe80::1]:1/3");
}

#[test]
fn a_cluster_is_the_same_in_any_order() {
    let shown = |url| Deployment::parse(url).expect("a URL").to_string();
    assert_eq!(shown("redis-cluster://b:1,a"), "redis-cluster://a:6379,b:1");
    assert_eq!(
        shown("valkey-cluster://a,b:1/"),
        "redis-cluster://a:6379,b:1"
    );
    #[cfg(feature = "tls")]
    assert_eq!(shown("rediss-cluster://u:p@a"), "rediss-cluster://a:6379");
}

#[test]
fn refused_urls_are_reported_without_their_password() {
    for (url, part) in [
        ("redis-sentinel://s1,s2", "name of the master is missing"),
        ("redis-sentinel://:secret@/m", "host is missing"),
        ("redis-sentinel://s1:0/m", "port"),
        ("redis-sentinel://s1,sécret/m", "ASCII"),
        ("redis-sentinel://s1:secret@x@y/m", "%40"),
        ("redis-sentinel://s1/m?secret=1", "query parameters"),
        ("redis-sentinel://s1/m?db=1&db=2", "once each"),
        ("redis-sentinel://s1/m/secret", "number from 0 to 255"),
        (
            "redis-sentinel://s1/m?sentinel_user=secret",
            "without a password",
        ),
        ("redis-cluster:secret", "scheme is missing"),
        ("redis-cluster://a,/0", "host is missing"),
        ("redis-cluster://a/7", "only database 0"),
        ("redis-cluster://a?secret=1", "no query"),
        ("redis-cluster://secret@a", "without a password"),
        ("redis-cluster://:pass#secret@a", "%23"),
        ("redis-galaxy://secret", "unknown scheme"),
        ("postgres-cluster://secret", "unknown scheme"),
    ] {
        let reason = reason(url);
        assert!(reason.contains(part), "{url}: {reason}");
        assert!(!reason.contains("secret"), "{reason}");
    }
}
