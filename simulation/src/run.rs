//! One run of the simulation: random operations and 3–10 random faults, then healing, then the
//! check.

use std::{collections::BTreeMap, time::Duration};

use rand::{RngExt, seq::IndexedRandom};
use tokio::time::Instant;

use crate::{
    distribution, handover, hostile, identity,
    interpreter::{self, Rules},
    users::Users,
    world::World,
};
use fakes::{apiserver, opensearch};

/// How many faults one run has.
const FAULTS: std::ops::RangeInclusive<usize> = 3..=10;
/// How many faults of the interpreter webhook and changes of rules one run has besides.
const INTERPRETER_FAULTS: std::ops::RangeInclusive<usize> = 0..=8;
/// How many steps one run has; operations and faults happen in a step.
const STEPS: std::ops::Range<usize> = 40..160;
/// How long the index may take to converge after healing: twice the longest silence of a watch
/// (five minutes), plus the longest backoffs.
const DEADLINE: Duration = Duration::from_mins(20);
/// How long the index has to stay equal to the fleet.
const STABLE: Duration = Duration::from_secs(90);
/// How often each kind is audited in runs with faults that only an audit detects.
const AUDIT_INTERVAL: Duration = Duration::from_mins(2);

/// A fault of a server, or a disruption of the fleet.
#[derive(Clone, Debug)]
enum Disruption {
    Apiserver(apiserver::Fault, apiserver::Extent),
    Store(opensearch::Fault, opensearch::Span),
    World(FleetDisruption),
    Interpreter(interpreter::Fault, interpreter::Extent),
    Rules(Rules),
}

/// A disruption of the fleet as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FleetDisruption {
    RestartApiserver,
    Compact,
    Restore,
    Recreate,
    RestartStore,
    DeleteIndex,
    RemoveAlias,
    Operators,
    SecondOperator,
    EditRegistry,
    MoveRegistry,
    JoinOrLeave,
}

const FLEET_DISRUPTIONS: [FleetDisruption; 13] = [
    FleetDisruption::EditRegistry,
    FleetDisruption::RestartApiserver,
    FleetDisruption::Compact,
    FleetDisruption::Restore,
    FleetDisruption::Recreate,
    FleetDisruption::RestartStore,
    FleetDisruption::DeleteIndex,
    FleetDisruption::RemoveAlias,
    FleetDisruption::Operators,
    FleetDisruption::SecondOperator,
    FleetDisruption::EditRegistry,
    FleetDisruption::MoveRegistry,
    FleetDisruption::JoinOrLeave,
];

impl Disruption {
    /// Whether list, watch and bulk requests cannot show it, so that only an audit detects its
    /// effect.
    fn needs_audit(&self) -> bool {
        match self {
            Self::Apiserver(fault, _) => matches!(fault, apiserver::Fault::Swallow),
            Self::Store(fault, _) => matches!(fault, opensearch::Fault::AppliedLate(_)),
            // After a restore the revision may pass the checkpoint before the operator reconnects.
            // Without tombstones a late duplicate write is accepted. One of two operators may be
            // killed while it fills an index.
            Self::World(disruption) => {
                matches!(
                    disruption,
                    FleetDisruption::Restore
                        | FleetDisruption::RestartStore
                        | FleetDisruption::SecondOperator
                )
            }
            Self::Interpreter(..) | Self::Rules(_) => false,
        }
    }
}

/// The result of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// How often each fault took effect, by name.
    pub struck: BTreeMap<String, u64>,
    /// Number of writes to the clusters.
    pub operations: u64,
    /// Number of requests that OpenSearch received.
    pub requests: u64,
    /// Simulated time from healing until the index equals the fleet.
    pub convergence: Duration,
    /// The failure; absent if the run passed.
    pub failure: Option<String>,
}

/// One in so many seeds also runs several replicas with watchers, which takes longer than the rest.
const SEEDS_WITH_REPLICAS: u64 = 8;

/// One in so many seeds also runs members that report the identity of another member.
const SEEDS_WITH_DUPLICATES: u64 = 4;

/// One in so many seeds also distributes objects.
const SEEDS_WITH_DISTRIBUTION: u64 = 6;

/// One in so many seeds also distributes sets of objects.
const SEEDS_WITH_SETS: u64 = 27;

