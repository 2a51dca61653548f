//! One life of a replica: what `fleetdex run --replicas` does, with its Lease and its query API, without a control plane to read registries from.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetdex::app::catalog;
use fleetdex_clusters::{Clusters, Timing, connect::Connect};
use fleetdex_core::model::ClusterName;
use fleetdex_operator::{
    RegistryView,
    plan::StorePlan,
    replicas::{ReplicaConfig, ReplicaName, Replicas},
    stream_supervisor::{Opener, StreamSupervisor},
};
use fleetdex_server::{
    Catalog,
    auth::limits::{LimitArgs, RequestLimits},
    continue_token::SealingKeys,
    peers::Peers,
    proxying::MemberProxy,
    serve::{AccessControl, ApiState, router},
    token_file::TokenVerifier,
};
use fleetdex_store::{
    IndexWriter as _,
    changes::Sequence,
    opensearch::{Engine, Feed, OpenSearchService},
};
use fleetdex_sync::pipeline::{OpenStore, OpenedStore, PipelineLimits, Unavailable};
use fleetdex_telemetry::{Metrics, Readiness};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    apiserver,
    leases::Leases,
    network::{Network, TOKEN},
    operator::{engine_options, member},
};

/// As often as the operator looks at what changes by nothing happening, while a share is handed over.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
const DEBOUNCE: Duration = Duration::from_millis(50);

/// What every replica works with.
#[derive(Clone)]
pub struct Surroundings {
    /// The control plane; its Secrets hold the members' credentials.
    pub hub: apiserver::Server,
    /// The Leases.
    pub leases: Leases,
    /// By which the replicas reach each other, and clients reach them.
    pub network: Network,
    /// How clusters are reached.
    pub connect: Arc<dyn Connect>,
    /// OpenSearch.
    pub store: OpenSearchService,
    /// What may wait and be under way.
    pub limits: PipelineLimits,
    /// The clusters that are members.
    pub members: Vec<ClusterName>,
    /// The registries.
    pub registries: Vec<RegistryView>,
}

/// A running replica.
pub struct Replica {
    /// Where its query API is.
    pub address: SocketAddr,
    network: Network,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Replica {
    /// Starts the one of a number; each life of it is at the same address.
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

    /// Ends it where it stands, as SIGKILL would.
    pub async fn kill(self) {
        self.task.abort();
        self.network.kill(self.address);
        let _aborted = self.task.await;
    }

    /// Ends it as SIGTERM would. An error if it did not end well.
    pub async fn stop(self) -> Result<(), tokio::task::JoinError> {
        self.stop.cancel();
        self.task.await
    }
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
        members,
        registries,
    } = surroundings;
    let clusters = Arc::new(Clusters::new(
        hub.client(),
        connect,
        Timing::default(),
        stop.child_token(),
    ));
    let mut connections = clusters.changed();
    let changed = Arc::new(Notify::new());
    let config = ReplicaConfig {
        name: name.clone(),
        namespace: "default".to_owned(),
        address: Some(address),
    };
    let replicas = Replicas::join(leases.client(), config, Arc::clone(&changed));
    let renewing = CancellationToken::new();
    let renewals = AbortOnDropHandle::new(tokio::spawn(replicas.clone().run(renewing.clone())));

    let metrics = Arc::new(Metrics::new());
    let feed = Feed::new(Sequence::of_replica(Some(name.as_str())));
    let opener: Opener = Arc::new(move |plan| {
        Arc::new(FeedingStore {
            service: store.clone(),
            plan: plan.clone(),
            feed: feed.clone(),
        })
    });
    let mut supervisor = StreamSupervisor::new(opener, Arc::clone(&metrics), Arc::clone(&changed))
        .with_limits(limits)
        .with_fence(replicas.fence());
    let (publish, catalog_reader) = watch::channel(Arc::new(Catalog::default()));
    let reach = network.clone();
    let api = ApiState {
        catalog: catalog_reader,
        access_control: AccessControl::LoopbackToken(TokenVerifier::new(TOKEN)),
        limits: RequestLimits::new(&LimitArgs::default(), &metrics),
        metrics,
        keys: SealingKeys::default(),
        members: Arc::new(MemberProxy::new(Arc::clone(&clusters), stop.child_token())),
        peers: Peers::connected(
            replicas.clone(),
            Arc::new(move |address| Ok(reach.client(address))),
        ),
    };
    network.listen(address, router(api, Readiness::new()));
    clusters.set_members(members.iter().map(member).collect());
    while !stop.is_cancelled() {
        let (assignment, states) = (replicas.assignment(), clusters.states());
        supervisor
            .reconcile(&registries, &[], &states, &assignment)
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
            () = changed.notified() => {}
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
        tokio::time::sleep(DEBOUNCE).await;
    }
    supervisor.shut_down().await;
    drop(publish);
    renewing.cancel();
    // It ends by being cancelled, or has.
    let _ended = renewals.await;
    replicas.leave().await;
    clusters.stopped().await;
    network.close(address).await;
}

/// The engine that real registries get, over the simulated OpenSearch, which tells what it changes.
struct FeedingStore {
    service: OpenSearchService,
    plan: StorePlan,
    feed: Feed,
}

#[async_trait]
impl OpenStore for FeedingStore {
    async fn open(&self) -> Result<OpenedStore, Unavailable> {
        let engine = Engine::feeding(
            self.service.clone(),
            engine_options(&self.plan),
            self.feed.clone(),
        );
        engine.prepare().await?;
        Ok(Arc::new(engine).into())
    }

    async fn changed(&self) -> bool {
        false
    }
}
