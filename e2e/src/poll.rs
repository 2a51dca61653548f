//! Waiting for something to become true.

use std::{
    fmt::Display,
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// Long enough to be gentle with a busy machine, short enough to go unnoticed.
const PAUSE: Duration = Duration::from_millis(50);

/// Calls `check` until it gives a value, and gives that value. When `deadline` has passed, fails with what was waited for
/// and with the last error, which should tell the state that was seen.
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
    let mut last_state = "nothing was seen".to_owned();
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
            Err(_) => last_state = format!("{last_state} (the last look did not return in time)"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Calls `check` for all of `duration` and fails as soon as it fails: for showing that something does not happen.
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
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn eventually_gives_the_first_value() {
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
    async fn a_failure_tells_what_was_waited_for_and_the_last_state() {
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
    async fn a_look_that_never_returns_does_not_outlast_the_deadline() {
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
