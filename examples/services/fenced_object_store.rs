//! An object in a bucket that a holder which was paused for too long cannot overwrite.
//!
//! ```text
//! cargo run -p leasehold-examples --example fenced_object_store
//! ```
//!
//! The object begins with the token of its writer, and is only ever replaced in the version that
//! was looked at (`If-Match` with its `ETag`). The store is in memory; those of S3, Azure and
//! Google take the same calls. `docs/fencing.md` explains it.
#![expect(clippy::print_stdout, reason = "the example shows what happens")]

use std::time::Duration;

use leasehold::{EmbeddedRedis, FencingToken, Lease};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};
use tokio::time::sleep;

const LOCK: &str = "example:index";
const LEASE: Duration = Duration::from_millis(300);

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = EmbeddedRedis::new();
    let (slow, quick) = (redis.client(), redis.client());
    let (bucket, path) = (InMemory::new(), Path::from("index/current"));

    let stale = slow
        .fenced_lock(LOCK)
        .try_lock_now(Lease::Fixed(LEASE))
        .await?;
    let old = stale.token();
    assert!(put_fenced(&bucket, &path, old, "one segment").await?);
    println!("the slow one holds token {old}, has written, and stands still");
    sleep(LEASE * 2).await;

    let guard = quick.fenced_lock(LOCK).lock().await?;
    let new = guard.token();
    assert!(put_fenced(&bucket, &path, new, "two segments").await?);
    println!("the quick one holds token {new} and has written");

    // It was past its last `check` when it was stopped. An `ETag` alone would not help here: it
    // would look at the new version, and replace that.
    let written = put_fenced(&bucket, &path, old, "one other segment").await?;
    assert!(!written, "a stale holder has written");
    println!("the slow one writes with token {old}: refused");

    assert_eq!(
        bucket.get(&path).await?.bytes().await?,
        format!("{new}\ntwo segments")
    );
    println!("the bucket has what the quick one wrote");
    Ok(guard.unlock().await?)
}

/// Replaces an object unless a later holder has been there; false if so.
async fn put_fenced(
    store: &dyn ObjectStore,
    path: &Path,
    token: FencingToken,
    body: &str,
) -> Result<bool, Failure> {
    let object = format!("{token}\n{body}");
    loop {
        let mode = match store.get(path).await {
            Ok(found) => {
                let (e_tag, version) = (found.meta.e_tag.clone(), found.meta.version.clone());
                if fence(&found.bytes().await?)? > token {
                    return Ok(false);
                }
                PutMode::Update(UpdateVersion { e_tag, version })
            }
            Err(Error::NotFound { .. }) => PutMode::Create,
            Err(error) => return Err(error.into()),
        };
        match store
            .put_opts(path, object.clone().into(), mode.into())
            .await
        {
            Ok(_) => return Ok(true),
            // Somebody was quicker: look again whether it was a later holder.
            Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The token of the holder who wrote an object.
fn fence(object: &[u8]) -> Result<FencingToken, Failure> {
    let (token, _body) = str::from_utf8(object)?
        .split_once('\n')
        .ok_or("no token in it")?;
    Ok(FencingToken::from_value(token.parse()?))
}
