//! A process that holds permits is killed, and its permits go to a waiter. Real servers only;
//! clients of the embedded engine die in `semaphores` and `permits`.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use leasehold::{Client, Lease};
use leasehold_testbed::{Server, is_missing, ms, this_program, timed, waiting};

const SERVER: &str = "LEASEHOLD_CRASH_SERVER";

/// This test binary, run again as the process that is killed.
struct Doomed(Child);

impl Doomed {
    /// Returns when the process holds all permits.
    fn start(server: &Server) -> Self {
        let mut child = this_program("crash::the_one_that_dies")
            .env(SERVER, server.url())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let holds = |line: Result<String, _>| line.unwrap().contains("it holds them");
        assert!(output.lines().any(holds), "it came to hold them");
        Doomed(child)
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test]
#[ignore = "started by the test below, as a process of its own"]
#[expect(clippy::print_stdout, reason = "the parent waits for it")]
async fn the_one_that_dies() {
    let url = std::env::var(SERVER).expect("started by its parent");
    let client = Client::builder(&url)
        .lease(ms(4000))
        .connect()
        .await
        .unwrap();
    let (counted, named) = (
        client.semaphore("s"),
        client.permit_expirable_semaphore("p"),
    );
    counted.try_set_permits(2).await.unwrap();
    named.try_set_permits(2).await.unwrap();
    let _counted = counted.acquire(2).await.unwrap();
    let _named = named.try_acquire(2, ms(0), Lease::Renewed).await.unwrap();
    println!("it holds them");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn permits_of_a_killed_process_come_back() {
    if is_missing() {
        return;
    }
    let server = Server::start();
    let doomed = Doomed::start(&server);
    let client = Client::connect(&server.url()).await.unwrap();
    let (counted, named) = (
        client.semaphore("s"),
        client.permit_expirable_semaphore("p"),
    );
    assert_eq!(counted.available().await.unwrap(), 0);
    assert_eq!(named.available().await.unwrap(), 0);
    let both = async { tokio::join!(counted.acquire(2), named.acquire(1, Lease::Fixed(ms(5000)))) };
    let (got, ()) = tokio::join!(timed("granted", both), async {
        waiting(&client, 2).await;
        drop(doomed);
    });
    let (two, one) = got.0;
    assert_eq!(two.unwrap().permits(), 2);
    one.unwrap().release().await.unwrap();
    assert_eq!(named.available().await.unwrap(), 2);
}
