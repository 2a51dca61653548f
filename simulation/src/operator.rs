//! One process of the operator: what `fleetdex run` does, except that registries do not come from a
//! control plane.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use fakes::apiserver;
use fleetdex_clusters::{
    Clusters, ConnectionTiming, Member,
    bearer::Bearer,
    connect::{Connect, ConnectError},
    credentials::Credentials,
    member::{ApiServerEndpoint, MemberAccess},
    source::Duplicates,
};
use fleetdex_core::model::ClusterName;
use fleetdex_crds::{cluster::LocalSecretReference, registry::StoreStatus};
use fleetdex_interpreter::rules::RuleSet;
use fleetdex_limits::intake::{self, Budget};
use fleetdex_operator::{
    RegistryView,
    plan::StorePlan,
    store_locations::StoreLocations,
    stream_supervisor::{Desired, Opener, StreamSupervisor, SupervisorOptions},
};
use fleetdex_store::opensearch::{
    Engine, EngineOptions, IndexSettings, OpenSearchService, PlacementRules,
};
use fleetdex_sync::{
    enrichment::WebhookAccess,
    pipeline::{OpenStore, OpenedStore, PipelineLimits, Unavailable},
};
use fleetdex_telemetry::Metrics;
use fleetdex_webhooks::queue::{EnrichmentQueue, QueueLimits};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::json;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    hostile::{self, Gauge, Hostile},
    interpreter::Interpreter,
};

/// Interval of the reconciliation without an event, as in the operator.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(5);
const DEBOUNCE: Duration = Duration::from_millis(50);
/// The owner that the indices name.
const OWNER: &str = "control-plane";

/// Creates a control plane with the Secret that holds the credentials of every member.
pub fn control_plane(seed: u64) -> Result<apiserver::Server, apiserver::Status> {
    let hub = apiserver::Server::new(apiserver::Options::new(seed));
    let annotations = json!({ "fleetdex.io/allowed-hosts": "*.example.com" });
    let metadata = json!({ "name": "member", "namespace": "default", "annotations": annotations });
    hub.apply(
        "secrets",
        json!({ "metadata": metadata, "data": { "token": "dG9rZW4=" } }),
    )?;
    Ok(hub)
}

/// The dependencies of an operator.
#[derive(Clone)]
pub struct Surroundings {
    /// The control plane; its Secrets hold the members' credentials.
    pub hub: apiserver::Server,
    /// Connects to clusters.
    pub connect: Arc<dyn Connect>,
    /// OpenSearch.
    pub store: OpenSearchService,
    /// Limits of pending and in-flight writes.
    pub limits: PipelineLimits,
    /// Which clusters share indices.
    pub placement: PlacementRules,
    /// How often each kind is audited; `None`: never.
    pub audit_interval: Option<Duration>,
    /// The interpreter webhook.
    pub interpreter: Interpreter,
    /// Limits of the objects that it is asked about.
    pub questions: QueueLimits,
}

/// The desired state, as the control plane has it.
#[derive(Clone)]
pub struct DesiredState {
    /// The clusters that are members.
    pub members: Vec<ClusterName>,
    /// The registries.
    pub registries: Vec<RegistryView>,
    /// Every store location that a registry has ever named, as its status records it.
    pub store_locations: Vec<StoreStatus>,
    /// The rules by which objects are interpreted.
    pub rules: Arc<RuleSet>,
}

