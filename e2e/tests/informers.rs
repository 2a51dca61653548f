//! Unmodified informers of client-go, by way of the control plane's aggregation layer, which cuts ordinary requests after a minute: they hold what
//! the members hold, for longer than that, and never list again.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use e2e::churn::Churn;
use e2e::fleet::{Fleet, OpenSearchKind, Options, unique};
use e2e::informer::{Informer, State, Target};
use e2e::objects::Objects;
use e2e::operator::API_PORT;
use e2e::poll::eventually;
use e2e::scenario::{PATIENCE, Registry, prepare, start_operator};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

const PROXY: &str = "/apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxy";
/// Names in each member, and writes per second.
const NAMES: usize = 50;
const RATE: u32 = 15;
/// Longer than the minute after which the aggregation layer ends requests that it does not take for watches.
const WATCHED: Duration = Duration::from_secs(75);

/// UID and the member's own version of each object, by namespace and name.
type Held = BTreeMap<String, (String, String)>;

async fn there(members: &[Objects], namespaces: &[String]) -> Result<Held> {
    let mut held = Held::new();
    for (member, namespace) in members.iter().zip(namespaces) {
        let list = member.get(&format!("api/v1/namespaces/{namespace}/configmaps")).await?;
        for item in list["items"].as_array().context("no items")? {
            let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default().to_owned();
            held.insert(format!("{namespace}/{}", text("name")), (text("uid"), text("resourceVersion")));
        }
    }
    Ok(held)
}

fn held(state: &State, namespaces: &[String]) -> Held {
    let ours = state.objects.iter().filter(|(path, _)| namespaces.iter().any(|own| path.starts_with(&format!("{own}/"))));
    let known = ours.map(|(path, object)| {
        let own = object.annotations.as_ref().and_then(|all| all.get("fleetdex.io/resource-version").cloned());
        (path.clone(), (object.uid.clone(), own.unwrap_or_default()))
    });
    known.collect()
}

#[tokio::test]
async fn informers_hold_what_the_members_hold_and_never_list_again() {
    let fleet = Fleet::start(Options { members: 2, opensearch: OpenSearchKind::Plain, ..Options::default() }).await.unwrap();
    prepare(&fleet).await.unwrap();
    let hub = Objects::of(fleet.control_plane()).unwrap();
    hub.create_namespace("search").await.unwrap();
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "fleetdex" },
        "spec": { "type": "ExternalName", "externalName": "localhost" } });
    hub.apply("api/v1/namespaces/search/services/fleetdex", &service).await.unwrap();
    let port = format!("--api-service-port={API_PORT}");
    let _operator = start_operator(&fleet, &["--api-service=search/fleetdex", &port]).await.unwrap();
    let namespaces = [unique("informed"), unique("informed")];
    let (mut members, mut churns) = (Vec::new(), Vec::new());
    for (number, namespace) in (1..=2).zip(&namespaces) {
        let member = fleet.member(number).unwrap();
        members.push(Objects::of(member).unwrap());
        let churn = Churn::new(member, namespace, NAMES, RATE).await.unwrap().seeded(number as u64);
        churn.begin().await.unwrap();
        churns.push(churn);
    }
    let kinds = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    let registry = Registry::in_fleet(&fleet, "informed", &["member1", "member2"], &kinds).unwrap();
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    eventually("the fleet is served through the control plane", PATIENCE, || async {
        hub.get(&format!("{}/api/v1/configmaps", PROXY.trim_start_matches('/'))).await.map(drop)
    })
    .await
    .unwrap();

    let ca_file = fleet.dir().join("informer-ca.pem");
    fs::write(&ca_file, fleet.control_plane().ca_pem()).unwrap();
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
        churn.stop().await.unwrap();
    }
    let wanted = there(&members, &namespaces).await.unwrap();
    assert!(wanted.len() > NAMES / 2, "{} objects: too few to say anything", wanted.len());
    for informer in &mut informers {
        let deadline = Instant::now() + PATIENCE;
        let state = loop {
            let state = informer.state().await.unwrap();
            if held(&state, &namespaces) == wanted {
                break state;
            }
            assert!(Instant::now() < deadline, "{} held, {} there: {:?}", state.objects.len(), wanted.len(), state.errors);
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        assert!(state.synced && state.updated > 0 && state.deleted > 0, "{state:?}");
        assert_eq!(state.errors, Vec::<String>::new(), "lists and watches that failed");
    }
}