/// Runs only the distribution of one seed.
pub fn run_distribution(seed: u64) -> Report {
    distribute(seed, false)
}

/// Runs only the distribution of sets of one seed.
pub fn run_sets(seed: u64) -> Report {
    distribute(seed, true)
}

fn distribute(seed: u64, has_sets: bool) -> Report {
    let mut report = Report {
        seed,
        ..Report::default()
    };
    let outcome = with_paused_clock(distribution::simulate(seed, has_sets));
    let outcome = outcome.map(|outcome| report.add(outcome));
    report.failure = outcome.err().map(|error| format!("{error:#}"));
    report
}

impl Report {
    fn add(&mut self, distributed: distribution::Outcome) {
        for (what, count) in distributed.struck {
            *self.struck.entry(what).or_default() += count;
        }
        self.operations += distributed.operations;
        self.convergence = self.convergence.max(distributed.convergence);
    }
}

/// Runs one seed on the current thread, with its own paused clock.
pub fn run(seed: u64) -> Report {
    let mut report = Report {
        seed,
        ..Report::default()
    };
    let mut outcome = with_paused_clock(simulate(seed, &mut report));
    if outcome.is_ok() && seed.is_multiple_of(SEEDS_WITH_REPLICAS) {
        outcome = with_paused_clock(handover::simulate(seed, handover::conditions(seed))).map(drop);
    }
    if outcome.is_ok() && seed.is_multiple_of(SEEDS_WITH_DUPLICATES) {
        outcome = with_paused_clock(identity::simulate(seed)).map(drop);
    }
    if outcome.is_ok() && seed.is_multiple_of(SEEDS_WITH_DISTRIBUTION) {
        let distributed = with_paused_clock(distribution::simulate(seed, false));
        outcome = distributed.map(|distributed| report.add(distributed));
    }
    if outcome.is_ok() && seed.is_multiple_of(SEEDS_WITH_SETS) {
        let distributed = with_paused_clock(distribution::simulate(seed, true));
        outcome = distributed.map(|distributed| report.add(distributed));
    }
    report.failure = outcome.err().map(|error| format!("{error:#}"));
    report
}

fn with_paused_clock<T>(simulation: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?
        .block_on(simulation)
}

async fn simulate(seed: u64, report: &mut Report) -> anyhow::Result<()> {
    let mut random = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(!seed);
    let disruptions: Vec<Disruption> = (0..random.random_range(FAULTS))
        .map(|_| random_disruption(&mut random))
        .collect();
    let audit_interval = disruptions
        .iter()
        .any(Disruption::needs_audit)
        .then_some(AUDIT_INTERVAL);
    let mut world = World::new(seed, audit_interval)?;
    let steps = random.random_range(STEPS);
    let mut due: Vec<(usize, Disruption)> = disruptions
        .into_iter()
        .map(|disruption| (random.random_range(0..steps), disruption))
        .collect();
    due.extend(interpreter_disruptions(seed, steps));
    due.sort_by_key(|(step, _)| *step);
    let mut due = due.into_iter().peekable();
    let users = |seed: u64, world: &World| {
        let honest = world.servers.keys().cloned().collect();
        Users::new(seed, &world.store, &world.member_names(), honest)
    };
    let running_users = users(seed, &world)?.start();
    for step in 0..steps {
        while let Some((_, disruption)) = due.next_if(|(at, _)| *at <= step) {
            tracing::info!(step, ?disruption, "applying a disruption");
            apply(&mut world, disruption).await?;
        }
        for _ in 0..world.random.random_range(0..8) {
            world.write();
            report.operations += 1;
        }
        if world.random.random_ratio(1, 8) {
            world.write_often();
        }
        let pause = world.random.random_range(0..3_000);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        world.check_always().map_err(anyhow::Error::msg)?;
        if let Some(violation) = running_users.violation() {
            anyhow::bail!(violation);
        }
        if world.random.random_ratio(1, 10) {
            world.ensure_operator();
        }
    }
    tracing::info!("healing");
    drop(running_users);
    world.heal().await;
    let mut outcome = converge(&mut world, report).await;
    if outcome.is_ok() {
        outcome = users(seed, &world)?
            .flood()
            .await
            .map_err(anyhow::Error::msg);
    }
    report.struck = struck(&world);
    report.requests = world.store.counters().requests;
    if outcome.is_ok() {
        outcome = world.finish().await.map_err(anyhow::Error::msg);
    }
    outcome
}

