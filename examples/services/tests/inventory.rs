//! Sellers take turns, and one that was paused beyond its lease sells nothing, in `SQLite` and
//! `PostgreSQL`.

use leasehold_testbed::{Server, wait_until};

use crate::LIMIT;
use crate::postgres::Postgres;
use crate::process::{Process, exists};

const PROGRAM: &str = env!("CARGO_BIN_EXE_inventory");

#[test]
fn sqlite_refuses_a_stale_seller() {
    let server = Server::start();
    let file = server.folder().join("stock.db");
    sells(&server, &format!("sqlite:{}", file.display()));
}

#[test]
fn postgresql_refuses_a_stale_seller() {
    let server = Server::start();
    let database = Postgres::start();
    sells(&server, &database.connection_string());
}

fn sells(server: &Server, database: &str) {
    let start = |arguments: &[&str]| {
        let item = ["--item", "7", "--lease", "3000", "--database", database];
        Process::start(PROGRAM, server, &[&item[..], arguments].concat())
    };
    assert!(start(&["--fill", "10"]).ended().success());

    let mut sellers = [(); 4].map(|()| start(&["--sell", "1", "--think", "50"]));
    for seller in &mut sellers {
        assert!(seller.ended().success(), "{:#?}", seller.lines());
    }

    let mut slow = start(&["--sell", "2", "--think", "10000"]);
    slow.says("read 6 with token 5");
    slow.signal("-STOP");
    wait_until("its lease ends", LIMIT, || {
        !exists(server, "example:stock:7")
    });
    let mut quick = start(&["--sell", "3"]);
    assert!(quick.ended().success(), "{:#?}", quick.lines());
    assert_eq!(quick.count("sold 3, 3 are left"), 1, "{:#?}", quick.lines());
    slow.signal("-CONT");
    assert!(!slow.ended().success());
    slow.says("Error: \"token 5 is stale: nothing is sold\"");

    let mut last = start(&["--sell", "3"]);
    assert!(last.ended().success());
    last.says("sold 3, 0 are left");
    let mut none = start(&["--sell", "1"]);
    assert!(!none.ended().success());
    none.says("Error: \"only 0 are left\"");
}
