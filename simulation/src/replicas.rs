//! One process of a replica: what `fleetdex run --replicas` does, with its Lease and its query API,
//! except that registries do not come from a control plane.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use fakes::apiserver;
use fleetdex::app::catalog;
use fleetdex_clusters::{Clusters, ConnectionTiming, connect::Connect};
use fleetdex_core::model::{ClusterName, IndexPrefix};
use fleetdex_operator::{
    RegistryView,
    plan::StorePlan,
    stream_supervisor::{Desired, Opener, StreamSupervisor, SupervisorOptions},
};
use fleetdex_replicas::{ReplicaConfig, ReplicaName, Replicas};
use fleetdex_server::{
    answers::Answers,
    auth::{authentication_mode::AuthenticationMode, token_file::TokenVerifier},
    catalog::Catalog,
    http::{api_state::ApiState, serve::router},
    limits::{LimitArgs, RequestLimits},
    proxying::MemberProxy,
    watch::peers::Peers,
};
use fleetdex_store::{
    changes::Sequence,
    opensearch::{Engine, Feed, OpenSearchService, PlacementRules},
};
use fleetdex_sync::pipeline::{OpenStore, OpenedStore, PipelineLimits, Unavailable};
use fleetdex_telemetry::{Metrics, Readiness};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    leases::Leases,
    network::{Network, TOKEN},
    operator::{engine_options, member},
};

/// Interval of the reconciliation without an event, as in the operator while it hands over
/// clusters.
const RECONCILE_INTERVAL: Duration = Duration::from_millis(200);
const DEBOUNCE: Duration = Duration::from_millis(50);

/// The dependencies of a replica.
#[derive(Clone)]
pub struct Surroundings {
    /// The control plane; its Secrets hold the members' credentials.
    pub hub: apiserver::Server,
    /// The Leases.
    pub leases: Leases,
    /// Connects the replicas with each other and with clients.
    pub network: Network,
    /// Connects to clusters.
    pub connect: Arc<dyn Connect>,
    /// OpenSearch.
    pub store: OpenSearchService,
    /// Limits of pending and in-flight writes.
    pub limits: PipelineLimits,
    /// Which clusters share indices.
    pub placement: PlacementRules,
    /// The clusters that are members.
    pub members: Vec<ClusterName>,
    /// The registries, which may change.
    pub registries: watch::Receiver<Vec<RegistryView>>,
}

