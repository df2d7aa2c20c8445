//! What each operation costs, counted by the servers: the same on one server, with sentinels and in
//! a cluster, except for operations with keys on several masters.
//!
//! The table of `docs/deployments.md` is compared with the counts. `LEASEHOLD_WRITE_COSTS=1` writes
//! the table.

mod counted;

use std::fmt::Write as _;
use std::thread;
use std::time::Duration;

use leasehold::test_util::Machine;
use leasehold::{Client, Lease, Lock, LockGuard};
use leasehold_testbed::{
    Cluster, Deployment, LIMIT, SLOTS, Sentinels, Server, Shape, Watch, eventually, keyslot,
    release,
};
use tokio::runtime::Runtime;
use tokio::time::sleep;

use counted::{Cost, Counted, LONG, NO_POLL};

const PAGE: &str = include_str!("../../docs/deployments.md");
const BEGIN: &str =
    "<!-- Written by `LEASEHOLD_WRITE_COSTS=1 cargo test -p leasehold-deployments costs::`. -->\n";
const END: &str = "<!-- The end of what is written. -->";

const MASTERS: u16 = 3;
/// The operations whose cost is counted have lower numbers.
const NOT_COUNTED: u64 = 1_000;
/// More than one call can renew.
const HOLDS: u64 = 1_000;

const SEVERAL: &str = "three locks, of one slot or of three: lock, unlock";
const HANDED: &str = "lock, a wait of another client, unlock, its lock, its unlock";
const RENEWAL: &str = "renewal of 1,000 holds";

/// On one server, and on a cluster of three masters over which the keys are spread.
const DIFFERENT: [(&str, Cost, Cost); 2] = [
    // In a cluster, no release gives a lock to a waiter, because a script does not hear whether its
    // message has arrived.
    (
        HANDED,
        Cost {
            requests: 6,
            commands: 22,
        },
        Cost {
            requests: 7,
            commands: 21,
        },
    ),
    (
        RENEWAL,
        Cost {
            requests: 2,
            commands: 2_002,
        },
        Cost {
            requests: 1_000,
            commands: 3_000,
        },
    ),
];

async fn take(lock: &Lock) -> LockGuard {
    lock.lock().await.expect("free")
}

/// Takes a free lock and releases it.
async fn pair(lock: &Lock) {
    take(lock).await.unlock().await.expect("held");
}

