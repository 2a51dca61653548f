//! A hundred members, twenty of which fail in different ways: events of the other eighty are
//! neither late nor lost.

#![expect(clippy::unwrap_used, reason = "parts of tests")]

use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use fakes::{
    apiserver::{Extent, Fault, Options, Server},
    opensearch::OpenSearch,
};
use fleetdex_clusters::{
    Member,
    bearer::Bearer,
    connect::{Connect, ConnectError},
    credentials::Credentials,
};
use fleetdex_core::model::{ClusterName, IndexPrefix};
use fleetdex_operator::RegistryView;
use fleetdex_store::opensearch::PlacementRules;
use fleetdex_sync::pipeline::PipelineLimits;
use fleetdex_webhooks::queue::QueueLimits;
use http::{Request, Response};
use http_body_util::Full;
use kube::{Client, client::Body};
use serde_json::json;
use simulation::{
    interpreter::Interpreter,
    operator::{DesiredState, InProcess, Operator, Surroundings, control_plane},
    oracle::stored,
};
use tokio::time::{Instant, sleep};
use tower::{BoxError, service_fn};

const MEMBERS: usize = 100;
const BROKEN: usize = 20;
/// Number of rounds of writes to every healthy member.
const ROUNDS: usize = 60;
const FAILURES: [Failure; 5] = [
    Failure::Dns,
    Failure::Blackhole,
    Failure::Unauthorized,
    Failure::Tls,
    Failure::Slow,
];

/// How a member fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// Its address does not resolve.
    Dns,
    /// It never responds.
    Blackhole,
    /// It rejects the token.
    Unauthorized,
    /// Its certificate is not trusted.
    Tls,
    /// Every response takes twenty seconds.
    Slow,
}

/// Connects to members, some of which fail.
struct Fleet {
    healthy: InProcess,
    broken: BTreeMap<ClusterName, Failure>,
}

#[async_trait]
impl Connect for Fleet {
    async fn connect(
        &self,
        member: &Member,
        credentials: &Credentials,
        bearer: &Bearer,
    ) -> Result<Client, ConnectError> {
        let client = self.healthy.connect(member, credentials, bearer).await?;
        Ok(match self.broken.get(&member.name) {
            Some(failure @ (Failure::Dns | Failure::Tls)) => unreachable(*failure),
            Some(Failure::Slow) => slow(client),
            Some(Failure::Blackhole | Failure::Unauthorized) | None => client,
        })
    }
}

fn unreachable(failure: Failure) -> Client {
    let service = service_fn(move |_: Request<Body>| async move {
        let error: BoxError = match failure {
            Failure::Tls => {
                rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer).into()
            }
            _ => {
                io::Error::other("failed to lookup address information: Name or service not known")
                    .into()
            }
        };
        Err::<Response<Full<Bytes>>, _>(error)
    });
    Client::new(service, "default")
}

fn slow(client: Client) -> Client {
    let service = service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            sleep(Duration::from_secs(20)).await;
            Ok::<_, BoxError>(client.send(request).await?)
        }
    });
    Client::new(service, "default")
}

fn name(number: usize) -> ClusterName {
    format!("member{number}").parse().unwrap()
}

fn registry() -> RegistryView {
    let spec = json!({
        "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap" }],
        "backendStore": { "openSearch": { "addresses": ["http://opensearch.example.com:9200"] } },
    });
    RegistryView {
        name: "all".into(),
        uid: "all".into(),
        created: None,
        spec: serde_json::from_value(spec).unwrap(),
    }
}

/// The result of a run.
struct FleetResult {
    /// The latency from each write in a healthy member to its document, sorted.
    latencies: Vec<Duration>,
    /// Number of members that have a document.
    stored: usize,
}

