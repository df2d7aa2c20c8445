//! Which certificates are accepted on both sides of a real server's TLS port, through the client.

use super::super::tls::TlsOptions;
use super::authority::{Authority, Issued};
use super::secure::{Folder, Secure};
use super::*;
use crate::settings::Credentials;
use crate::{Client, ConfigError, Error};

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
        .connect_timeout(SECOND * 10)
        .command_timeout(SECOND * 10)
        .connect()
        .await
}

async fn client(secure: &Secure, options: TlsOptions) -> Client {
    connect_at(SERVER, secure, options).await.unwrap()
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
        Error::Unavailable { source, .. } | Error::Unknown { source, .. } => source.to_string(),
        other => panic!("{other:?}"),
    }
}

async fn until_back(client: &Client) {
    let deadline = Instant::now() + SECOND * 10;
    while let Err(error) = client.ping().await {
        assert!(
            Instant::now() < deadline,
            "it does not come back: {error:?}"
        );
        sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until a call says this.
async fn until_refused(client: &Client, part: &str) {
    let deadline = Instant::now() + SECOND * 10;
    loop {
        match client.ping().await.map_err(reason) {
            Err(text) if text.contains(part) => return,
            outcome => assert!(Instant::now() < deadline, "not `{part}`: {outcome:?}"),
        }
        sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_client_shows_its_certificate_from_memory_and_from_files() {
    needs_a_server!();
    let authorities = Authorities::new();
    let (secure, folder) = (authorities.server(), Folder::new());
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
    needs_a_server!();
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

/// Many times: the server closes the connection while the client writes, and the reason must not be lost.
#[tokio::test]
async fn a_client_certificate_that_is_missing_or_wrong_is_refused_with_the_cause() {
    needs_a_server!();
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
    needs_a_server!();
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
async fn the_server_name_stands_for_the_host() {
    needs_a_server!();
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

/// The nodes are found by the client, and have the certificates and the logins of all.
#[tokio::test]
async fn the_nodes_of_a_cluster_are_reached_with_certificate_and_login() {
    needs_a_server!();
    let authorities = Authorities::new();
    let shown = authorities.servers.issue(SERVER);
    let secure = Secure::start_cluster(&shown, Some(&authorities.clients));
    secure
        .server
        .command(&["ACL", "SETUSER", "ann", "on", ">p@ss", "~*", "&*", "+@all"]);
    let options = showing(authorities.options(), &authorities.clients.issue("client"));
    let client = Client::builder(&format!("rediss-cluster://{SERVER}:{}", secure.port))
        .tls(options)
        .credentials(Credentials::new("ann", "p@ss"))
        .connect_timeout(SECOND * 10)
        .command_timeout(SECOND * 10)
        .connect()
        .await
        .unwrap();
    for name in ["a", "b", "c"] {
        client
            .lock(name)
            .lock()
            .await
            .unwrap()
            .unlock()
            .await
            .unwrap();
    }
    assert!(secure.server.clients("user=ann").len() >= 3);
}

#[tokio::test]
async fn a_certificate_that_is_renewed_in_its_file_counts_from_the_next_connection() {
    needs_a_server!();
    let authorities = Authorities::new();
    let (secure, folder) = (authorities.server(), Folder::new());
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
    needs_a_server!();
    let authorities = Authorities::new();
    let (secure, folder) = (authorities.server(), Folder::new());
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
async fn files_that_cannot_be_used_leave_the_last_good_ones() {
    needs_a_server!();
    let authorities = Authorities::new();
    let (secure, folder) = (authorities.server(), Folder::new());
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
    until("all connections are back", || {
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

#[test]
fn texts_that_cannot_be_used_are_refused_with_the_reason_and_never_shown() {
    let authority = Authority::new("authority");
    let (issued, other) = (authority.issue("client"), authority.issue("client"));
    let secret = issued.key.lines().nth(1).unwrap();
    // As from a variable whose line breaks were lost.
    let in_one_line = issued.key.replace('\n', "");
    let in_one_line_and_cut = in_one_line.replace("-----END PRIVATE KEY-----", "");
    let cut = issued.key.replace("-----END PRIVATE KEY-----", "");
    let not_base64 = issued.key.replace(secret, &format!("!{secret}"));
    let not_a_key = issued.key.replace(secret, "AAAA");
    let encrypted = issued.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let with = |key: &str| TlsOptions::new().client_certificate_pem(&issued.certificate, key);
    let cases = [
        (with(&other.key), "do not belong together"),
        (with(&issued.certificate), "no private key"),
        (with(&encrypted), "an encrypted key must be decrypted first"),
        (with(&in_one_line), "the line breaks of the text are lost"),
        (with(&in_one_line_and_cut), "is not PEM: a BEGIN line"),
        (with(&cut), "is not PEM: a section has no END line"),
        (with(&not_base64), "is not PEM: a section is not base64"),
        (with(&not_a_key), "cannot be used with the key"),
        (
            TlsOptions::new().client_certificate_pem(&issued.key, &issued.key),
            "has no certificate",
        ),
        (
            TlsOptions::new().ca_pem(""),
            "the text given to `ca_pem` has no certificate",
        ),
        (TlsOptions::new().ca_pem(&issued.key), "has no certificate"),
        (
            TlsOptions::new()
                .ca_pem("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            "cannot be an authority",
        ),
        (
            TlsOptions::new().ca_file("/nowhere/ca.pem"),
            "`/nowhere/ca.pem` cannot be read",
        ),
        (TlsOptions::new().server_name("two words"), "server_name"),
        (TlsOptions::new().server_name(""), "server_name"),
    ];
    for (options, part) in cases {
        assert!(!format!("{options:?}").contains(secret), "{options:?}");
        let refused = super::super::tls::Tls::load_blocking(options)
            .map(drop)
            .unwrap_err();
        let ConfigError::Tls { reason } = &refused else {
            panic!("{refused:?}")
        };
        assert!(reason.contains(part), "expected `{part}`: {reason}");
        assert!(
            !reason.contains(secret) && !reason.contains("AAAA"),
            "{reason}"
        );
    }
}
