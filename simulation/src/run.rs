//! One run: random operations and 3–10 random faults, then healing, then the verdict.

use std::{collections::BTreeMap, time::Duration};

use rand::{RngExt, seq::IndexedRandom};
use tokio::time::Instant;

use crate::{apiserver, handover, hostile, identity, opensearch, users::Users, world::World};

/// Faults of one run.
const FAULTS: std::ops::RangeInclusive<usize> = 3..=10;
/// Moments at which something is done to the fleet.
const MOMENTS: std::ops::Range<usize> = 40..160;
/// How long after the healing everything may take: the longest silence of a watch (five minutes), twice, and the longest backoffs.
const DEADLINE: Duration = Duration::from_mins(20);
/// The index must stay right for this long.
const STABLE: Duration = Duration::from_secs(90);
/// How often each kind is audited in runs with faults that only an audit can find.
const AUDIT_INTERVAL: Duration = Duration::from_mins(2);

/// What goes wrong.
#[derive(Clone, Debug)]
enum Trouble {
    Apiserver(apiserver::Fault, apiserver::Extent),
    Store(opensearch::Fault, opensearch::Span),
    World(WorldTrouble),
}

/// What is done to the fleet as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorldTrouble {
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

const WORLD_TROUBLES: [WorldTrouble; 13] = [
    WorldTrouble::EditRegistry,
    WorldTrouble::RestartApiserver,
    WorldTrouble::Compact,
    WorldTrouble::Restore,
    WorldTrouble::Recreate,
    WorldTrouble::RestartStore,
    WorldTrouble::DeleteIndex,
    WorldTrouble::RemoveAlias,
    WorldTrouble::Operators,
    WorldTrouble::SecondOperator,
    WorldTrouble::EditRegistry,
    WorldTrouble::MoveRegistry,
    WorldTrouble::JoinOrLeave,
];

impl Trouble {
    /// Whether it happens below what list, watch and bulk can see, so that only an audit finds what it did.
    fn is_below_us(&self) -> bool {
        match self {
            Self::Apiserver(fault, _) => matches!(fault, apiserver::Fault::Swallow),
            Self::Store(fault, _) => matches!(fault, opensearch::Fault::AppliedLate(_)),
            // After a restore the counter may pass our checkpoint before anybody looks; without tombstones a late duplicate lives; one of
            // two operators may be killed while it fills an index.
            Self::World(trouble) => {
                matches!(
                    trouble,
                    WorldTrouble::Restore
                        | WorldTrouble::RestartStore
                        | WorldTrouble::SecondOperator
                )
            }
        }
    }
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// How often each fault struck, by name.
    pub struck: BTreeMap<String, u64>,
    /// Writes to the clusters.
    pub operations: u64,
    /// Requests that OpenSearch got.
    pub requests: u64,
    /// Simulated time from the healing to the right index.
    pub convergence: Duration,
    /// What is wrong; nothing if the run passed.
    pub failure: Option<String>,
}

/// Of so many seeds one also has several replicas with watchers, which takes longer than all else.
const SEEDS_WITH_REPLICAS: u64 = 8;

/// Of so many seeds one also has members that report the identity of another one.
const SEEDS_WITH_TWINS: u64 = 4;

/// Runs one seed, on the current thread, on a clock of its own.
pub fn run(seed: u64) -> Report {
    let mut report = Report {
        seed,
        ..Report::default()
    };
    let mut outcome = on_a_paused_clock(simulate(seed, &mut report));
    if outcome.is_ok() && seed.is_multiple_of(SEEDS_WITH_REPLICAS) {
        outcome = on_a_paused_clock(handover::simulate(seed, handover::conditions(seed))).map(drop);
    }
    if outcome.is_ok() && seed.is_multiple_of(SEEDS_WITH_TWINS) {
        outcome = on_a_paused_clock(identity::simulate(seed)).map(drop);
    }
    report.failure = outcome.err().map(|error| format!("{error:#}"));
    report
}

fn on_a_paused_clock<T>(simulation: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?
        .block_on(simulation)
}

