//! Unmodified client-go informers match the members: through the control plane's aggregation layer
//! for longer than its one-minute timeout of ordinary requests, without listing again; and at one
//! of several replicas, whichever replicas read the members.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{collections::BTreeMap, fs, time::Duration};

use anyhow::{Context, Result, ensure};
use e2e::{
    churn::Churn,
    fleet::{Fleet, OpenSearchKind, Options, unique},
    informer::{Informer, State, Target},
    objects::Objects,
    operator::{API_PORT, Operator},
    query_api::make_service,
    scenario::{DEADLINE, Registry, clusters_read_by, prepare, start_operator, until},
    test_result::Tested,
};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

const PROXY: &str = "/apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxy";
/// Names in each member, and writes per second.
const NAMES: usize = 50;
const RATE: u32 = 15;
/// Longer than the minute after which the aggregation layer ends requests other than watches.
const WATCHED: Duration = Duration::from_secs(75);
/// Writes in each member before and after a replica stops.
const WRITES: u64 = 40;
/// How long a replica may take to stop.
const STOP: Duration = Duration::from_secs(30);

/// UID and the member's own version of each object, by namespace and name.
type ObjectVersions = BTreeMap<String, (String, String)>;

async fn stored_in_members(members: &[Objects], namespaces: &[String]) -> Result<ObjectVersions> {
    let mut held = ObjectVersions::new();
    for (member, namespace) in members.iter().zip(namespaces) {
        let list = member
            .get(&format!("api/v1/namespaces/{namespace}/configmaps"))
            .await?;
        for item in list["items"].as_array().context("no items")? {
            let text = |field: &str| {
                item["metadata"][field]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            held.insert(
                format!("{namespace}/{}", text("name")),
                (text("uid"), text("resourceVersion")),
            );
        }
    }
    Ok(held)
}

fn held(state: &State, namespaces: &[String]) -> ObjectVersions {
    let ours = state.objects.iter().filter(|(path, _)| {
        namespaces
            .iter()
            .any(|own| path.starts_with(&format!("{own}/")))
    });
    let known = ours.map(|(path, object)| {
        let own = object
            .annotations
            .as_ref()
            .and_then(|all| all.get("fleetdex.io/resource-version").cloned());
        (path.clone(), (object.uid.clone(), own.unwrap_or_default()))
    });
    known.collect()
}

#[tokio::test]
async fn informers_match_the_members_without_listing_again() -> Tested {
    let fleet = Fleet::start(Options::of(2, OpenSearchKind::Plain)).await?;
    prepare(&fleet).await?;
    let hub = Objects::of(fleet.control_plane())?;
    make_service(&hub).await?;
    let port = format!("--api-service-port={API_PORT}");
    let _operator = start_operator(&fleet, &["--api-service=search/fleetdex", &port]).await?;
    let namespaces = [unique("informed"), unique("informed")];
    let (mut members, mut churns) = (Vec::new(), Vec::new());
    for (number, namespace) in (1..=2).zip(&namespaces) {
        let member = fleet.member(number);
        members.push(Objects::of(member)?);
        let churn = Churn::new(member, namespace, NAMES, RATE)
            .await?
            .seeded(number as u64);
        churn.begin().await?;
        churns.push(churn);
    }
    let kinds = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    let registry = Registry::in_fleet(&fleet, "informed", &["member1", "member2"], &kinds)?;
    registry.apply_until_ready().await?;
    until("the fleet is served through the control plane", || async {
        hub.get(&format!(
            "{}/api/v1/configmaps",
            PROXY.trim_start_matches('/')
        ))
        .await
        .map(drop)
    })
    .await?;

    let ca_file = fleet.dir().join("informer-ca.pem");
    fs::write(&ca_file, fleet.control_plane().ca_pem())?;
    let mut informers = Vec::new();
    for streams_lists in [false, true] {
        let target = Target {
            server: format!("{}{PROXY}", fleet.control_plane().url()),
            token: fleet.control_plane().token().to_owned(),
            ca_file: ca_file.clone(),
            resource: "v1/configmaps".to_owned(),
            streams_lists,
        };
        informers.push(Informer::start(fleet.dir(), &target).unwrap());
    }
    let until = Instant::now() + WATCHED;
    let running: Vec<_> = churns.iter().map(Churn::start).collect();
    sleep_until(until).await;
    for churn in running {
        churn.stop().await?;
    }
    let expected = stored_in_members(&members, &namespaces).await?;
    assert!(
        expected.len() > NAMES / 2,
        "{} objects: too few to say anything",
        expected.len()
    );
    for informer in &mut informers {
        let state = until_held(informer, &expected, &namespaces).await?;
        assert!(
            state.synced && state.updated > 0 && state.deleted > 0,
            "{state:?}"
        );
        assert_eq!(
            state.errors,
            Vec::<String>::new(),
            "lists and watches that failed"
        );
    }
    Ok(())
}

/// Describes the objects that an informer has in addition, lacks, or has in another version.
fn difference(held: &ObjectVersions, expected: &ObjectVersions) -> String {
    let not_in = |some: &ObjectVersions, other: &ObjectVersions| {
        let missing: Vec<String> = some
            .iter()
            .filter(|(path, _)| !other.contains_key(*path))
            .map(|(path, object)| format!("{path} {object:?}"))
            .collect();
        missing.join(", ")
    };
    let differs = |(path, object): (&String, &(String, String))| {
        expected
            .get(path)
            .filter(|other| *other != object)
            .map(|other| format!("{path} {object:?} for {other:?}"))
    };
    let other: Vec<String> = held.iter().filter_map(differs).collect();
    format!(
        "not there: [{}]; lacking: [{}]; other: [{}]",
        not_in(held, expected),
        not_in(expected, held),
        other.join(", ")
    )
}

/// Waits until an informer holds the expected objects.
async fn until_held(
    informer: &mut Informer,
    expected: &ObjectVersions,
    namespaces: &[String],
) -> Tested<State> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let state = informer.state().await?;
        if held(&state, namespaces) == *expected {
            return Ok(state);
        }
        let held = held(&state, namespaces);
        assert!(
            Instant::now() < deadline,
            "{}; errors: {:?}",
            difference(&held, expected),
            state.errors
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Two replicas that read different members, and an informer at each.
struct Replicas {
    fleet: Fleet,
    members: Vec<Objects>,
    namespaces: Vec<String>,
    churns: Vec<Churn>,
}

impl Replicas {
    async fn start(&self, name: &str) -> Operator {
        let port = format!("--api-service-port={API_PORT}");
        let name = format!("--replica-name={name}");
        start_operator(
            &self.fleet,
            &["--api-service=search/fleetdex", &port, "--replicas", &name],
        )
        .await
        .unwrap()
    }

    fn start_informer(&self, replica: &Operator) -> Tested<Informer> {
        let target = Target {
            server: format!("http://{}{PROXY}", replica.api_address()),
            token: replica.token()?,
            ca_file: self.fleet.dir().join("informer-ca.pem"),
            resource: "v1/configmaps".to_owned(),
            streams_lists: false,
        };
        Ok(Informer::start(self.fleet.dir(), &target).unwrap())
    }

    /// Waits until each member is read, and returns its replica.
    async fn until_shared(&self, replicas: &[&Operator]) {
        until("every member is read by one replica", || async {
            let mut counts = Vec::new();
            for replica in replicas {
                counts.push(clusters_read_by(replica).await?.len());
            }
            ensure!(
                counts.iter().sum::<usize>() == self.members.len()
                    && counts.iter().all(|count| *count > 0),
                "{counts:?}"
            );
            Ok(())
        })
        .await
        .unwrap();
    }

    async fn write_for(&self, while_writing: impl Future<Output = ()>) {
        let running: Vec<_> = self.churns.iter().map(Churn::start).collect();
        for churn in &running {
            churn.goes_on_for(WRITES).await;
        }
        while_writing.await;
        for churn in &running {
            churn.goes_on_for(WRITES).await;
        }
        for churn in running {
            churn.stop().await.unwrap();
        }
    }

    async fn expected(&self) -> ObjectVersions {
        stored_in_members(&self.members, &self.namespaces)
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn an_informer_at_one_replica_matches_the_members_when_other_replicas_stop_or_die() -> Tested
{
    let fleet = Fleet::start(Options::of(3, OpenSearchKind::Plain)).await?;
    prepare(&fleet).await?;
    fs::write(
        fleet.dir().join("informer-ca.pem"),
        fleet.control_plane().ca_pem(),
    )?;
    Objects::of(fleet.control_plane())?
        .create_namespace("search")
        .await?;
    let mut scene = Replicas {
        fleet,
        members: Vec::new(),
        namespaces: Vec::new(),
        churns: Vec::new(),
    };
    for number in 1..=3 {
        let (member, namespace) = (scene.fleet.member(number), unique("informed"));
        scene.members.push(Objects::of(member)?);
        let churn = Churn::new(member, &namespace, NAMES, RATE)
            .await?
            .seeded(number as u64);
        churn.begin().await?;
        scene.churns.push(churn);
        scene.namespaces.push(namespace);
    }
    let kinds = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    let registry = Registry::in_fleet(
        &scene.fleet,
        "informed",
        &["member1", "member2", "member3"],
        &kinds,
    )?;
    registry.apply().await?;
    let (zero, one) = (
        scene.start("replica-0").await,
        scene.start("replica-1").await,
    );
    registry.until_ready().await?;
    scene.until_shared(&[&zero, &one]).await;
    // Each verifies all members: those that it reads, and those of which it asks the other.
    for replica in [&zero, &one] {
        let verified = replica.run_command("verify").await?;
        assert_eq!(verified.code, 0, "{verified:?}");
        for member in ["member1", "member2", "member3"] {
            assert!(verified.out.contains(member), "{verified:?}");
        }
    }

    let mut informers = [scene.start_informer(&zero)?, scene.start_informer(&one)?];
    for informer in &mut informers {
        until_held(informer, &scene.expected().await, &scene.namespaces).await?;
    }
    scene.write_for(async {}).await;
    let expected = scene.expected().await;
    for informer in &mut informers {
        let state = until_held(informer, &expected, &scene.namespaces).await?;
        assert!(state.updated > 0 && state.deleted > 0, "{state:?}");
        assert_eq!(
            state.errors,
            Vec::<String>::new(),
            "lists and watches that failed"
        );
    }

    // An orderly stop of a replica ends no watch at others.
    let [mut informer, _] = informers;
    scene
        .write_for(async { assert!(one.terminate(STOP).await.unwrap().success()) })
        .await;
    let state = until_held(&mut informer, &scene.expected().await, &scene.namespaces).await?;
    assert_eq!(
        state.errors,
        Vec::<String>::new(),
        "lists and watches that failed"
    );

    // One replica starts, and one is killed: no change is missed.
    one.restart()?;
    scene.until_shared(&[&zero, &one]).await;
    scene.write_for(async { one.kill() }).await;
    registry.until_ready().await?;
    until_held(&mut informer, &scene.expected().await, &scene.namespaces).await?;
    Ok(())
}