/// Runs a fleet under writes, with or without the broken members.
async fn run(with_broken: bool) -> FleetResult {
    fastrand::seed(7);
    let numbers = if with_broken {
        0..MEMBERS
    } else {
        BROKEN..MEMBERS
    };
    let servers: BTreeMap<ClusterName, Server> = numbers
        .clone()
        .map(|number| (name(number), Server::new(Options::new(number as u64 + 1))))
        .collect();
    let broken: BTreeMap<ClusterName, Failure> = numbers
        .clone()
        .filter(|number| *number < BROKEN)
        .map(|number| (name(number), FAILURES[number % FAILURES.len()]))
        .collect();
    let forever = Extent::For(Duration::from_hours(24));
    for (cluster, failure) in &broken {
        match failure {
            Failure::Blackhole => servers[cluster].inject(Fault::Hang, forever),
            Failure::Unauthorized => servers[cluster].inject(Fault::Unauthorized, forever),
            Failure::Dns | Failure::Tls | Failure::Slow => {}
        }
    }
    let hub = control_plane(1_000).unwrap();
    let store = OpenSearch::new(1);
    let surroundings = Surroundings {
        hub,
        connect: Arc::new(Fleet {
            healthy: InProcess::honest(servers.clone()),
            broken: broken.clone(),
        }),
        store: store.service(),
        limits: PipelineLimits::default(),
        placement: PlacementRules::default(),
        audit_interval: None,
        interpreter: Interpreter::new(1),
        questions: QueueLimits::default(),
    };
    let desired = DesiredState {
        members: servers.keys().cloned().collect(),
        registries: vec![registry()],
        store_locations: Vec::new(),
        rules: Arc::default(),
    };
    let operator = Operator::start(surroundings, desired);
    // Enough for the members that respond, but not for waiting for the others one after the other.
    sleep(Duration::from_secs(10)).await;

    let healthy: Vec<&ClusterName> = servers
        .keys()
        .filter(|cluster| !broken.contains_key(*cluster))
        .collect();
    let mut latencies = Vec::new();
    for round in 0..ROUNDS {
        latencies.extend(write_and_wait(&servers, &healthy, &store, round).await);
    }
    assert!(!operator.has_ended());
    operator.stop().await.unwrap();
    latencies.sort();
    let prefix = IndexPrefix::default();
    let has_documents =
        |cluster: &&ClusterName| !stored(&store, prefix.cluster_alias(cluster).as_str()).is_empty();
    FleetResult {
        latencies,
        stored: servers.keys().filter(has_documents).count(),
    }
}

/// Writes an object to every healthy member, and waits until each has its document.
async fn write_and_wait(
    servers: &BTreeMap<ClusterName, Server>,
    healthy: &[&ClusterName],
    store: &OpenSearch,
    round: usize,
) -> Vec<Duration> {
    let prefix = IndexPrefix::default();
    let mut waiting = Vec::new();
    for cluster in healthy {
        let object = json!({ "metadata": { "name": format!("m{round}"), "namespace": "default" }, "spec": { "round": round } });
        let written = servers[*cluster].apply("configmaps", object).unwrap();
        waiting.push((*cluster, format!("v1/ConfigMap/{}", written.uid)));
    }
    let started = Instant::now();
    let mut latencies = Vec::new();
    while !waiting.is_empty() {
        assert!(
            started.elapsed() < Duration::from_mins(1),
            "round {round}: {} of {} are late",
            waiting.len(),
            healthy.len()
        );
        sleep(Duration::from_millis(10)).await;
        waiting.retain(|(cluster, id)| {
            let is_there = store
                .documents(prefix.cluster_alias(cluster).as_str())
                .iter()
                .any(|document| document.id == *id);
            if is_there {
                latencies.push(started.elapsed());
            }
            !is_there
        });
    }
    latencies
}

#[tokio::test(start_paused = true)]
async fn eighty_members_are_indexed_as_fast_beside_twenty_broken_ones_as_without() {
    let (beside, alone) = (run(true).await, run(false).await);
    assert_eq!(
        (beside.stored, alone.stored),
        (MEMBERS - BROKEN, MEMBERS - BROKEN)
    );
    assert_eq!(beside.latencies.len(), ROUNDS * (MEMBERS - BROKEN));
    let latest = beside.latencies.last().copied().unwrap_or_default();
    assert!(latest < Duration::from_secs(5), "{latest:?}");
    for quantile in [50, 99] {
        let of = |result: &FleetResult| {
            result.latencies[result.latencies.len() * quantile / 100].as_secs_f64()
        };
        let (with, without) = (of(&beside), of(&alone));
        // Simulated time moves in steps of ten milliseconds here.
        assert!(
            with <= without * 1.1 + 0.02,
            "p{quantile}: {with} s beside broken members, {without} s without"
        );
    }
}

