//! A hundred members, twenty of which are broken in one way or another: nothing of the other eighty is late or lost.

#![expect(clippy::unwrap_used, reason = "parts of tests")]

use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use fleetdex_clusters::{
    Member,
    bearer::Bearer,
    connect::{Connect, ConnectError},
    credentials::Credentials,
};
use fleetdex_core::model::{ClusterName, IndexPrefix};
use fleetdex_operator::RegistryView;
use fleetdex_sync::pipeline::PipelineLimits;
use http::{Request, Response};
use http_body_util::Full;
use kube::{Client, client::Body};
use serde_json::json;
use simulation::{
    apiserver::{Extent, Fault, Options, Server},
    opensearch::OpenSearch,
    operator::{InProcess, Operator, Surroundings, Wanted, control_plane},
    oracle::stored,
};
use tokio::time::{Instant, sleep};
use tower::{BoxError, service_fn};

const MEMBERS: usize = 100;
const BROKEN: usize = 20;
/// As many rounds of writes, to every member.
const ROUNDS: usize = 60;
const WAYS: [Way; 5] = [
    Way::Dns,
    Way::Blackhole,
    Way::Unauthorized,
    Way::Tls,
    Way::Slow,
];

/// How a member is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Nobody knows its address.
    Dns,
    /// Nobody answers.
    Blackhole,
    /// It refuses the token.
    Unauthorized,
    /// Its certificate is not to be trusted.
    Tls,
    /// Every answer takes twenty seconds.
    Slow,
}

/// Clients for members, some of which are broken.
struct Fleet {
    whole: InProcess,
    broken: BTreeMap<ClusterName, Way>,
}

#[async_trait]
impl Connect for Fleet {
    async fn connect(
        &self,
        member: &Member,
        credentials: &Credentials,
        bearer: &Bearer,
    ) -> Result<Client, ConnectError> {
        let client = self.whole.connect(member, credentials, bearer).await?;
        Ok(match self.broken.get(&member.name) {
            Some(way @ (Way::Dns | Way::Tls)) => unreachable(*way),
            Some(Way::Slow) => slow(client),
            Some(Way::Blackhole | Way::Unauthorized) | None => client,
        })
    }
}

fn unreachable(way: Way) -> Client {
    let service = service_fn(move |_: Request<Body>| async move {
        let error: BoxError = match way {
            Way::Tls => {
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

/// What a fleet did.
struct Seen {
    /// How long each event of a whole member took to its document, in order.
    latencies: Vec<Duration>,
    /// Members that have any document.
    stored: usize,
}

/// Runs a fleet under writes. Without the broken members there are just the others.
async fn run(with_broken: bool) -> Seen {
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
    let broken: BTreeMap<ClusterName, Way> = numbers
        .clone()
        .filter(|number| *number < BROKEN)
        .map(|number| (name(number), WAYS[number % WAYS.len()]))
        .collect();
    let forever = Extent::For(Duration::from_hours(24));
    for (cluster, way) in &broken {
        match way {
            Way::Blackhole => servers[cluster].inject(Fault::Hang, forever),
            Way::Unauthorized => servers[cluster].inject(Fault::Unauthorized, forever),
            Way::Dns | Way::Tls | Way::Slow => {}
        }
    }
    let hub = control_plane(1_000).unwrap();
    let store = OpenSearch::new(1);
    let surroundings = Surroundings {
        hub,
        connect: Arc::new(Fleet {
            whole: InProcess::honest(servers.clone()),
            broken: broken.clone(),
        }),
        store: store.service(),
        limits: PipelineLimits::default(),
        audit_interval: None,
    };
    let wanted = Wanted {
        members: servers.keys().cloned().collect(),
        registries: vec![registry()],
        places: Vec::new(),
    };
    let operator = Operator::start(surroundings, wanted);
    // Time enough for those that answer, and not for those that do not, one after the other.
    sleep(Duration::from_secs(10)).await;

    let whole: Vec<&ClusterName> = servers
        .keys()
        .filter(|cluster| !broken.contains_key(*cluster))
        .collect();
    let mut latencies = Vec::new();
    for round in 0..ROUNDS {
        latencies.extend(write_and_wait(&servers, &whole, &store, round).await);
    }
    assert!(!operator.has_ended());
    operator.stop().await.unwrap();
    latencies.sort();
    let prefix = IndexPrefix::default();
    let has_documents =
        |cluster: &&ClusterName| !stored(&store, prefix.cluster_alias(cluster).as_str()).is_empty();
    Seen {
        latencies,
        stored: servers.keys().filter(has_documents).count(),
    }
}

/// Writes an object to every member that is whole, and waits until each has its document.
async fn write_and_wait(
    servers: &BTreeMap<ClusterName, Server>,
    whole: &[&ClusterName],
    store: &OpenSearch,
    round: usize,
) -> Vec<Duration> {
    let prefix = IndexPrefix::default();
    let mut waiting = Vec::new();
    for cluster in whole {
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
            whole.len()
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
        let of = |seen: &Seen| seen.latencies[seen.latencies.len() * quantile / 100].as_secs_f64();
        let (with, without) = (of(&beside), of(&alone));
        // Simulated time moves in steps of ten milliseconds here.
        assert!(
            with <= without * 1.1 + 0.02,
            "p{quantile}: {with} s beside broken members, {without} s without"
        );
    }
}

/// A member with an object of each of two kinds, and an operator that reads it into an OpenSearch.
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
            audit_interval: None,
        };
        let operator = Operator::start(surroundings, Self::wanted("fleetdex"));
        Self {
            server,
            store,
            operator,
        }
    }

    /// One registry of both kinds, which are kept under this prefix.
    fn wanted(prefix: &str) -> Wanted {
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
        Wanted {
            members: vec![name(1)],
            registries: vec![both],
            places: Vec::new(),
        }
    }

    fn forbid_secrets(server: &Server) {
        server.inject(
            Fault::Forbidden("secrets".into()),
            Extent::For(Duration::from_hours(24)),
        );
    }

    /// The kinds that are seen under a prefix.
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
async fn a_kind_that_a_member_refuses_hides_no_other_kind_and_is_seen_once_it_is_complete() {
    fastrand::seed(7);
    let world = TwoKinds::start(TwoKinds::forbid_secrets);
    // Long before anything is given up.
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
async fn a_kind_that_a_member_refuses_does_not_keep_a_former_place_for_ever() {
    fastrand::seed(8);
    let world = TwoKinds::start(|_| {});
    sleep(Duration::from_mins(1)).await;
    assert_eq!(world.kinds("fleetdex"), ["ConfigMap", "Secret"]);
    TwoKinds::forbid_secrets(&world.server);
    world.operator.show(TwoKinds::wanted("moved"));
    // The former place has what the new one lacks.
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
