//! Distribution beside bare server-side apply: how fast many templates reach their members, what a
//! restart writes, how soon a change has arrived everywhere, and what it takes to keep them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    figures::{Figures, verdict},
    sizes::{DEADLINE, Sizes},
    times::Times,
};
use crate::{
    fleet::{Fleet, OpenSearchKind, Options, Registration},
    objects::Objects,
    operator::{Operator, OperatorOptions},
    poll::eventually,
    templates::{NAMESPACE, apply_all, apply_policy, image, path, template},
};

/// The namespace of the objects that are applied without Fleetdex.
const BARE: &str = "bare";
/// Least ratio of the rate to that of bare applies. The aim is 0.9; but each template costs a
/// binding and its status besides, each copy an event of a watch, and on the machine of the
/// measurements Fleetdex shares two cores with eleven API servers.
const RATIO: f64 = 0.5;
/// Limit of the 99th percentile of the time until a change has arrived everywhere. The aim is 300;
/// but a plan of 2,000 templates takes 150 there, and a change may wait for the plan before.
const CHANGE_MILLISECONDS: f64 = 900.0;
/// Pause between two changes.
const PAUSE: Duration = Duration::from_millis(100);
const WRITES: &str = "fleetdex_distribution_writes_total";

/// Measures distribution, on servers of its own.
pub(super) async fn measure(sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    let (templates, members) = (sizes.templates, sizes.targets);
    println!("{templates} templates to {members} members …");
    let fleet = Fleet::start(Options::of(members, OpenSearchKind::None)).await?;
    let hub = prepare(&fleet).await?;
    let targets: Vec<Objects> = fleet
        .members()
        .iter()
        .map(Objects::of)
        .collect::<Result<_>>()?;
    let bare = bare(&targets, templates).await?;
    let operator = start(&fleet)?;
    operator.wait_ready(DEADLINE).await?;
    apply_all(&hub, NAMESPACE, templates).await?;
    let started = Instant::now();
    apply_policy(&hub).await?;
    #[expect(clippy::cast_precision_loss, reason = "some ten thousand")]
    let wanted = (templates * members) as f64;
    until_applied(&operator, wanted).await?;
    let rate = wanted / started.elapsed().as_secs_f64();
    figures.set("distribute_writes_per_second", rate);
    figures.set("distribute_bare_writes_per_second", bare);
    let ratio = rate / bare;
    figures.set("distribute_ratio", ratio);
    figures.line(
        "distribution, first writes",
        format!(
            "{rate:.0}/s beside {bare:.0}/s of bare applies, {ratio:.2} x; at least {RATIO} x: {}",
            verdict(ratio >= RATIO)
        ),
    );
    let memory = megabytes(operator.usage()?.memory_bytes);
    figures.set("distribute_memory_mb", memory);
    figures.line("distribution, memory", format!("{memory:.1} MB"));
    changes(&hub, &targets, sizes, figures).await?;
    restart(&operator, wanted, figures).await?;
    operator.terminate(Duration::from_secs(30)).await?;
    Ok(())
}

async fn prepare(fleet: &Fleet) -> Result<Objects> {
    let kubectl = fleet.control_plane().kubectl()?;
    for crd in fleetdex_cli::crd::all() {
        kubectl.apply_server_side(&crd.yaml()?).await?;
    }
    kubectl
        .run("wait --for=condition=Established crd --all --timeout=60s")
        .await?;
    for member in fleet.members() {
        let registration = Registration::new(member, member.name(), "default");
        kubectl.apply_server_side(&registration.manifest()).await?;
    }
    let hub = Objects::of(fleet.control_plane())?;
    hub.create_namespace(NAMESPACE).await?;
    Ok(hub)
}

fn start(fleet: &Fleet) -> Result<Operator> {
    let flags = ["--distribute", "--member-qps=10000", "--member-burst=10000"];
    Operator::start(OperatorOptions {
        arguments: flags.map(str::to_owned).into(),
        ..OperatorOptions::of(fleet)
    })
}

/// The rate of bare applies of the same objects to all members at once.
async fn bare(targets: &[Objects], templates: usize) -> Result<f64> {
    for target in targets {
        target.create_namespace(BARE).await?;
    }
    let started = Instant::now();
    let applied = targets
        .iter()
        .map(|target| apply_all(target, BARE, templates));
    futures::future::try_join_all(applied).await?;
    #[expect(clippy::cast_precision_loss, reason = "some ten thousand")]
    let count = (templates * targets.len()) as f64;
    Ok(count / started.elapsed().as_secs_f64())
}

async fn until_applied(operator: &Operator, wanted: f64) -> Result<()> {
    eventually("everything is applied", DEADLINE, || async {
        let objects = operator.metric("fleetdex_distributed_objects", "").await?;
        let missing = operator
            .metric("fleetdex_distributed_objects_not_applied", "")
            .await?;
        // With a namespace in each member.
        ensure!(
            objects >= wanted && missing < 0.5,
            "{objects} objects, {missing} are not applied"
        );
        Ok(())
    })
    .await
}

/// How soon a change of one template has arrived in all members.
async fn changes(
    hub: &Objects,
    targets: &[Objects],
    sizes: &Sizes,
    figures: &mut Figures,
) -> Result<()> {
    let mut times = Times::default();
    for round in 0..sizes.changes {
        let number = round * 7 % sizes.templates;
        let changed = template(NAMESPACE, number, round + 1);
        let path = path(NAMESPACE, number);
        let started = Instant::now();
        hub.apply(&path, &changed).await?;
        // One after the other: who looks at all of them all the time slows them down.
        for target in targets {
            until_has(target, &path, image(&changed)).await?;
        }
        times.push(started.elapsed().as_secs_f64() * 1_000.0);
        tokio::time::sleep(PAUSE).await;
    }
    times.set("distribute_change", figures);
    let slow = times.quantile(0.99);
    figures.line(
        "distribution, a change in all members",
        format!(
            "{}; at most {CHANGE_MILLISECONDS} ms: {}",
            times.text(),
            verdict(slow <= CHANGE_MILLISECONDS)
        ),
    );
    Ok(())
}

async fn until_has(target: &Objects, path: &str, wanted: &Value) -> Result<()> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let found = target.get(path).await?;
        if image(&found) == wanted {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{path} does not arrive");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A restart writes nothing.
async fn restart(operator: &Operator, wanted: f64, figures: &mut Figures) -> Result<()> {
    let started = Instant::now();
    operator.restart_until_ready(DEADLINE).await?;
    until_applied(operator, wanted)
        .await
        .context("after a restart")?;
    let seconds = started.elapsed().as_secs_f64();
    let writes = operator.count_of(WRITES, "").await?;
    figures.set("distribute_restart_seconds", seconds);
    figures.set("distribute_restart_writes", writes);
    figures.line(
        "distribution, restart",
        format!(
            "{writes:.0} writes, all known again after {seconds:.1} s; no write: {}",
            verdict(writes < 0.5)
        ),
    );
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "megabytes for people")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
