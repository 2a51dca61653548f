//! No request, object or rule of the second security review stops the operator, and none makes it
//! slow for others: each by itself, and all at once, within 1 GiB.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use e2e::attacks::{AttackSize, LIMIT_MIB, Plan};

/// How long each attack takes after its objects are indexed: a second, as `make test` has no more.
const EACH: Duration = Duration::from_secs(1);
const TOGETHER: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_attack_stops_the_operator_within_one_gibibyte_or_makes_it_slow_for_others() {
    let plan = Plan {
        size: AttackSize::Brief,
        limit: LIMIT_MIB << 20,
        each: EACH,
        together: TOGETHER,
        only: Vec::new(),
        shows_all: false,
    };
    let report = plan.run().await.unwrap();
    println!("{report}");
    let problems = report.problems();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}
