//! S10: a client beside the server and one that is far from it, by 1, 5 and 20 ms there and back.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use leasehold::{Client, Lock};
use leasehold_testbed::Server;
use tokio::time::{Instant, sleep};

use crate::Failure;
use crate::handover::hand_over;
use crate::options::Options;
use crate::report::{Report, count};

const KEY: &str = "bench:far";
const ROUNDS: usize = 100;
/// How long each holds the lock when both want it all the time.
const HOLD: Duration = Duration::from_millis(1);

/// At a distance of so many milliseconds, there and back.
pub(crate) async fn measure(options: &Options, distance_ms: usize) -> Result<Report, Failure> {
    let own = options.url.is_none().then(Server::start);
    let server = match &own {
        Some(server) => server.address(),
        None => options.address().parse()?,
    };
    let away = Duration::from_millis(distance_ms.try_into()?);
    let line = line(server, away / 2)?;
    let near = Client::connect(&format!("redis://{server}")).await?;
    let far = Client::connect(&format!("redis://{line}")).await?;
    let (near, far) = (near.lock(KEY), far.lock(KEY));
    let mut wakes = Vec::new();
    for round in 0..ROUNDS + ROUNDS / 10 {
        // The far client must have asked, listened and asked again before the lock is free.
        let wake = hand_over(&near, &far, options.hold + 4 * away).await?;
        // The first ones warm up.
        wakes.extend((round >= ROUNDS / 10).then_some(wake));
    }
    let mut figures = Report::default();
    figures.put_latencies_of("wake_", wakes);

    let end = Instant::now() + options.measured;
    let (of_near, of_far) = tokio::join!(turns(&near, end), turns(&far, end));
    let (of_near, of_far) = (count(of_near?), count(of_far?));
    let seconds = options.measured.as_secs_f64().max(1e-9);
    figures.put("turns_near_per_s", of_near / seconds);
    figures.put("turns_far_per_s", of_far / seconds);
    figures.put("share_far", of_far / (of_near + of_far).max(1.0));
    Ok(figures)
}

/// How often a client gets a lock that it always wants.
async fn turns(lock: &Lock, end: Instant) -> Result<usize, Failure> {
    let mut turns = 0;
    while Instant::now() < end {
        let guard = lock.lock().await?;
        sleep(HOLD).await;
        guard.unlock().await?;
        turns += 1;
    }
    Ok(turns)
}

/// An address at which everything takes so long to reach the server, and back. Threads are more
/// exact than timers. The testbed's proxy would pause before each piece, and its pauses would add
/// up.
fn line(server: SocketAddr, one_way: Duration) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let both = TcpStream::connect(server).and_then(|upstream| {
                later(client.try_clone()?, upstream.try_clone()?, one_way)?;
                later(upstream, client, one_way)
            });
            if both.is_err() {
                return;
            }
        }
    });
    Ok(address)
}

/// Passes on what arrives, each piece after the same time.
#[expect(
    clippy::disallowed_methods,
    reason = "it sleeps in a thread of its own"
)]
fn later(mut from: TcpStream, mut to: TcpStream, after: Duration) -> std::io::Result<()> {
    to.set_nodelay(true)?;
    let (pieces, due) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (at, piece) in due {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read) = from.read(&mut buffer) {
            let piece = (Instant::now() + after, buffer[..read].to_vec());
            if read == 0 || pieces.send(piece).is_err() {
                return;
            }
        }
    });
    Ok(())
}