/// A running replica.
pub struct Replica {
    /// The address of its query API.
    pub address: SocketAddr,
    network: Network,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Replica {
    /// Starts the replica with a number; a restarted replica has the same address.
    pub fn start(surroundings: &Surroundings, number: u8) -> anyhow::Result<Self> {
        let address = SocketAddr::from(([10, 0, 0, number + 1], 8443));
        let stop = CancellationToken::new();
        let name = format!("replica-{number}").parse()?;
        let task = tokio::spawn(run(surroundings.clone(), name, address, stop.clone()));
        Ok(Self {
            address,
            network: surroundings.network.clone(),
            stop,
            task,
        })
    }

    /// Aborts it, as SIGKILL would.
    pub async fn kill(self) {
        self.task.abort();
        self.network.kill(self.address);
        let _aborted = self.task.await;
    }

    /// Stops it as SIGTERM would. Fails if the task panicked.
    pub async fn stop(self) -> Result<(), tokio::task::JoinError> {
        self.stop.cancel();
        self.task.await
    }
}

/// Opens stores with a feed of changes for each prefix, as long as the replica runs.
fn opener(store: OpenSearchService, placement: PlacementRules, sequence: Sequence) -> Opener {
    let feeds = Mutex::new(BTreeMap::<IndexPrefix, Feed>::new());
    Arc::new(move |plan| {
        let mut feeds = feeds.lock();
        let feed = feeds
            .entry(plan.prefix.clone())
            .or_insert_with(|| Feed::new(sequence.clone()));
        Arc::new(ChangeFeedStore {
            service: store.clone(),
            placement,
            plan: plan.clone(),
            feed: feed.clone(),
        })
    })
}

async fn run(
    surroundings: Surroundings,
    name: ReplicaName,
    address: SocketAddr,
    stop: CancellationToken,
) {
    let Surroundings {
        hub,
        leases,
        network,
        connect,
        store,
        limits,
        placement,
        members,
        mut registries,
    } = surroundings;
    let clusters = Arc::new(Clusters::new(
        hub.client(),
        connect,
        ConnectionTiming::default(),
        stop.child_token(),
    ));
    let mut connections = clusters.changed();
    let changed = Arc::new(Notify::new());
    let config = ReplicaConfig {
        name: name.clone(),
        namespace: "default".to_owned(),
        address: Some(address),
        pod_uid: None,
    };
    let replicas = Replicas::join(leases.client(), config, Arc::clone(&changed));
    let renewing = CancellationToken::new();
    let renewals = AbortOnDropHandle::new(tokio::spawn(replicas.clone().run(renewing.clone())));

    let metrics = Arc::new(Metrics::new());
    let sequence = Sequence::of_replica(Some(name.as_str()));
    let opener = opener(store, placement, sequence);
    let options = SupervisorOptions {
        limits,
        fence: replicas.fence(),
        ..SupervisorOptions::default()
    };
    let mut supervisor =
        StreamSupervisor::new(opener, Arc::clone(&metrics), Arc::clone(&changed), options);
    let (publish, catalog_reader) = watch::channel(Arc::new(Catalog::default()));
    let peer_network = network.clone();
    let api = ApiState::new(
        Answers {
            peers: Peers::connected(
                replicas.clone(),
                Arc::new(move |address| Ok(peer_network.client(address))),
            ),
            ..Answers::new(
                catalog_reader,
                AuthenticationMode::LoopbackToken(TokenVerifier::new(TOKEN)),
                RequestLimits::new(&LimitArgs::default(), &metrics),
                metrics,
            )
        },
        Arc::new(MemberProxy::new(Arc::clone(&clusters), stop.child_token())),
    );
    network.listen(address, router(api, Readiness::new()));
    clusters.set_members(members.iter().map(member).collect());
    while !stop.is_cancelled() {
        let (assignment, states) = (replicas.assignment(), clusters.states());
        let planned = registries.borrow_and_update().clone();
        supervisor
            .reconcile(Desired {
                assignment: assignment.clone(),
                ..Desired::new(&planned, &states)
            })
            .await;
        if let Some(plan) = supervisor.plan() {
            publish.send_replace(Arc::new(catalog(plan, &supervisor, &states)));
        }
        if supervisor.hand_over().await {
            replicas.announce_released(&assignment);
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            _ = connections.changed() => {}
            Ok(()) = registries.changed() => {}
            () = changed.notified() => {}
            () = tokio::time::sleep(RECONCILE_INTERVAL) => {}
        }
        tokio::time::sleep(DEBOUNCE).await;
    }
    supervisor.shut_down().await;
    drop(publish);
    renewing.cancel();
    // The task ends on cancellation, if it has not ended before.
    let _ended = renewals.await;
    replicas.leave().await;
    clusters.stopped().await;
    network.close(address).await;
}

/// Opens the engine of real registries on the fake OpenSearch, with a feed of its changes.
struct ChangeFeedStore {
    service: OpenSearchService,
    placement: PlacementRules,
    plan: StorePlan,
    feed: Feed,
}

#[async_trait]
impl OpenStore for ChangeFeedStore {
    async fn open(&self) -> Result<OpenedStore, Unavailable> {
        let engine = Engine::feeding(
            self.service.clone(),
            engine_options(&self.plan, self.placement),
            self.feed.clone(),
        );
        engine.prepare().await?;
        Ok(Arc::new(engine).into())
    }

    async fn changed(&self) -> bool {
        false
    }
}