type Costs = Vec<(&'static str, Cost)>;
type LockOf = fn(&Client, &str) -> Lock;

async fn of_locks(counted: &mut Counted) -> Costs {
    let pairs: [(&str, LockOf); 5] = [
        ("lock, unlock", |client, name| client.lock(name)),
        ("fair lock, unlock", |client, name| client.fair_lock(name)),
        ("fenced lock, unlock", |client, name| {
            client.fenced_lock(name).into()
        }),
        ("read lock, unlock", |client, name| {
            client.read_write_lock(name).split().0
        }),
        ("write lock, unlock", |client, name| {
            client.read_write_lock(name).split().1
        }),
    ];
    let mut costs = Costs::new();
    for (what, lock) in pairs {
        let of_pair = async |_: &mut Counted, [client]: &[Client; 1], number| {
            pair(&lock(client, &name(what, number))).await;
        };
        let clients = counted.clients().await;
        costs.push((what, counted.cost(clients, of_pair).await));
    }
    let [holder, other] = counted.clients().await;
    let held = take(&holder.lock("{x}:held")).await;
    let refused = async |_: &mut Counted, [other]: &[Client; 1], _| {
        other
            .lock("{x}:held")
            .try_lock_now(Lease::Renewed)
            .await
            .expect_err("held");
    };
    costs.push((
        "`try_lock_now` of a held lock",
        counted.cost([other], refused).await,
    ));
    let seen = async |_: &mut Counted, [client]: &[Client; 1], _| {
        assert!(
            client
                .lock("{x}:held")
                .holder()
                .await
                .expect("an answer")
                .is_some()
        );
    };
    let clients = counted.clients().await;
    costs.push(("`holder`", counted.cost(clients, seen).await));
    let entered = async |_: &mut Counted, _: &[Client; 1], _| {
        // The lease has become shorter by then, and is extended again.
        sleep(Duration::from_millis(2)).await;
        release(held.reenter().await).await;
    };
    costs.push(("`reenter`, unlock", counted.cost([holder], entered).await));
    costs
}

async fn of_waits(counted: &mut Counted) -> Costs {
    let mut costs = Costs::new();
    let handed = async |counted: &mut Counted, [holder, waiter]: &[Client; 2], number| {
        let name = name("handed", number);
        let guard = take(&holder.lock(&name)).await;
        let before = counted.counts().scripts();
        let lock = waiter.lock(&name);
        let next = tokio::spawn(async move { lock.lock().await.expect("released") });
        eventually("it asked, listened, and asked again", async || {
            counted.counts().scripts() >= before + 2
        })
        .await;
        guard.unlock().await.expect("held");
        next.await.expect("no panic").unlock().await.expect("held");
    };
    let clients = counted.clients().await;
    if !matches!(counted.deployment, Deployment::Cluster(_)) {
        // The waiter's client begins to listen for grants when it waits for the first time. Until
        // it does, no release gives it the lock.
        let mut number = NOT_COUNTED;
        eventually("a waiter is listed", async || {
            number += 1;
            let before = counted.counts();
            handed(counted, &clients, number).await;
            (counted.counts() - before).listed_waiters() > 0
        })
        .await;
    }
    let cost = counted.cost(clients, handed).await;
    costs.push((HANDED, cost));
    let opened = async |counted: &mut Counted, [opener, waiter]: &[Client; 2], number| {
        let name = untagged_name("latch", number);
        let latch = opener.count_down_latch(&name);
        assert!(latch.try_set_count(1).await.expect("an answer"));
        let before = counted.counts().scripts();
        let waiting = waiter.count_down_latch(&name);
        let passed = tokio::spawn(async move { waiting.wait(LIMIT).await });
        eventually("it asked, listened, and asked again", async || {
            counted.counts().scripts() >= before + 2
        })
        .await;
        assert_eq!(latch.count_down().await.expect("an answer"), 0);
        passed.await.expect("no panic").expect("it is open");
    };
    let clients = counted.clients().await;
    let cost = counted.cost(clients, opened).await;
    costs.push((
        "latch: set to one, a wait of another client, count down",
        cost,
    ));
    costs
}

async fn of_permits(counted: &mut Counted) -> Costs {
    let mut costs = Costs::new();
    let [client] = counted.clients().await;
    let permits = client.semaphore("{x}:permits");
    assert!(permits.try_set_permits(3).await.expect("an answer"));
    let pair = async |_: &mut Counted, _: &[Client; 1], _| {
        permits
            .acquire(2)
            .await
            .expect("enough")
            .release()
            .await
            .expect("held");
    };
    costs.push((
        "semaphore: acquire, release",
        counted.cost([client], pair).await,
    ));
    let [client] = counted.clients().await;
    let permits = client.permit_expirable_semaphore("{x}:expirable");
    assert!(permits.try_set_permits(3).await.expect("an answer"));
    let pair = async |_: &mut Counted, _: &[Client; 1], _| {
        permits
            .acquire(1, Lease::Renewed)
            .await
            .expect("enough")
            .release()
            .await
            .expect("held");
    };
    costs.push((
        "expiring permit: acquire, release",
        counted.cost([client], pair).await,
    ));
    costs
}

async fn of_several(counted: &mut Counted) -> Costs {
    let mut costs = Costs::new();
    let mut several = Vec::new();
    for tags in [[0, 0, 0], [0, 1, 2]] {
        let names_of = tags.map(tag_in);
        let taken = async |_: &mut Counted, [client]: &[Client; 1], number| {
            let names = [0, 1, 2].map(|at| format!("{}:{tags:?}:{number}:{at}", names_of[at]));
            pair(&Lock::multi(names.map(|name| client.lock(name)))).await;
        };
        let clients = counted.clients().await;
        several.push(counted.cost(clients, taken).await);
    }
    assert_eq!(several[0], several[1], "each lock is a call of its own");
    costs.push((SEVERAL, several[0]));
    let machine = Machine::default();
    let url = counted.deployment.url();
    let builder = Client::builder(&url)
        .lease(LONG)
        .safety_poll(NO_POLL)
        .command_timeout(LIMIT)
        .connect_timeout(LIMIT);
    let client = builder.machine(&machine).connect().await.expect("connects");
    let mut guards = Vec::new();
    for number in 0..HOLDS {
        guards.push(take(&client.lock(format!("held:{number}"))).await);
    }
    let renewed = async |_: &mut Counted, [client]: &[Client; 1], _| {
        let before = client.stats().renewed;
        // All holds are due, and are renewed when the client notices.
        machine.suspend_for(LONG / 2);
        eventually("all renewed", async || {
            client.stats().renewed == before + HOLDS
        })
        .await;
    };
    costs.push((RENEWAL, counted.cost([client], renewed).await));
    drop(guards);
    costs
}

fn name(what: &str, number: u64) -> String {
    format!("{{x}}:{what}:{number}")
}

/// The masters of a cluster of three have equal parts of the slots.
fn master_of(key: &str) -> u16 {
    keyslot(key) / SLOTS.div_ceil(MASTERS)
}

/// A hash tag whose slot is on this master.
fn tag_in(master: u16) -> String {
    let mut tags = (0..).map(|number: u64| format!("{{{number}}}"));
    tags.find(|tag| master_of(tag) == master)
        .expect("one of many")
}

/// Names without braces that are all on one master.
fn untagged_name(what: &str, number: u64) -> String {
    let names = (0..).map(|number: u64| format!("{what}:{number}"));
    let number = usize::try_from(number).expect("a few");
    { names }
        .filter(|name| master_of(name) == 0)
        .nth(number)
        .expect("one of many")
}

async fn costs(deployment: Deployment) -> Costs {
    let mut counted = Counted::new(deployment);
    let mut costs = of_locks(&mut counted).await;
    costs.extend(of_waits(&mut counted).await);
    costs.extend(of_permits(&mut counted).await);
    costs.extend(of_several(&mut counted).await);
    costs
}

fn table(server: &Costs, sentinels: &Costs, cluster: &Costs) -> String {
    let mut table = String::from(
        "| requests (commands) | one server | Sentinel | cluster |\n| --- | --- | --- | --- |\n",
    );
    for (at, (what, on_server)) in server.iter().enumerate() {
        let (with_sentinels, on_cluster) = (sentinels[at].1, cluster[at].1);
        writeln!(
            table,
            "| {what} | {on_server} | {with_sentinels} | {on_cluster} |"
        )
        .expect("a text takes everything");
    }
    table
}

/// The page with this table between the marks.
fn filled(table: &str) -> String {
    let (before, rest) = PAGE.split_once(BEGIN).expect("it begins");
    let (_, after) = rest.split_once(END).expect("an end mark");
    format!("{before}{BEGIN}\n{table}\n{END}{after}")
}

#[test]
#[expect(clippy::print_stderr, reason = "the table is shown with --nocapture")]
fn costs_are_those_of_one_server_where_the_keys_are_on_one_master() {
    let starts: [fn() -> Deployment; 3] = [
        || Deployment::Server(Box::new(Server::start())),
        || {
            let watch = Watch {
                down_after: LONG,
                ..Watch::default()
            };
            Deployment::Sentinels(Box::new(Sentinels::start_with(&watch)))
        },
        || {
            let masters = usize::from(MASTERS);
            let shape = Shape {
                masters,
                node_timeout: LONG,
                ..Shape::default()
            };
            Deployment::Cluster(Box::new(Cluster::start_with(shape)))
        },
    ];
    // Each has its own runtime, because a question to a server blocks its thread.
    let [server, sentinels, cluster] = thread::scope(|scope| {
        let counting = starts.map(|start| {
            scope.spawn(move || {
                let runtime = Runtime::new().expect("a runtime");
                runtime.block_on(costs(start()))
            })
        });
        counting.map(|costs| costs.join().expect("it was counted"))
    });
    let table = table(&server, &sentinels, &cluster);
    eprintln!("{table}");
    assert_eq!(server, sentinels);
    for ((what, on_server), (_, on_cluster)) in server.iter().zip(&cluster) {
        match DIFFERENT.iter().find(|(different, ..)| different == what) {
            None => assert_eq!(on_server, on_cluster, "{what}"),
            Some((_, of_server, of_cluster)) => {
                assert_eq!((on_server, on_cluster), (of_server, of_cluster), "{what}");
            }
        }
    }
    if std::env::var_os("LEASEHOLD_WRITE_COSTS").is_some() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/deployments.md");
        std::fs::write(page, filled(&table)).expect("the page is there");
    } else {
        assert_eq!(
            filled(&table),
            PAGE,
            "docs/deployments.md says what is counted"
        );
    }
}
