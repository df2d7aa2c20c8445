//! The provider of tokens of docs/managed-services.md, on an engine that ends connections whose
//! login is old.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::settings::{Credentials, CredentialsFuture, CredentialsProvider};
use leasehold::test_util::Profile;
use leasehold::{EmbeddedRedis, HoldState};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

const MINUTE: Duration = Duration::from_secs(60);

/// Has a token signed when it is needed, and keeps it. The client asks for each connection, and
/// again after three quarters of a token's time.
#[derive(Debug)]
struct Tokens<S> {
    user: String,
    /// How long the server accepts a token.
    life: Duration,
    /// Signs a token. In a service, this calls the SDK of the cloud.
    sign: S,
    kept: Mutex<Option<(String, Instant)>>,
}

impl<S, F> CredentialsProvider for Tokens<S>
where
    S: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = Result<String, Box<dyn Error + Send + Sync>>> + Send,
{
    fn credentials(&self) -> CredentialsFuture<'_> {
        Box::pin(async move {
            let mut kept = self.kept.lock().await;
            if let Some((token, until)) = &*kept {
                let left = until.saturating_duration_since(Instant::now());
                if left > self.life / 2 {
                    return Ok(Credentials::new(&self.user, token).valid_for(left));
                }
            }
            // A token is as old as the request for it.
            let until = Instant::now() + self.life;
            let token = (self.sign)().await?;
            *kept = Some((token.clone(), until));
            Ok(Credentials::new(&self.user, token).valid_for(self.life))
        })
    }
}

#[test]
fn the_page_has_this_provider() {
    let (page, here) = (
        include_str!("../../docs/managed-services.md"),
        include_str!("tokens.rs"),
    );
    let (_, provider) = here.split_once("const MINUTE: Duration").expect("above it");
    let (_, provider) = provider.split_once("\n\n").expect("the provider");
    let (provider, _) = provider.split_once("#[test]").expect("this test");
    assert!(page.contains(provider.trim()), "{provider}");
}

#[tokio::test(start_paused = true)]
async fn tokens_that_are_kept_are_signed_again_only_when_they_expire() {
    let engine = EmbeddedRedis::with_profile(Profile {
        login_lasts: Some(60 * MINUTE),
        ..Profile::REDIS
    });
    engine.require_password("token");
    let signed = Arc::new(AtomicUsize::new(0));
    let number = signed.clone();
    let tokens = Tokens {
        user: "default".to_owned(),
        life: 15 * MINUTE,
        sign: move || {
            number.fetch_add(1, Ordering::SeqCst);
            async { Ok("token".to_owned()) }
        },
        kept: Mutex::default(),
    };
    let client = engine.builder().credentials(tokens).connect().await;
    let client = client.expect("the token is right");
    let guard = client.lock("x").lock().await.expect("free");
    assert_eq!(signed.load(Ordering::SeqCst), 1, "for three connections");
    sleep(12 * MINUTE).await;
    assert_eq!(signed.load(Ordering::SeqCst), 2, "before it expires");
    sleep(2 * 60 * MINUTE).await;
    assert_eq!(guard.state(), HoldState::Held);
    assert_eq!(client.stats().reconnects, 0);
    guard.unlock().await.expect("it is held");
}