/// A member with one object of each of two kinds, and an operator that indexes it in an OpenSearch.
struct TwoKinds {
    server: Server,
    store: OpenSearch,
    operator: Operator,
}

impl TwoKinds {
    fn start(prepare: impl FnOnce(&Server)) -> Self {
        let server = Server::new(Options::new(1));
        for resource in ["configmaps", "secrets"] {
            server
                .apply(
                    resource,
                    json!({ "metadata": { "name": "a", "namespace": "default" } }),
                )
                .unwrap();
        }
        prepare(&server);
        let hub = control_plane(1_000).unwrap();
        let store = OpenSearch::new(1);
        let surroundings = Surroundings {
            hub,
            connect: Arc::new(InProcess::honest(BTreeMap::from([(
                name(1),
                server.clone(),
            )]))),
            store: store.service(),
            limits: PipelineLimits::default(),
            placement: PlacementRules::default(),
            audit_interval: None,
            interpreter: Interpreter::new(1),
            questions: QueueLimits::default(),
        };
        let operator = Operator::start(surroundings, Self::desired("fleetdex"));
        Self {
            server,
            store,
            operator,
        }
    }

    /// Returns one registry of both kinds with this index prefix.
    fn desired(prefix: &str) -> DesiredState {
        let spec = json!({
            "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap" }, { "apiVersion": "v1", "kind": "Secret" }],
            "backendStore": { "openSearch": { "addresses": ["http://opensearch.example.com:9200"], "indexPrefix": prefix } },
        });
        let both = RegistryView {
            name: "both".into(),
            uid: "both".into(),
            created: None,
            spec: serde_json::from_value(spec).unwrap(),
        };
        DesiredState {
            members: vec![name(1)],
            registries: vec![both],
            store_locations: Vec::new(),
            rules: Arc::default(),
        }
    }

    fn forbid_secrets(server: &Server) {
        server.inject(
            Fault::Forbidden("secrets".into()),
            Extent::For(Duration::from_hours(24)),
        );
    }

    /// Returns the kinds that queries find under a prefix.
    fn kinds(&self, prefix: &str) -> Vec<String> {
        let prefix: IndexPrefix = prefix.parse().unwrap();
        let documents = stored(&self.store, prefix.cluster_alias(&name(1)).as_str());
        documents
            .into_keys()
            .map(|id| id.split('/').nth(1).unwrap().to_owned())
            .collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_kind_hides_no_other_kind_and_appears_once_it_is_complete() {
    fastrand::seed(7);
    let world = TwoKinds::start(TwoKinds::forbid_secrets);
    // Long before any timeout.
    sleep(Duration::from_secs(20)).await;
    assert_eq!(world.kinds("fleetdex"), ["ConfigMap"]);
    sleep(Duration::from_mins(20)).await;
    assert_eq!(world.kinds("fleetdex"), ["ConfigMap"]);
    world.server.heal();
    sleep(Duration::from_mins(5)).await;
    assert_eq!(world.kinds("fleetdex"), ["ConfigMap", "Secret"]);
    world.operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_kind_does_not_block_the_removal_of_a_former_store_location() {
    fastrand::seed(8);
    let world = TwoKinds::start(|_| {});
    sleep(Duration::from_mins(1)).await;
    assert_eq!(world.kinds("fleetdex"), ["ConfigMap", "Secret"]);
    TwoKinds::forbid_secrets(&world.server);
    world.operator.update(TwoKinds::desired("moved"));
    // The former store location has the documents that the new one lacks.
    sleep(Duration::from_mins(5)).await;
    assert_eq!(
        (world.kinds("fleetdex").len(), world.kinds("moved")),
        (2, vec!["ConfigMap".to_owned()])
    );
    sleep(Duration::from_mins(10)).await;
    assert_eq!(
        (world.kinds("fleetdex").len(), world.kinds("moved")),
        (0, vec!["ConfigMap".to_owned()])
    );
    world.server.heal();
    sleep(Duration::from_mins(5)).await;
    assert_eq!(
        (world.kinds("fleetdex").len(), world.kinds("moved").len()),
        (0, 2)
    );
    world.operator.stop().await.unwrap();
}
