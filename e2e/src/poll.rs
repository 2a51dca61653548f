//! Waiting for something to become true.

use std::{
    fmt::Display,
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// Long enough not to load a busy machine, short enough not to delay tests.
const INTERVAL: Duration = Duration::from_millis(50);

/// Calls `check` until it succeeds, and returns its value. After `deadline` it fails with `what`
/// and the last error, which should describe the observed state.
pub async fn eventually<T, E, F, Check>(
    what: &str,
    deadline: Duration,
    mut check: Check,
) -> Result<T>
where
    Check: FnMut() -> F,
    F: Future<Output = Result<T, E>>,
    E: Display,
{
    let started = Instant::now();
    let mut last_state = "no check has returned".to_owned();
    loop {
        let left = deadline.saturating_sub(started.elapsed());
        if left.is_zero() {
            bail!(
                "{what}: not after {:.1} s; last state: {last_state}",
                started.elapsed().as_secs_f64()
            );
        }
        match tokio::time::timeout(left, check()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => last_state = format!("{error:#}"),
            Err(_) => last_state = format!("{last_state} (the last check did not return in time)"),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Calls `check` for all of `duration` and fails as soon as it fails: to show that something does
/// not happen.
pub async fn always<E, F, Check>(what: &str, duration: Duration, mut check: Check) -> Result<()>
where
    Check: FnMut() -> F,
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    let started = Instant::now();
    while started.elapsed() < duration {
        if let Err(error) = check().await {
            bail!(
                "{what}: no longer after {:.1} s: {error:#}",
                started.elapsed().as_secs_f64()
            );
        }
        tokio::time::sleep(INTERVAL).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn eventually_returns_the_first_value() {
        let calls = Cell::new(0);
        let value = eventually("three calls", Duration::from_secs(10), || async {
            calls.set(calls.get() + 1);
            if calls.get() == 3 {
                Ok("done")
            } else {
                Err("not yet")
            }
        });
        assert_eq!(value.await.unwrap(), "done");
    }

    #[tokio::test]
    async fn a_timeout_names_the_condition_and_the_last_error() {
        let never = eventually("the moon", Duration::from_millis(80), || async {
            Err::<(), _>("seen: 3 pods")
        });
        let message = never.await.unwrap_err().to_string();
        assert!(
            message.contains("the moon") && message.contains("seen: 3 pods"),
            "{message}"
        );
    }

    #[tokio::test]
    async fn a_check_that_never_returns_ends_at_the_deadline() {
        let stuck = eventually(
            "an answer",
            Duration::from_millis(80),
            std::future::pending::<Result<()>>,
        );
        assert!(
            stuck
                .await
                .unwrap_err()
                .to_string()
                .contains("did not return in time")
        );
    }
}
