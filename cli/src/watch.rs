//! `watch`: shows locks as they change.
//!
//! | file | what it does |
//! | --- | --- |
//! | `changes` | compares the locks with those of the previous poll |
//! | `lines` | prints a line for each change |
//! | `screen` | shows the live table |

mod changes;
mod lines;
mod screen;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use leasehold::{Client, Error};
use leasehold_admin::Admin;

use crate::arguments::{ServerArguments, WatchArguments};
use crate::exit::Failure;
use crate::found::{Found, without_claims};
use crate::server::close;

/// The shortest interval, because each poll searches the whole database.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Returns the exit code.
pub(crate) async fn watch(asked: &WatchArguments, server: &ServerArguments) -> Result<u8, Failure> {
    if asked.interval < INTERVAL_MIN {
        return Err(Failure::usage("--interval is less than 100ms"));
    }
    let client = server.connect().await?;
    let is_live = io::stdout().is_terminal() && !asked.lines && !asked.json;
    let done = if is_live {
        screen::watch(&client, asked).await
    } else {
        lines::watch(&client, asked).await
    };
    close(&client).await;
    done.map(|()| 0)
}

/// What is held or waited for. Idle semaphores are left out, because only their use is a change,
/// and so are claims.
async fn look(client: &Client, pattern: &str) -> Result<Vec<Found>, Error> {
    let (mut found, _claims) = without_claims(Admin::new(client).locks(pattern).await?, pattern);
    found.retain(|found| !found.is_idle());
    Ok(found)
}
