//! Watches at several replicas, on a machine where everything comes late.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use simulation::handover::{Conditions, Outcome, conditions, simulate};

fn hold(seed: u64, conditions: Conditions) -> Outcome {
    let filter =
        tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "off".into());
    // The other test may have done so.
    let _is_first = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .try_init();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime
        .block_on(simulate(seed, conditions))
        .map_err(|error| format!("seed {seed}: {error:#}"))
        .unwrap()
}

#[test]
fn whoever_leaves_dies_or_comes_no_deletion_is_missed() {
    let mut outcomes = Vec::new();
    for seed in 0..40 {
        outcomes.push(hold(seed, conditions(seed)));
    }
    let stopped: u64 = outcomes.iter().map(|outcome| outcome.stopped).sum();
    let killed: u64 = outcomes.iter().map(|outcome| outcome.killed).sum();
    assert!(
        stopped > 10 && killed > 5,
        "{stopped} have left and {killed} have died: too few to say anything"
    );
}

#[test]
fn one_that_leaves_in_good_order_ends_no_watch() {
    // A cluster that changes hands twice within ten seconds ends watches: which of the changes are late cannot be told then.
    let slow = Conditions {
        slowest: Duration::from_millis(300),
        with_faults: false,
        with_deaths: false,
        calm: (11_000, 20_000),
    };
    for seed in 100..120 {
        let outcome = hold(seed, slow);
        assert_eq!(outcome.relists, 0, "seed {seed}: {outcome:?}");
    }
}