/// A running operator.
pub struct Operator {
    /// Each operator has its own channel: several receivers of one channel wake in a random order
    /// that the seed does not control.
    desired: watch::Sender<DesiredState>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Operator {
    /// Starts an operator.
    pub fn start(surroundings: Surroundings, desired: DesiredState) -> Self {
        let stop = CancellationToken::new();
        let desired = watch::Sender::new(desired);
        let task = tokio::spawn(operate(surroundings, desired.subscribe(), stop.clone()));
        Self {
            desired,
            stop,
            task,
        }
    }

    /// Replaces the desired state.
    pub fn update(&self, desired: DesiredState) {
        self.desired.send_replace(desired);
    }

    /// Aborts it, as SIGKILL would.
    pub async fn kill(self) {
        self.task.abort();
        let _aborted = self.task.await;
    }

    /// Stops it as SIGTERM would: pending documents are written. Fails if the task panicked.
    pub async fn stop(self) -> Result<(), tokio::task::JoinError> {
        self.stop.cancel();
        self.task.await
    }

    /// Whether it ended without being stopped.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

async fn operate(
    surroundings: Surroundings,
    mut desired: watch::Receiver<DesiredState>,
    stop: CancellationToken,
) {
    let Surroundings {
        hub,
        connect,
        store,
        limits,
        placement,
        audit_interval,
        interpreter,
        questions,
    } = surroundings;
    let clusters = Clusters::new(
        hub.client(),
        connect,
        ConnectionTiming::default(),
        stop.child_token(),
    );
    let mut connections = clusters.changed();
    let changed = Arc::new(Notify::new());
    let opener: Opener = Arc::new(move |plan| {
        Arc::new(SimulatedStore {
            service: store.clone(),
            placement,
            plan: plan.clone(),
        })
    });
    let metrics = Arc::new(Metrics::new());
    let queue = EnrichmentQueue::new(questions, metrics.webhooks());
    let access = WebhookAccess::new(Arc::new(interpreter), queue.clone());
    let (asking, stop_asking) = (queue, stop.child_token());
    let _asking =
        AbortOnDropHandle::new(tokio::spawn(async move { asking.run(stop_asking).await }));
    let options = SupervisorOptions {
        limits,
        audit_interval,
        webhooks: Some(access),
        ..SupervisorOptions::default()
    };
    let mut supervisor = StreamSupervisor::new(opener, metrics, Arc::clone(&changed), options);
    let mut duplicates = Duplicates::new(Arc::clone(&changed));
    while !stop.is_cancelled() {
        let DesiredState {
            members,
            registries,
            store_locations,
            rules,
        } = desired.borrow_and_update().clone();
        clusters.set_members(members.iter().map(member).collect());
        let mut recorded = StoreLocations::default();
        for (registry, location) in registries.iter().flat_map(|registry| {
            store_locations
                .iter()
                .map(move |location| (registry, location))
        }) {
            recorded.add_recorded(location, &registry.name);
        }
        let mut members = clusters.states();
        let _notes = duplicates.mark(
            &mut members,
            supervisor.identities().as_ref(),
            &supervisor.planned_clusters(),
        );
        supervisor
            .reconcile(Desired {
                rules,
                recorded_locations: recorded,
                ..Desired::new(&registries, &members)
            })
            .await;
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            _ = connections.changed() => {}
            () = changed.notified() => {}
            _ = desired.changed() => {}
            () = tokio::time::sleep(RECONCILE_INTERVAL) => {}
        }
        tokio::time::sleep(DEBOUNCE).await;
    }
    supervisor.shut_down().await;
}

/// Returns the member for a cluster, as the control plane describes it.
pub fn member(name: &ClusterName) -> Member {
    let secret = LocalSecretReference {
        namespace: "default".to_owned(),
        name: "member".to_owned(),
    };
    let endpoint = ApiServerEndpoint {
        url: format!("https://{name}.example.com"),
        secret: Some(secret),
        insecure: true,
        ..ApiServerEndpoint::default()
    };
    Member {
        name: name.clone(),
        uid: name.to_string(),
        generation: Some(1),
        labels: BTreeMap::new(),
        provider: None,
        region: None,
        zones: Vec::new(),
        origin: format!("Cluster {name}"),
        created: None,
        access: MemberAccess::Endpoint(endpoint),
    }
}

/// Creates clients for the servers in this process: every cluster, member or not.
pub struct InProcess {
    /// Honest clusters.
    pub servers: BTreeMap<ClusterName, apiserver::Server>,
    /// Hostile clusters.
    pub hostile: BTreeMap<ClusterName, Hostile>,
    /// The memory budget for their responses.
    pub budget: Budget,
    /// How much is read of their responses.
    pub gauge: Gauge,
}

impl InProcess {
    /// Only honest clusters, with the default memory limits.
    pub fn honest(servers: BTreeMap<ClusterName, apiserver::Server>) -> Self {
        Self {
            servers,
            hostile: BTreeMap::new(),
            budget: Budget::new(intake::MemoryLimits::default()),
            gauge: Gauge::default(),
        }
    }
}

#[async_trait]
impl Connect for InProcess {
    async fn connect(
        &self,
        member: &Member,
        _: &Credentials,
        _: &Bearer,
    ) -> Result<kube::Client, ConnectError> {
        let (intake, gauge) = (self.budget.share(member.name.as_str()), self.gauge.clone());
        if let Some(hostile) = self.hostile.get(&member.name).cloned() {
            return Ok(hostile::client(intake, gauge, move |request| {
                let hostile = hostile.clone();
                async move { hostile.respond(request).await }
            }));
        }
        let server = self
            .servers
            .get(&member.name)
            .cloned()
            .ok_or(ConnectError::EndpointMissing)?;
        Ok(hostile::client(intake, gauge, move |request| {
            let server = server.clone();
            async move { server.respond(request).await }
        }))
    }
}

/// How the clusters of a seed are placed: every other one has small clusters in shared indices. It
/// has a generator of its own, so that a seed stays the same fleet.
pub fn placement(seed: u64) -> PlacementRules {
    let mut random = StdRng::seed_from_u64(seed.rotate_left(23));
    if random.random_ratio(1, 2) {
        packing(&mut random)
    } else {
        PlacementRules::default()
    }
}

/// Rules by which clusters share indices whatever the number of shards, and move often.
fn packing(random: &mut StdRng) -> PlacementRules {
    PlacementRules {
        shares_indices: true,
        small_documents: random.random_range(3..40),
        clusters_per_index: random.random_range(1..4),
        shards_percent: 0,
        interval: Duration::from_secs(random.random_range(5..60)),
    }
}

/// The options of the engine of a store.
pub fn engine_options(plan: &StorePlan, placement: PlacementRules) -> EngineOptions {
    EngineOptions {
        prefix: plan.prefix.clone(),
        settings: IndexSettings {
            replicas: Some(0),
            ..IndexSettings::default()
        },
        fields: plan.field_paths.iter().cloned().collect(),
        projection: plan.projection.hash(),
        placement,
        owner: OWNER.to_owned(),
        address: "http://opensearch.example.com:9200".to_owned(),
    }
}

/// Opens the engine of real registries on the fake OpenSearch.
struct SimulatedStore {
    service: OpenSearchService,
    placement: PlacementRules,
    plan: StorePlan,
}

#[async_trait]
impl OpenStore for SimulatedStore {
    async fn open(&self) -> Result<OpenedStore, Unavailable> {
        let engine = Engine::new(
            self.service.clone(),
            engine_options(&self.plan, self.placement),
        );
        engine.prepare().await?;
        Ok(Arc::new(engine).into())
    }

    async fn changed(&self) -> bool {
        false
    }
}