async fn simulate(seed: u64, report: &mut Report) -> anyhow::Result<()> {
    let mut dice = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(!seed);
    let troubles: Vec<Trouble> = (0..dice.random_range(FAULTS))
        .map(|_| trouble(&mut dice))
        .collect();
    let audit_interval = troubles
        .iter()
        .any(Trouble::is_below_us)
        .then_some(AUDIT_INTERVAL);
    let mut world = World::new(seed, audit_interval)?;
    let moments = dice.random_range(MOMENTS);
    let mut due: Vec<(usize, Trouble)> = troubles
        .into_iter()
        .map(|trouble| (dice.random_range(0..moments), trouble))
        .collect();
    due.sort_by_key(|(moment, _)| *moment);
    let mut due = due.into_iter().peekable();
    let users = |seed: u64, world: &World| Users::new(seed, &world.store, &world.member_names());
    let asking = users(seed, &world)?.start();
    for moment in 0..moments {
        while let Some((_, trouble)) = due.next_if(|(at, _)| *at <= moment) {
            tracing::info!(moment, ?trouble, "trouble");
            strike(&mut world, trouble).await?;
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
        if let Some(violation) = asking.violation() {
            anyhow::bail!(violation);
        }
        if world.random.random_ratio(1, 10) {
            world.ensure_operator();
        }
    }
    tracing::info!("healing");
    drop(asking);
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

/// Liveness and safety: the index becomes right, and stays so.
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

fn trouble(dice: &mut rand::rngs::StdRng) -> Trouble {
    match dice.random_range(0..3) {
        0 => {
            let faults = apiserver_faults(dice);
            let at = dice.random_range(0..faults.len());
            Trouble::Apiserver(faults[at].clone(), apiserver_extent(dice))
        }
        1 => {
            let faults = store_faults(dice);
            let at = dice.random_range(0..faults.len());
            Trouble::Store(faults[at], store_extent(dice))
        }
        _ => Trouble::World(
            *WORLD_TROUBLES
                .choose(dice)
                .unwrap_or(&WorldTrouble::Operators),
        ),
    }
}

async fn strike(world: &mut World, trouble: Trouble) -> anyhow::Result<()> {
    match trouble {
        Trouble::Apiserver(fault, extent) => {
            let cluster = world.some_cluster();
            if let Some(server) = world.servers.get(&cluster) {
                server.inject(fault, extent);
            }
        }
        Trouble::Store(fault, extent) => world.store.inject(fault, extent),
        Trouble::World(trouble) => match trouble {
            WorldTrouble::RestartApiserver => world.restart_apiserver(),
            WorldTrouble::Compact => world.compact(),
            WorldTrouble::Restore => world.restore(),
            WorldTrouble::Recreate => world.recreate(),
            WorldTrouble::RestartStore => world.restart_store(),
            WorldTrouble::DeleteIndex => world.delete_index(),
            WorldTrouble::RemoveAlias => world.remove_alias(),
            WorldTrouble::Operators => world.disturb_operators().await?,
            WorldTrouble::SecondOperator => world.start_second_operator(),
            WorldTrouble::EditRegistry => world.edit_registry()?,
            WorldTrouble::MoveRegistry => world.move_registry()?,
            WorldTrouble::JoinOrLeave => world.join_or_leave(),
        },
    }
    Ok(())
}

fn apiserver_faults(dice: &mut rand::rngs::StdRng) -> Vec<apiserver::Fault> {
    use apiserver::Fault;
    let seconds = |dice: &mut rand::rngs::StdRng| Duration::from_secs(dice.random_range(1..40));
    vec![
        Fault::Refuse,
        Fault::Hang,
        Fault::Throttle(dice.random_ratio(1, 2).then(|| dice.random_range(1..5))),
        Fault::InternalError,
        Fault::Unavailable,
        Fault::Timeout,
        Fault::Unauthorized,
        Fault::Forbidden("pods".into()),
        Fault::CutList,
        Fault::SlowList(seconds(dice)),
        Fault::ExpireContinue,
        Fault::ExpireWatch,
        Fault::CloseWatch,
        Fault::CutWatch,
        Fault::CutLine,
        Fault::FreezeWatch,
        Fault::FailWatch,
        Fault::Lag(seconds(dice)),
        Fault::Swallow,
        Fault::Replay,
    ]
}

fn store_faults(dice: &mut rand::rngs::StdRng) -> Vec<opensearch::Fault> {
    use opensearch::Fault;
    vec![
        Fault::ConnectionRefused,
        Fault::Hang,
        Fault::RequestLost,
        Fault::ResponseLost,
        Fault::AppliedLate(Duration::from_secs(dice.random_range(1..60))),
        Fault::Unauthorized,
        Fault::Forbidden,
        Fault::TooLarge(dice.random_range(500..5_000)),
        Fault::TooManyRequests,
        Fault::Unavailable,
        Fault::RejectedItems(dice.random_range(10..90)),
        Fault::WriteBlock,
        Fault::FloodStage,
        Fault::TruncatedResponse,
        Fault::WrongItemCount,
        Fault::SearchUnavailable,
        Fault::ShardFails,
        Fault::SearchTimesOut,
        Fault::PointInTimeFails,
        Fault::ShardsFull,
    ]
}

fn apiserver_extent(dice: &mut rand::rngs::StdRng) -> apiserver::Extent {
    match dice.random_range(0..3) {
        0 => apiserver::Extent::For(Duration::from_secs(dice.random_range(1..90))),
        1 => apiserver::Extent::Times(dice.random_range(1..6)),
        _ => apiserver::Extent::After {
            skip: dice.random_range(0..5),
            times: dice.random_range(1..4),
        },
    }
}

fn store_extent(dice: &mut rand::rngs::StdRng) -> opensearch::Span {
    match dice.random_range(0..2) {
        0 => opensearch::Span::For(Duration::from_secs(dice.random_range(1..90))),
        _ => opensearch::Span::Times(dice.random_range(1..6)),
    }
}

/// How often everything struck, by name.
fn struck(world: &World) -> BTreeMap<String, u64> {
    let mut struck: BTreeMap<String, u64> = world
        .done
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
    struck
}

/// Everything that has to strike in a good number of runs.
pub fn all_troubles() -> Vec<String> {
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
    ];
    let members = hostile::Malice::ALL
        .iter()
        .map(|malice| format!("member: {malice:?}"));
    apiserver
        .chain(store)
        .chain(members)
        .chain(world.map(str::to_owned))
        .collect()
}
