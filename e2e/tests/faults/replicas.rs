//! Three replicas share six clusters during continuous writes; one is killed, one is paused, one is
//! stopped. At the end the index must equal the objects of the clusters. No test asserts durations.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use anyhow::ensure;
use e2e::{
    churn::{Churn, Running},
    fleet::{Fleet, OpenSearchKind, Options, Registration, unique},
    objects::Objects,
    operator::Operator,
    oracle::Oracle,
    poll::always,
    query_api::{bare_names_of, list_with_warnings},
    scenario::{
        Registry, SECRETS, clusters_read_by, prepare, register, start_operator, until, until_equal,
    },
    test_result::Tested,
};
use serde_json::json;

/// Members, each of which is registered under two names.
const MEMBERS: usize = 3;
const REPLICAS: [&str; 3] = ["replica-0", "replica-1", "replica-2"];
const NAMES: usize = 100;
/// Writes per second, per member.
const RATE: u32 = 30;
const STABLE_PERIOD: Duration = Duration::from_secs(5);
/// Longer than the duration of a Lease.
const LONGER_THAN_A_LEASE: Duration = Duration::from_secs(12);
/// How long a replica may take to stop.
const STOP: Duration = Duration::from_secs(30);

/// The servers and registry of every test.
struct Fixture {
    fleet: Fleet,
    clusters: BTreeMap<String, usize>,
    registry: Registry,
    churns: Vec<Churn>,
}

impl Fixture {
    async fn new() -> Self {
        let options = Options::of(MEMBERS, OpenSearchKind::Plain);
        let fleet = Fleet::start(options).await.unwrap();
        prepare(&fleet).await.unwrap();
        let hub = Objects::of(fleet.control_plane()).unwrap();
        let mut clusters = BTreeMap::new();
        let mut churns = Vec::new();
        for number in 1..=MEMBERS {
            let member = fleet.member(number);
            let other_name = format!("{}-too", member.name());
            register(&hub, &Registration::new(member, &other_name, SECRETS))
                .await
                .unwrap();
            clusters.extend([(member.name().to_owned(), number), (other_name, number)]);
            let churn = Churn::new(member, &unique("replicas"), NAMES, RATE)
                .await
                .unwrap()
                .seeded(number as u64);
            churn.begin().await.unwrap();
            churns.push(churn);
        }
        let names: Vec<&str> = clusters.keys().map(String::as_str).collect();
        let kinds = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }, { "apiVersion": "v1", "kind": "Secret" }]);
        let registry = Registry::in_fleet(&fleet, "replicas", &names, &kinds).unwrap();
        registry.apply().await.unwrap();
        Self {
            fleet,
            clusters,
            registry,
            churns,
        }
    }

    async fn start(&self, name: &str) -> Operator {
        start_operator(
            &self.fleet,
            &["--replicas", &format!("--replica-name={name}")],
        )
        .await
        .unwrap()
    }

    fn oracle(&self) -> Oracle {
        let clusters = self.clusters.iter();
        let clusters = clusters.map(|(name, number)| (&**name, self.fleet.member(*number)));
        let collections = ["api/v1/configmaps", "api/v1/secrets"];
        self.registry.oracle().expects_all(clusters, &collections)
    }

    fn start_churn(&self) -> Vec<Running> {
        self.churns.iter().map(Churn::start).collect()
    }

    /// Waits until every cluster is read by exactly one of these replicas, and each reads at least
    /// one: the first replica reads all clusters until it observes the others. Returns how many
    /// each reads.
    async fn until_shared(&self, replicas: &[&Operator]) -> Vec<usize> {
        until("every cluster is read by exactly one replica", || async {
            let mut counts = Vec::new();
            let mut all = BTreeSet::new();
            for replica in replicas {
                let read = clusters_read_by(replica).await?;
                counts.push(read.len());
                all.extend(read);
            }
            ensure!(
                counts.iter().sum::<usize>() == self.clusters.len(),
                "{counts:?}"
            );
            ensure!(all.iter().eq(self.clusters.keys()), "{all:?}");
            ensure!(counts.iter().all(|count| *count > 0), "{counts:?}");
            Ok(counts)
        })
        .await
        .unwrap()
    }
}

async fn stop(churns: Vec<Running>) -> Tested {
    for churn in churns {
        churn.stop().await?;
    }
    Ok(())
}

async fn until_written(churns: &[Running], writes: u64) {
    for churn in churns {
        churn.goes_on_for(writes).await;
    }
}