/// Liveness and safety: the index becomes equal to the fleet, and stays equal.
async fn converge(world: &mut World, report: &mut Report) -> anyhow::Result<()> {
    let healed = Instant::now();
    let mut right_since: Option<Instant> = None;
    loop {
        world.check_always().map_err(anyhow::Error::msg)?;
        let differences = world.differences();
        if differences.is_empty() {
            let since = *right_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= STABLE {
                report.convergence = since - healed;
                return Ok(());
            }
        } else {
            if healed.elapsed() >= DEADLINE {
                anyhow::bail!(
                    "{} after the healing:\n  {}",
                    minutes(healed.elapsed()),
                    differences.join("\n  ")
                );
            }
            right_since = None;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

fn minutes(time: Duration) -> String {
    format!("{} min", time.as_secs() / 60)
}

fn random_disruption(random: &mut rand::rngs::StdRng) -> Disruption {
    match random.random_range(0..3) {
        0 => {
            let faults = apiserver_faults(random);
            let at = random.random_range(0..faults.len());
            Disruption::Apiserver(faults[at].clone(), apiserver_extent(random))
        }
        1 => {
            let faults = store_faults(random);
            let at = random.random_range(0..faults.len());
            Disruption::Store(faults[at], store_extent(random))
        }
        _ => Disruption::World(
            *FLEET_DISRUPTIONS
                .choose(random)
                .unwrap_or(&FleetDisruption::Operators),
        ),
    }
}

/// Faults of the interpreter webhook and changes of rules, with their steps. They have a generator
/// of their own, so that the other disruptions of a seed stay the same.
fn interpreter_disruptions(seed: u64, steps: usize) -> Vec<(usize, Disruption)> {
    let mut random = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(seed.rotate_left(7));
    let disruption = |random: &mut rand::rngs::StdRng| {
        if random.random_ratio(1, 4) {
            return Disruption::Rules(Rules::random(random));
        }
        let faults = interpreter::Fault::ALL;
        let fault = faults[random.random_range(0..faults.len())];
        Disruption::Interpreter(fault, interpreter_extent(random))
    };
    (0..random.random_range(INTERPRETER_FAULTS))
        .map(|_| (random.random_range(0..steps), disruption(&mut random)))
        .collect()
}

async fn apply(world: &mut World, disruption: Disruption) -> anyhow::Result<()> {
    match disruption {
        Disruption::Apiserver(fault, extent) => {
            let cluster = world.some_cluster();
            if let Some(server) = world.servers.get(&cluster) {
                server.inject(fault, extent);
            }
        }
        Disruption::Store(fault, extent) => world.store.inject(fault, extent),
        Disruption::Interpreter(fault, extent) => world.interpreter.inject(fault, extent),
        Disruption::Rules(rules) => world.change_rules(rules),
        Disruption::World(disruption) => match disruption {
            FleetDisruption::RestartApiserver => world.restart_apiserver(),
            FleetDisruption::Compact => world.compact(),
            FleetDisruption::Restore => world.restore(),
            FleetDisruption::Recreate => world.recreate(),
            FleetDisruption::RestartStore => world.restart_store(),
            FleetDisruption::DeleteIndex => world.delete_index(),
            FleetDisruption::RemoveAlias => world.remove_alias(),
            FleetDisruption::Operators => world.disturb_operators().await?,
            FleetDisruption::SecondOperator => world.start_second_operator(),
            FleetDisruption::EditRegistry => world.edit_registry()?,
            FleetDisruption::MoveRegistry => world.move_registry()?,
            FleetDisruption::JoinOrLeave => world.join_or_leave(),
        },
    }
    Ok(())
}

fn apiserver_faults(random: &mut rand::rngs::StdRng) -> Vec<apiserver::Fault> {
    use apiserver::Fault;
    let seconds = |random: &mut rand::rngs::StdRng| Duration::from_secs(random.random_range(1..40));
    vec![
        Fault::Refuse,
        Fault::Hang,
        Fault::Throttle(random.random_ratio(1, 2).then(|| random.random_range(1..5))),
        Fault::InternalError,
        Fault::Unavailable,
        Fault::Timeout,
        Fault::Unauthorized,
        Fault::Forbidden("pods".into()),
        Fault::CutList,
        Fault::SlowList(seconds(random)),
        Fault::ExpireContinue,
        Fault::ExpireWatch,
        Fault::CloseWatch,
        Fault::CutWatch,
        Fault::CutLine,
        Fault::FreezeWatch,
        Fault::FailWatch,
        Fault::Lag(seconds(random)),
        Fault::Swallow,
        Fault::Replay,
    ]
}

fn store_faults(random: &mut rand::rngs::StdRng) -> Vec<opensearch::Fault> {
    use opensearch::Fault;
    vec![
        Fault::ConnectionRefused,
        Fault::Hang,
        Fault::RequestLost,
        Fault::ResponseLost,
        Fault::AppliedLate(Duration::from_secs(random.random_range(1..60))),
        Fault::Unauthorized,
        Fault::Forbidden,
        Fault::TooLarge(random.random_range(500..5_000)),
        Fault::TooManyRequests,
        Fault::Unavailable,
        Fault::RejectedItems(random.random_range(10..90)),
        Fault::WriteBlock,
        Fault::FloodStage,
        Fault::TruncatedResponse,
        Fault::WrongItemCount,
        Fault::SearchUnavailable,
        Fault::ShardFails,
        Fault::ShardUnavailable,
        Fault::SearchTimesOut,
        Fault::PointInTimeFails,
        Fault::ShardsFull,
    ]
}

fn apiserver_extent(random: &mut rand::rngs::StdRng) -> apiserver::Extent {
    match random.random_range(0..3) {
        0 => apiserver::Extent::For(Duration::from_secs(random.random_range(1..90))),
        1 => apiserver::Extent::Times(random.random_range(1..6)),
        _ => apiserver::Extent::After {
            skip: random.random_range(0..5),
            times: random.random_range(1..4),
        },
    }
}

fn store_extent(random: &mut rand::rngs::StdRng) -> opensearch::Span {
    match random.random_range(0..2) {
        0 => opensearch::Span::For(Duration::from_secs(random.random_range(1..90))),
        _ => opensearch::Span::Times(random.random_range(1..6)),
    }
}

fn interpreter_extent(random: &mut rand::rngs::StdRng) -> interpreter::Extent {
    match random.random_range(0..2) {
        0 => interpreter::Extent::For(Duration::from_secs(random.random_range(1..120))),
        _ => interpreter::Extent::Times(random.random_range(1..20)),
    }
}

/// How often each fault and disruption took effect, by name.
fn struck(world: &World) -> BTreeMap<String, u64> {
    let mut struck: BTreeMap<String, u64> = world
        .disruptions
        .iter()
        .map(|(what, count)| ((*what).to_owned(), *count))
        .collect();
    let mut add = |name: String, count: u64| *struck.entry(name).or_default() += count;
    for server in world.servers.values() {
        for (kind, count) in server.strikes() {
            add(format!("apiserver: {kind:?}"), count);
        }
    }
    for (malice, count) in world.malice() {
        add(format!("member: {malice:?}"), count);
    }
    for (kind, count) in world.store.counters().faults {
        add(format!("OpenSearch: {kind:?}"), count);
    }
    for (fault, count) in world.interpreter.strikes() {
        add(format!("interpreter: {fault:?}"), count);
    }
    struck
}

/// Every fault and disruption that has to take effect in a sufficient number of runs.
pub fn all_disruptions() -> Vec<String> {
    let apiserver = apiserver::FaultKind::ALL
        .iter()
        .map(|kind| format!("apiserver: {kind:?}"));
    let store = opensearch::FaultKind::ALL
        .iter()
        .map(|kind| format!("OpenSearch: {kind:?}"));
    let world = [
        "apiserver restarted",
        "etcd compacted",
        "etcd restored",
        "cluster recreated",
        "operator killed",
        "operator stopped",
        "second operator",
        "registry edited",
        "registry moved",
        "member left or joined",
        "interpreter rules changed",
    ];
    let members = hostile::Malice::ALL
        .iter()
        .map(|malice| format!("member: {malice:?}"));
    let interpreter = interpreter::Fault::ALL
        .iter()
        .map(|fault| format!("interpreter: {fault:?}"));
    apiserver
        .chain(store)
        .chain(members)
        .chain(interpreter)
        .chain(world.map(str::to_owned))
        .chain(distribution::all_operations())
        .collect()
}
