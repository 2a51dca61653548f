//! Distribution beside bare server-side apply: how fast many templates reach their members, what a
//! restart writes, how soon a change has arrived everywhere, and what it takes to keep them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

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
};

const NAMESPACE: &str = "distribute";
/// The namespace of the objects that are applied without Fleetdex.
const BARE: &str = "bare";
/// Requests under way to each member, of both.
const CONCURRENT: usize = 16;
/// Least ratio of the rate to that of bare applies.
const RATIO: f64 = 0.9;
/// Limit of the 99th percentile of the time until a change has arrived everywhere.
const CHANGE_MILLISECONDS: f64 = 300.0;
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
    hub.apply(
        "apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies/all",
        &policy(),
    )
    .await?;
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

async fn apply_all(objects: &Objects, namespace: &str, templates: usize) -> Result<()> {
    stream::iter(0..templates)
        .map(|number| async move {
            let object = template(namespace, number, 0);
            objects.apply(&path(namespace, number), &object).await
        })
        .buffer_unordered(CONCURRENT)
        .try_for_each(|_| async { Ok(()) })
        .await
}

fn path(namespace: &str, number: usize) -> String {
    format!("apis/apps/v1/namespaces/{namespace}/deployments/web-{number:05}")
}

fn template(namespace: &str, number: usize, version: usize) -> Value {
    let name = format!("web-{number:05}");
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name, "team": "shop"}},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "web", "image": format!("registry.example.com/shop/web:{version}"),
                    "env": [{"name": "LEVEL", "value": "info"}, {"name": "REGION", "value": "north"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                }]},
            },
        },
    })
}

fn policy() -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "all"},
        "spec": {
            "resourceSelectors": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": NAMESPACE},
            ],
            "placement": {},
        },
    })
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
        let image = &changed["spec"]["template"]["spec"]["containers"][0]["image"];
        let path = path(NAMESPACE, number);
        let started = Instant::now();
        hub.apply(&path, &changed).await?;
        let arrived = targets.iter().map(|target| until_has(target, &path, image));
        futures::future::try_join_all(arrived).await?;
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

async fn until_has(target: &Objects, path: &str, image: &Value) -> Result<()> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let found = target.get(path).await?;
        if found["spec"]["template"]["spec"]["containers"][0]["image"] == *image {
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
