//! `ls`: lists the locks that are held.

use leasehold_admin::Admin;

use crate::arguments::{ListArguments, ServerArguments};
use crate::exit::Failure;
use crate::found::without_claims;
use crate::output::{Rows, Tone, complain, say, say_json};
use crate::server::close;

/// Returns the exit code.
pub(crate) async fn list(list: &ListArguments, server: &ServerArguments) -> Result<u8, Failure> {
    let client = server.connect().await?;
    let locks = Admin::new(&client).locks(&list.pattern).await;
    close(&client).await;
    let locks = locks?;
    if locks.is_truncated() {
        complain("there are more: the search ended at its bounds, give a pattern");
    }
    let (locks, claims) = without_claims(locks, &list.pattern);
    if claims > 0 {
        let told = "claims of leasehold-once are left out: give a pattern, such as '*:claimed'";
        complain(&format!("{claims} {told}"));
    }
    if list.json {
        say_json(&locks)?;
        return Ok(0);
    }
    if locks.is_empty() {
        complain("no lock is held");
        return Ok(0);
    }
    let mut rows = Rows::new(&["NAME", "KIND", "HOLDER", "HOLDS", "LEASE", "WAITERS"]);
    for lock in locks {
        rows.add([
            (lock.name.to_string(), Tone::Plain),
            (lock.kind.clone(), Tone::Faint),
            (lock.holder(), Tone::Plain),
            (lock.holds_text(), Tone::Plain),
            lock.lease(),
            (lock.waiters(), Tone::Plain),
        ]);
    }
    say(&rows.text())?;
    Ok(0)
}
