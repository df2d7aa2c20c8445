//! Which certificates are accepted on both sides of a server's TLS port.

use leasehold::settings::TlsOptions;
use leasehold::{Client, Error};
use leasehold_testbed::{Authority, Folder, Issued, LIMIT, Secure, eventually, ms};
use tokio::time::{Instant, sleep};

const SERVER: &str = "localhost";

/// Who signs what, in most tests.
struct Authorities {
    /// Of the server's certificate.
    servers: Authority,
    /// Of the clients' certificates.
    clients: Authority,
    /// Nobody's.
    stranger: Authority,
}

impl Authorities {
    fn new() -> Self {
        Authorities {
            servers: Authority::new("of servers"),
            clients: Authority::new("of clients"),
            stranger: Authority::new("a stranger"),
        }
    }

    /// Clients must show certificates.
    fn server(&self) -> Secure {
        Secure::start(&self.servers.issue(SERVER), Some(&self.clients))
    }

    fn options(&self) -> TlsOptions {
        TlsOptions::new().ca_pem(self.servers.pem())
    }
}

fn showing(options: TlsOptions, shown: &Issued) -> TlsOptions {
    options.client_certificate_pem(&shown.certificate, &shown.key)
}

async fn connect_at(host: &str, secure: &Secure, options: TlsOptions) -> Result<Client, Error> {
    let builder = Client::builder(&format!("rediss://{host}:{}", secure.port)).tls(options);
    builder
        .connect_timeout(LIMIT)
        .command_timeout(LIMIT)
        .connect()
        .await
}

async fn client(secure: &Secure, options: TlsOptions) -> Client {
    connect_at(SERVER, secure, options)
        .await
        .expect("it connects")
}

/// Why no connection was made.
async fn refusal(secure: &Secure, options: TlsOptions) -> String {
    reason(
        connect_at(SERVER, secure, options)
            .await
            .map(drop)
            .expect_err("it is refused"),
    )
}

fn reason(error: Error) -> String {
    match error {
        // A call may have been under way when the connection was lost.
        Error::Unavailable { cause, .. } | Error::Unknown { cause, .. } => cause.to_string(),
        other => unreachable!("{other:?}"),
    }
}

async fn until_back(client: &Client) {
    let deadline = Instant::now() + LIMIT;
    while let Err(error) = client.ping().await {
        assert!(
            Instant::now() < deadline,
            "it does not come back: {error:?}"
        );
        sleep(ms(2)).await;
    }
}

/// Waits until a call says this.
async fn until_refused(client: &Client, part: &str) {
    let deadline = Instant::now() + LIMIT;
    loop {
        match client.ping().await.map_err(reason) {
            Err(text) if text.contains(part) => return,
            outcome => assert!(Instant::now() < deadline, "not `{part}`: {outcome:?}"),
        }
        sleep(ms(2)).await;
    }
}

#[tokio::test]
async fn a_client_shows_its_certificate_from_memory_and_from_files() {
    let authorities = Authorities::new();
    let (secure, folder) = (authorities.server(), Folder::temporary());
    let shown = authorities.clients.issue("client");
    let from_memory = client(&secure, showing(authorities.options(), &shown)).await;
    let guard = from_memory.lock("x").lock().await.unwrap();
    guard.unlock().await.unwrap();

    let authority = folder.write("ca.pem", authorities.servers.pem());
    let certificate = folder.write("certificate.pem", &shown.certificate);
    let key = folder.write("key.pem", &shown.key);
    let options = TlsOptions::new().ca_file(&authority);
    let from_files = options.clone().client_certificate_files(&certificate, &key);
    client(&secure, from_files).await.ping().await.unwrap();
    let both = folder.write("both.pem", &format!("{}{}", shown.key, shown.certificate));
    let from_one = options.client_certificate_files(&both, &both);
    client(&secure, from_one).await.ping().await.unwrap();
}

#[tokio::test]
async fn several_authorities_are_trusted() {
    let authorities = Authorities::new();
    let secure = Secure::start(&authorities.servers.issue(SERVER), None);
    let (trusted, stranger) = (authorities.servers.pem(), authorities.stranger.pem());
    for options in [
        TlsOptions::new().ca_pem(stranger).ca_pem(trusted),
        TlsOptions::new().ca_pem(format!("{stranger}{trusted}")),
    ] {
        client(&secure, options).await.ping().await.unwrap();
    }
}

/// Many times: the server closes the connection while the client writes, and the reason must not be
/// lost.
#[tokio::test]
async fn a_client_certificate_that_is_missing_or_wrong_is_refused_with_the_cause() {
    let authorities = Authorities::new();
    let secure = authorities.server();
    let foreign = authorities.stranger.issue("client");
    let expired = authorities.clients.issue_expired("client");
    let options = || authorities.options();
    for _ in 0..20 {
        for (what, options, parts) in [
            (
                "none",
                options(),
                ["requires a client certificate", "CertificateRequired"],
            ),
            (
                "of a stranger",
                showing(options(), &foreign),
                ["does not accept the client's certificate", "UnknownCA"],
            ),
            (
                "expired",
                showing(options(), &expired),
                [
                    "does not accept the client's certificate",
                    "CertificateExpired",
                ],
            ),
        ] {
            let text = refusal(&secure, options).await;
            assert!(
                parts.iter().all(|part| text.contains(part)),
                "{what}: {text}"
            );
        }
    }
}

