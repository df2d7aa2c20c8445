//! A catalogue that many read at once, and that one at a time changes.
//!
//! ```text
//! cargo run --example read_write
//! ```
//!
//! Watch that the readers work side by side, that the writer waits for all of them, and that it
//! lets the others in again while it still reads what it has written.
#![expect(clippy::print_stdout, reason = "the example shows what happens")]

use std::time::Duration;

use leasehold::{EmbeddedRedis, Error, Lease};

const NAME: &str = "example:catalogue";
const WAIT: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Error> {
    // One client for each process.
    let redis = EmbeddedRedis::new();
    let (shop, search, editor) = (redis.client(), redis.client(), redis.client());
    let shop = shop.read_write_lock(NAME);
    let search = search.read_write_lock(NAME);
    let editor = editor.read_write_lock(NAME);

    let (in_shop, in_search) = tokio::try_join!(shop.read().lock(), search.read().lock())?;
    println!("two read");
    let refused = editor.write().try_lock_now(Lease::Renewed).await;
    assert!(
        refused.is_err_and(|error| error.is_timeout()),
        "wrote among readers"
    );

    // An upgrade is refused at once: the reader would wait for its own release.
    let upgrade = shop.write().acquire().within(&in_shop).await;
    assert!(matches!(upgrade, Err(Error::AlreadyHeld { .. })));

    let (writing, shop_left, search_left) = tokio::join!(
        editor.write().try_lock(WAIT, Lease::Renewed),
        in_shop.unlock(),
        in_search.unlock(),
    );
    shop_left.and(search_left)?;
    let writing = writing?;
    println!("one writes");
    assert!(
        shop.read().try_lock_now(Lease::Renewed).await.is_err(),
        "read a half"
    );

    // Downgrade: first read within the write hold, then release the write hold.
    let checking = editor.read().acquire().within(&writing).await?;
    writing.unlock().await?;
    let in_shop = shop.read().try_lock(WAIT, Lease::Renewed).await?;
    println!("the writer checks its work, the others read again");
    in_shop.unlock().await?;
    checking.unlock().await
}
