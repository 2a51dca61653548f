//! Watches at several replicas, with delayed messages.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use simulation::handover::{Conditions, Outcome, conditions, simulate};

fn run_seed(seed: u64, conditions: Conditions) -> Outcome {
    let filter =
        tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "off".into());
    // The other test may have initialized it.
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
fn watches_miss_no_deletion_when_replicas_start_stop_or_die() {
    let mut outcomes = Vec::new();
    for seed in 0..40 {
        outcomes.push(run_seed(seed, conditions(seed)));
    }
    let stopped: u64 = outcomes.iter().map(|outcome| outcome.stopped).sum();
    let killed: u64 = outcomes.iter().map(|outcome| outcome.killed).sum();
    assert!(
        stopped > 10 && killed > 5,
        "{stopped} replicas stopped and {killed} were killed: too few for a meaningful test"
    );
}

#[test]
fn a_graceful_shutdown_of_a_replica_ends_no_watch() {
    // A cluster that is handed over twice within ten seconds ends watches: late changes cannot be
    // distinguished then.
    let slow = Conditions {
        max_delay: Duration::from_millis(300),
        with_faults: false,
        with_kills: false,
        with_moves: false,
        write_millis: (11_000, 20_000),
    };
    for seed in 100..120 {
        let outcome = run_seed(seed, slow);
        assert_eq!(outcome.relists, 0, "seed {seed}: {outcome:?}");
    }
}

#[test]
fn watches_miss_no_deletion_when_a_registry_moves() {
    for seed in 200..230 {
        let moving = Conditions {
            with_moves: true,
            ..conditions(seed)
        };
        run_seed(seed, moving);
    }
}
