//! No request, object or rule stops the operator or keeps others from their answers: each by
//! itself, and all at once, within 1 GiB. How long these take, `e2e attacks` measures.

use std::time::Duration;

use e2e::{
    attacks::{AttackSize, LIMIT_MIB, Plan},
    test_result::Tested,
};

/// How long each attack takes after its objects are indexed: a second, as `make test` has no more.
const EACH: Duration = Duration::from_secs(1);
const TOGETHER: Duration = Duration::from_secs(10);
const ATTACKS: [&str; 16] = [
    "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "m1", "m2", "m4", "l2", "l4", "s1", "s2", "all",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_attack_stops_the_operator_within_one_gibibyte_or_keeps_answers_from_others() -> Tested {
    let plan = Plan {
        size: AttackSize::Brief,
        limit: LIMIT_MIB << 20,
        each: EACH,
        together: TOGETHER,
        only: ATTACKS.map(str::to_owned).into(),
        shows_all: false,
    };
    let report = plan.run().await?;
    println!("{report}");
    let failures = report.failures();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    Ok(())
}
