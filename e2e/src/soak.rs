//! The soak: real servers, steady writes, a random fault every half a minute, and in the end the
//! oracle.
//!
//! A seed determines everything random: the order and duration of the faults, and the writes.
//! Concurrency is not reproducible, because the servers are real.

mod faults;
mod fixture;
mod memory;
mod report;

use self::fixture::{Fixture, MEMBERS};
use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;

use self::{faults::FaultSchedule, memory::Memory, report::Report};
use crate::{
    churn::{COLLECTIONS, Churn, Running, Tally},
    fleet::{ApiServer, Fleet, Options, Registration, target_folder, unique},
    objects::Objects,
    poll::{always, eventually},
    proxy::{Fault, FaultProxy},
    scenario::{self, Registry, SECRETS, register},
};

/// Object names per member; five in six exist at any time.
const NAMES: usize = 3_000;
/// How long the first sync and the last repair may take on a busy machine.
const DEADLINE: Duration = Duration::from_mins(10);
/// How long the index must stay equal.
const SETTLING: Duration = Duration::from_secs(10);

/// `e2e soak`
#[derive(Args, Debug)]
pub struct SoakArgs {
    /// How long faults are injected.
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Repeats the faults and writes of an earlier run.
    #[arg(long)]
    seed: Option<u64>,
    /// Writes per second to all members together.
    #[arg(long, default_value_t = 300)]
    writes_per_second: u32,
    /// Seconds from the start of a fault to the start of the next one.
    #[arg(long, default_value_t = 30.0)]
    fault_every: f64,
    /// Minutes of the run, in its middle, in which OpenSearch is down while writes continue; 0:
    /// none.
    #[arg(long, default_value_t = 10.0)]
    outage_minutes: f64,
}

/// Runs the soak, prints a report and writes `target/soak/results.json`; fails unless the index is
/// equal in the end.
pub async fn run(arguments: SoakArgs) -> Result<()> {
    ensure!(
        (0.0..arguments.minutes).contains(&arguments.outage_minutes),
        "--outage-minutes {} is not from 0 to below --minutes {}",
        arguments.outage_minutes,
        arguments.minutes
    );
    let seed = arguments
        .seed
        .unwrap_or_else(|| u64::from(rand::random::<u32>()));
    println!("soak of {} minutes with --seed {seed}", arguments.minutes);
    println!("starting {MEMBERS} members, OpenSearch and the operator …");
    let fixture = Fixture::start().await?;
    let churns = fixture.begin(seed, arguments.writes_per_second).await?;
    println!(
        "in sync; now {} writes/s and a fault every {} s",
        arguments.writes_per_second, arguments.fault_every
    );

    let mut memory = Memory::default();
    let mut schedule = FaultSchedule::new(seed);
    let started = schedule.started();
    let (lasts, outage) = (
        minutes(arguments.minutes),
        minutes(arguments.outage_minutes),
    );
    let (middle, until) = (started + lasts.saturating_sub(outage) / 2, started + lasts);
    let running: Vec<Running> = churns.iter().map(Churn::start).collect();
    let every = Duration::from_secs_f64(arguments.fault_every);
    let all_faults = async {
        schedule.run_until(&fixture, every, middle).await?;
        if !outage.is_zero() {
            schedule.long_store_outage(&fixture, outage).await?;
        }
        schedule.run_until(&fixture, every, until).await
    };
    tokio::select! {
        ended = all_faults => ended?,
        never = memory.watch(&fixture.operator) => match never {},
    }
    let mut tally = Tally::default();
    for churn in running {
        tally = tally + churn.stop().await?;
    }
    let churned = started.elapsed();

    println!("healing, and waiting for the index to be equal …");
    fixture.heal().await?;
    let healed = Instant::now();
    let equal = tokio::select! {
        equal = fixture.until_equal() => equal,
        never = memory.watch(&fixture.operator) => match never {},
    };
    let repaired = healed.elapsed();
    let stays = fixture.stays_equal().await;
    let drift = fixture.oracle.drift().await?;
    let report = Report {
        seed,
        churned,
        tally,
        faults: schedule.counts(),
        objects: equal.as_ref().copied().ok(),
        drift,
        repaired,
        memory,
    };
    println!("\n{report}");
    write_results(&report)?;
    equal?;
    stays?;
    ensure!(drift == 0, "{drift} documents drifted away");
    fixture
        .operator
        .terminate(Duration::from_secs(30))
        .await
        .map(drop)
}

impl Fixture {
    async fn start() -> Result<Self> {
        let fleet = Fleet::start(Options {
            members: MEMBERS,
            own_etcds: true,
            own_opensearch: true,
            ..Options::default()
        })
        .await?;
        scenario::prepare(&fleet).await?;
        let hub = Objects::of(fleet.control_plane())?;
        let mut members = Vec::new();
        for member in fleet.members() {
            let proxy = FaultProxy::start(member.url())?;
            let token = Objects::of(member)?
                .service_account_token(&unique(faults::ACCOUNT))
                .await?;
            let registration = Registration::with_token(member, member.name(), SECRETS, &token);
            register(&hub, &registration.through(&proxy.url())).await?;
            members.push(proxy);
        }
        let store = FaultProxy::start(fleet.opensearch()?.url())?;
        let names: Vec<&str> = fleet.members().iter().map(ApiServer::name).collect();
        let kinds = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }, { "apiVersion": "v1", "kind": "Secret" }]);
        let mut registry = Registry::in_fleet(&fleet, "soak", &names, &kinds)?;
        registry.store()["addresses"] = json!([store.url()]);
        registry.apply().await?;
        let mut oracle = registry.oracle();
        for member in fleet.members() {
            for collection in COLLECTIONS {
                oracle = oracle.expects(member.name(), member, &format!("api/v1/{collection}"));
            }
        }
        let operator = scenario::start_operator(&fleet, &[]).await?;
        Ok(Self {
            operator,
            members,
            store,
            registry,
            oracle,
            fleet,
        })
    }

    /// Creates the first objects and waits for the first sync.
    async fn begin(&self, seed: u64, writes_per_second: u32) -> Result<Vec<Churn>> {
        let mut churns = Vec::new();
        let rate = writes_per_second / u32::try_from(MEMBERS)?;
        for (number, member) in (0..).zip(self.fleet.members()) {
            let churn = Churn::new(member, "soak", NAMES, rate)
                .await?
                .seeded(seed.wrapping_add(number));
            churn.begin().await?;
            churns.push(churn);
        }
        self.until_equal().await?;
        Ok(churns)
    }

    /// Ends every fault that may still be active.
    async fn heal(&self) -> Result<()> {
        for proxy in self.members.iter().chain([&self.store]) {
            proxy.set(Fault::None);
        }
        self.fleet.heal().await?;
        if !self.operator.process().resume_if_running()? {
            self.operator.restart()?;
        }
        Ok(())
    }

    /// Waits until the index is equal. Returns the number of objects.
    async fn until_equal(&self) -> Result<usize> {
        eventually("the index is equal", DEADLINE, || self.oracle.compare()).await
    }

    /// Fails if the index does not stay equal.
    async fn stays_equal(&self) -> Result<()> {
        always("the index stays equal", SETTLING, || async {
            self.oracle.compare().await.map(drop)
        })
        .await
    }
}

fn minutes(count: f64) -> Duration {
    Duration::from_secs_f64(count * 60.0)
}

fn write_results(report: &Report) -> Result<()> {
    let folder = target_folder()?.join("soak");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let path = folder.join("results.json");
    let text = serde_json::to_string_pretty(&report.json())? + "\n";
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    println!("figures in {}", path.display());
    Ok(())
}