#[tokio::test]
async fn a_server_certificate_that_is_wrong_is_refused_with_the_cause() {
    let authorities = Authorities::new();
    let good = Secure::start(&authorities.servers.issue(SERVER), None);
    let expired = Secure::start(&authorities.servers.issue_expired(SERVER), None);
    let elsewhere = Secure::start(&authorities.servers.issue("redis.internal"), None);
    let of_strangers = TlsOptions::new().ca_pem(authorities.stranger.pem());
    for (secure, options, part) in [
        (&good, of_strangers, "UnknownIssuer"),
        (&good, TlsOptions::new(), "UnknownIssuer"),
        (&expired, authorities.options(), "expired"),
        (
            &elsewhere,
            authorities.options(),
            "not valid for name \"localhost\"",
        ),
        (
            &good,
            authorities.options().server_name("redis.internal"),
            "\"redis.internal\"",
        ),
    ] {
        let text = refusal(secure, options).await;
        let named =
            text.contains("the server's certificate is not accepted") && text.contains(part);
        assert!(named, "expected `{part}`: {text}");
    }
}

#[tokio::test]
async fn the_server_name_replaces_the_host_in_certificates() {
    let authorities = Authorities::new();
    let secure = Secure::start(&authorities.servers.issue("redis.internal"), None);
    let options = authorities.options().server_name("redis.internal");
    for host in ["localhost", "127.0.0.1"] {
        connect_at(host, &secure, options.clone())
            .await
            .unwrap()
            .ping()
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_certificate_that_is_renewed_in_its_file_counts_from_the_next_connection() {
    let authorities = Authorities::new();
    let (secure, folder) = (authorities.server(), Folder::temporary());
    let shown = authorities.clients.issue("client");
    let certificate = folder.write("certificate.pem", &shown.certificate);
    let key = folder.write("key.pem", &shown.key);
    let options = authorities
        .options()
        .client_certificate_files(&certificate, &key);
    let client = client(&secure, options).await;
    let guard = client.lock("x").lock().await.unwrap();

    let successor = Authority::new("of clients, the next");
    secure.trust(&successor);
    client
        .ping()
        .await
        .expect("a connection that lives is not touched");
    secure.kill_clients();
    until_refused(&client, "does not accept the client's certificate").await;

    let renewed = successor.issue("client");
    folder.write("certificate.pem", &renewed.certificate);
    folder.write("key.pem", &renewed.key);
    until_back(&client).await;
    guard.unlock().await.expect("the hold outlived that");
}

#[tokio::test]
async fn an_authority_that_is_renewed_in_its_file_counts_from_the_next_connection() {
    let authorities = Authorities::new();
    let (secure, folder) = (authorities.server(), Folder::temporary());
    let file = folder.write("ca.pem", authorities.servers.pem());
    let shown = authorities.clients.issue("client");
    let client = client(&secure, showing(TlsOptions::new().ca_file(&file), &shown)).await;
    folder.write("ca.pem", authorities.stranger.pem());
    secure.kill_clients();
    until_refused(&client, "UnknownIssuer").await;
    folder.write("ca.pem", authorities.servers.pem());
    until_back(&client).await;
}

#[tokio::test]
async fn unusable_files_keep_the_last_good_certificates() {
    let authorities = Authorities::new();
    let (secure, folder) = (authorities.server(), Folder::temporary());
    let shown = authorities.clients.issue("client");
    let certificate = folder.write("certificate.pem", &shown.certificate);
    let key = folder.write("key.pem", &shown.key);
    let options = authorities
        .options()
        .client_certificate_files(&certificate, &key);
    let client = client(&secure, options).await;
    // The certificate is written, its key is not yet.
    folder.write(
        "certificate.pem",
        &authorities.clients.issue("client").certificate,
    );
    let before = client.stats().reconnects;
    secure.kill_clients();
    eventually("all connections are back", async || {
        client.stats().reconnects == before + 3
    })
    .await;
    client.ping().await.unwrap();

    // Where they do not help any more, the error says why the new ones were not used.
    secure.trust(&authorities.stranger);
    std::fs::remove_file(&key).unwrap();
    secure.kill_clients();
    until_refused(&client, "does not accept the client's certificate").await;
    until_refused(&client, "changed files were not used: the file").await;
    until_refused(&client, "key.pem` cannot be read").await;
    let shown = authorities.stranger.issue("client");
    folder.write("certificate.pem", &shown.certificate);
    folder.write("key.pem", &shown.key);
    until_back(&client).await;
}

/// A plain client at a TLS port, and a TLS client at a plain port, where the server may wait for
/// the end of a line.
#[tokio::test]
async fn an_error_asks_whether_the_port_is_of_the_other_kind() {
    let authorities = Authorities::new();
    let secure = Secure::start(&authorities.servers.issue(SERVER), None);
    let to = |scheme, port| format!("{scheme}://{SERVER}:{port}");

    let plain = Client::builder(&to("redis", secure.port));
    let error = plain.connect_timeout(LIMIT).connect().await.unwrap_err();
    let question = "does this port want TLS, rediss://?";
    assert!(error.to_string().contains(question), "{error}");

    for _ in 0..20 {
        let encrypted = Client::builder(&to("rediss", secure.server.port()));
        let encrypted = encrypted
            .tls(authorities.options())
            .connect_timeout(ms(200));
        let error = encrypted.connect().await.unwrap_err().to_string();
        let silent = error.contains("does this port speak TLS?");
        assert!(
            silent || error.contains("does not answer in TLS"),
            "{error}"
        );
    }
}