#[tokio::test]
async fn replicas_share_clusters_and_take_over_from_a_killed_paused_or_stopped_one() -> Tested {
    let fixture = Fixture::new().await;
    let [zero, one, two] = [
        fixture.start(REPLICAS[0]).await,
        fixture.start(REPLICAS[1]).await,
        fixture.start(REPLICAS[2]).await,
    ];
    fixture.registry.until_ready().await?;
    let counts = fixture.until_shared(&[&zero, &one, &two]).await;
    eprintln!("shared: {counts:?}");
    until_equal(&fixture.oracle()).await?;

    // Every replica serves queries over all clusters.
    for replica in [&zero, &one, &two] {
        let got = replica.run_command("get configmaps -A -o name").await?;
        assert_eq!(got.code, 0, "{got:?}");
        let expected = one.run_command("get configmaps -A -o name").await?;
        assert_eq!(got.out, expected.out);
    }
    let verified = zero.run_command("verify").await?;
    assert!(
        verified.out.contains("replica-"),
        "those that others read are named: {verified:?}"
    );

    // Killed during writes: the others read its clusters.
    let churns = fixture.start_churn();
    until_written(&churns, 60).await;
    let killed = Instant::now();
    zero.kill();
    let counts = fixture.until_shared(&[&one, &two]).await;
    eprintln!(
        "taken over {:.1} s after the kill: {counts:?}",
        killed.elapsed().as_secs_f64()
    );
    until_written(&churns, 60).await;
    stop(churns).await?;
    until_equal(&fixture.oracle()).await?;
    fixture.registry.until_ready().await?;

    // Paused for longer than its Lease: when it resumes, it must not write what it had read before.
    zero.restart()?;
    fixture.until_shared(&[&zero, &one, &two]).await;
    let churns = fixture.start_churn();
    until_written(&churns, 60).await;
    two.process().pause()?;
    tokio::time::sleep(LONGER_THAN_A_LEASE).await;
    fixture.until_shared(&[&zero, &one]).await;
    until_written(&churns, 60).await;
    stop(churns).await?;
    until_equal(&fixture.oracle()).await?;
    two.process().resume()?;
    always("nothing comes back", STABLE_PERIOD, || async {
        fixture.oracle().compare().await.map(drop)
    })
    .await?;
    fixture.until_shared(&[&zero, &one, &two]).await;
    fixture.registry.until_ready().await?;

    // One is stopped in an orderly way during writes; then a deleted registry must leave nothing
    // behind in any replica's clusters.
    let churns = fixture.start_churn();
    until_written(&churns, 60).await;
    assert!(one.terminate(STOP).await?.success());
    fixture.until_shared(&[&zero, &two]).await;
    until_written(&churns, 30).await;
    stop(churns).await?;
    until_equal(&fixture.oracle()).await?;
    Ok(fixture.registry.remove().await?)
}

#[tokio::test]
async fn every_replica_warns_about_kinds_that_a_member_refuses() -> Tested {
    let options = Options::of(1, OpenSearchKind::Plain);
    let fleet = Fleet::start(options).await?;
    prepare(&fleet).await?;
    let (member, hub) = (fleet.member(1), Objects::of(fleet.control_plane())?);
    let objects = Objects::of(member)?;
    objects
        .apply_config_map("default", "seen", &json!({ "a": "b" }))
        .await?;
    let role = "reader";
    objects.grant(role, &["namespaces", "configmaps"]).await?;
    let token = objects.service_account_token_with(role, role).await?;
    // With four clusters it is unlikely that one of two replicas reads none.
    let clusters = ["half-1", "half-2", "half-3", "half-4"];
    for cluster in clusters {
        register(
            &hub,
            &Registration::with_token(member, cluster, SECRETS, &token),
        )
        .await?;
    }
    let kinds = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }, { "apiVersion": "v1", "kind": "Secret" }]);
    let registry = Registry::in_fleet(&fleet, "half", &clusters, &kinds)?;
    registry.apply().await?;
    let mut replicas = Vec::new();
    for name in &REPLICAS[..2] {
        replicas.push(
            start_operator(&fleet, &["--replicas", &format!("--replica-name={name}")]).await?,
        );
    }
    let until_warned = async |replicas: &[Operator], expected: &[String]| {
        for replica in replicas {
            until(
                &format!("every replica warns of {expected:?} and nothing else"),
                || async {
                    let (maps, warnings) = list_with_warnings(
                        replica,
                        "api/v1/configmaps?fieldSelector=metadata.name%3Dseen",
                    )
                    .await?;
                    ensure!(
                        bare_names_of(&maps)?.len() == clusters.len() && warnings.is_empty(),
                        "{warnings:?} {maps}"
                    );
                    let (_, warnings) = list_with_warnings(replica, "api/v1/secrets").await?;
                    ensure!(warnings == expected, "{warnings:?}");
                    Ok(())
                },
            )
            .await
            .unwrap();
        }
    };
    let warning =
        |cluster: &str| format!("299 - \"secrets of cluster {cluster} are not shown (Forbidden)\"");
    until_warned(&replicas, &clusters.map(warning)).await;
    objects
        .grant(role, &["namespaces", "configmaps", "secrets"])
        .await?;
    registry.until_ready().await?;
    until_warned(&replicas, &[]).await;
    let mut read = Vec::new();
    for replica in &replicas {
        read.push(clusters_read_by(replica).await?.len());
    }
    eprintln!("read by each: {read:?}");

    // The remaining replica knows the state of the other's clusters, so it does not warn.
    let left = replicas.pop().unwrap();
    assert!(left.terminate(STOP).await?.success());
    until_warned(&replicas, &[]).await;
    Ok(registry.remove().await?)
}
