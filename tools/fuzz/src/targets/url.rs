//! A URL is either used or refused. A refusal happens before any connection is opened, and its text
//! repeats no part of the URL.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arbitrary::{Result, Unstructured};
use leasehold::{Client, Error, Lease};

use crate::choices::{pieces, rest};
use crate::world::{NOW, paused, secs, within};

const SECRET: &str = "hunter2";

const SCHEMES: [&str; 16] = [
    "redis://",
    "rediss://",
    "redis+unix://",
    "redis-sentinel://",
    "redis-cluster://",
    "valkey://",
    "valkey-sentinel://",
    "valkeys-cluster://",
    "REDIS://",
    "Redis-Cluster://",
    "rediss-sentinel://",
    "redis-galaxy://",
    "unix://",
    "redis:",
    "",
    "\u{feff}redis://",
];
const LOGINS: [&str; 12] = [
    "", "", "user:", ":", SECRET, "%20", "%", "%f", "%00", "%ff%fe", "@", "ü",
];
const HOSTS: [&str; 24] = [
    "localhost",
    "127.0.0.1",
    "0x7f.1",
    "256.256.256.256",
    "[::1]",
    "[fe80::1%25eth0]",
    "[::",
    "::1",
    "[]",
    "",
    ".",
    "bücher.example",
    "xn--",
    "xn--a",
    "\u{200d}",
    "a b",
    "%41",
    "%00",
    "-",
    "_",
    "a,b",
    "。",
    "²",
    "\u{ad}",
];
const PORTS: [&str; 10] = [
    "",
    "",
    ":6379",
    ":0",
    ":65535",
    ":65536",
    ":-1",
    ":",
    ":+7",
    ":99999999999999999999",
];
const PATHS: [&str; 12] = [
    "", "/", "/0", "/255", "/256", "/-1", "/m", "/m/3", "//", "/%2f", "/m/%33", "/\\",
];
const QUERIES: [&str; 10] = [
    "",
    "",
    "?",
    "?db=1",
    "?db=1&db=2",
    "?user=a&pass=hunter2",
    "?sentinel_password=hunter2",
    "?sentinel_user=%ff",
    "?&&=",
    "#hunter2",
];

fn assembled(u: &mut Unstructured<'_>) -> Result<String> {
    let mut url = (*u.choose(&SCHEMES)?).to_owned();
    if u.ratio(1, 3)? {
        url += &pieces(u, &LOGINS, 4)?;
        url.push('@');
    }
    let hosts = if u.ratio(1, 16)? {
        u.int_in_range(0..=66)?
    } else {
        u.int_in_range(1..=3)?
    };
    for number in 0..hosts {
        if number > 0 {
            url.push(',');
        }
        url += &pieces(u, &HOSTS, 2)?;
        url += u.choose(&PORTS)?;
    }
    url += &pieces(u, &PATHS, 2)?;
    url += u.choose(&QUERIES)?;
    Ok(url)
}

#[expect(clippy::panic, reason = "a broken promise ends the input")]
pub(super) fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let (later, is_raw) = (u.ratio(1, 3)?, u.ratio(1, 4)?);
    let url = if is_raw { rest(u)? } else { assembled(u)? };
    let dialled = Arc::new(AtomicUsize::new(0));
    let counted = dialled.clone();
    let builder = Client::builder(&url).dial_by(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Err(io::ErrorKind::ConnectionRefused.into())
    });
    let shown = format!("{builder:?}");
    paused(async move {
        let connected = async move {
            if later {
                builder.connect_in_background().await
            } else {
                builder.connect().await
            }
        };
        match within(secs(5), "connect", Box::pin(connected)).await {
            Ok(client) => {
                assert!(later, "connected without a server");
                let lock = client.lock("x");
                let taken = lock.try_lock(NOW, Lease::Fixed(secs(1)));
                let taken = within(secs(5), "try_lock", taken).await;
                assert!(taken.is_err(), "granted without a server");
                let closed = within(secs(10), "shutdown", client.shutdown(secs(5))).await;
                assert!(closed.is_ok(), "{closed:?}");
            }
            Err(error @ Error::Config(_)) => {
                assert_eq!(
                    dialled.load(Ordering::SeqCst),
                    0,
                    "dialled, and then: {error}"
                );
                let texts = format!("{error} {error:?} {shown}");
                assert!(
                    !texts.contains(SECRET),
                    "a part of the URL is shown: {texts}"
                );
            }
            Err(Error::Unavailable { .. }) => {
                assert!(!later, "it is to be connected in the background");
                assert!(dialled.load(Ordering::SeqCst) > 0, "nobody was asked");
            }
            Err(other) => panic!("{url:?}: {other:?}"),
        }
    });
    Ok(())
}
