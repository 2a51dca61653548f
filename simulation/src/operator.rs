//! One life of the operator: what `fleetdex run` does, without a control plane to read registries from.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetdex_api::{cluster::LocalSecretReference, registry::StoreStatus};
use fleetdex_clusters::{
    Clusters, Member, Timing,
    bearer::Bearer,
    connect::{Connect, ConnectError},
    credentials::Credentials,
    member::{ApiServerEndpoint, MemberAccess},
    source::Duplicates,
};
use fleetdex_core::model::ClusterName;
use fleetdex_limits::intake::{self, Budget};
use fleetdex_operator::{
    RegistryView,
    plan::StorePlan,
    replicas::Assignment,
    store_locations::StoreLocations,
    stream_supervisor::{Opener, StreamSupervisor},
};
use fleetdex_store::{
    IndexWriter as _,
    opensearch::{Engine, EngineOptions, IndexSettings, OpenSearchService},
};
use fleetdex_sync::pipeline::{OpenStore, OpenedStore, PipelineLimits, Unavailable};
use fleetdex_telemetry::Metrics;
use serde_json::json;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    apiserver,
    hostile::{self, Gauge, Hostile},
};

/// As often as the operator looks at what changes by nothing happening.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
const DEBOUNCE: Duration = Duration::from_millis(50);
/// Names this installation in the indices.
const OWNER: &str = "control-plane";

/// A control plane with the Secret that the credentials of every member are in.
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

/// What every life of the operator works with.
#[derive(Clone)]
pub struct Surroundings {
    /// The control plane; its Secrets hold the members' credentials.
    pub hub: apiserver::Server,
    /// How clusters are reached.
    pub connect: Arc<dyn Connect>,
    /// OpenSearch.
    pub store: OpenSearchService,
    /// What may wait and be under way.
    pub limits: PipelineLimits,
    /// How often each kind is audited; absent: never.
    pub audit_interval: Option<Duration>,
}

/// What the control plane shows.
#[derive(Clone)]
pub struct Wanted {
    /// The clusters that are members.
    pub members: Vec<ClusterName>,
    /// The registries.
    pub registries: Vec<RegistryView>,
    /// Every place that a registry has named, as its status keeps it.
    pub places: Vec<StoreStatus>,
}

/// A running operator.
pub struct Operator {
    /// Each operator has a channel of its own: several that wait for one are woken in a random order, which no seed brings back.
    wanted: watch::Sender<Wanted>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Operator {
    /// Starts one.
    pub fn start(surroundings: Surroundings, wanted: Wanted) -> Self {
        let stop = CancellationToken::new();
        let wanted = watch::Sender::new(wanted);
        let task = tokio::spawn(operate(surroundings, wanted.subscribe(), stop.clone()));
        Self { wanted, stop, task }
    }

    /// Shows it something else from now on.
    pub fn show(&self, wanted: Wanted) {
        self.wanted.send_replace(wanted);
    }

    /// Ends it where it stands, as SIGKILL would.
    pub async fn kill(self) {
        self.task.abort();
        let _aborted = self.task.await;
    }

    /// Ends it as SIGTERM would: what is pending is written. An error if it did not end well.
    pub async fn stop(self) -> Result<(), tokio::task::JoinError> {
        self.stop.cancel();
        self.task.await
    }

    /// Whether it ended although nobody asked it to.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

async fn operate(
    surroundings: Surroundings,
    mut wanted: watch::Receiver<Wanted>,
    stop: CancellationToken,
) {
    let Surroundings {
        hub,
        connect,
        store,
        limits,
        audit_interval,
    } = surroundings;
    let clusters = Clusters::new(hub.client(), connect, Timing::default(), stop.child_token());
    let mut connections = clusters.changed();
    let changed = Arc::new(Notify::new());
    let opener: Opener = Arc::new(move |plan| {
        Arc::new(SimulatedStore {
            service: store.clone(),
            plan: plan.clone(),
        })
    });
    let mut supervisor =
        StreamSupervisor::new(opener, Arc::new(Metrics::new()), Arc::clone(&changed))
            .with_limits(limits);
    if let Some(interval) = audit_interval {
        supervisor = supervisor.with_audit_interval(interval);
    }
    let mut duplicates = Duplicates::new(Arc::clone(&changed));
    while !stop.is_cancelled() {
        let Wanted {
            members,
            registries,
            places,
        } = wanted.borrow_and_update().clone();
        clusters.set_members(members.iter().map(member).collect());
        let mut recorded = StoreLocations::default();
        for (registry, place) in registries
            .iter()
            .flat_map(|registry| places.iter().map(move |place| (registry, place)))
        {
            recorded.add_recorded(place, &registry.name);
        }
        supervisor.record_locations(recorded);
        let mut members = clusters.states();
        let _notes = duplicates.mark(
            &mut members,
            supervisor.identities().as_ref(),
            &supervisor.planned_clusters(),
        );
        supervisor
            .reconcile(&registries, &[], &members, &Assignment::SingleReplica)
            .await;
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            _ = connections.changed() => {}
            () = changed.notified() => {}
            _ = wanted.changed() => {}
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
        tokio::time::sleep(DEBOUNCE).await;
    }
    supervisor.shut_down().await;
}

/// A cluster as the control plane describes it.
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

/// Clients for servers in this process: every cluster, whether or not it is a member.
pub struct InProcess {
    /// Honest clusters.
    pub servers: BTreeMap<ClusterName, apiserver::Server>,
    /// Others.
    pub hostile: BTreeMap<ClusterName, Hostile>,
    /// Memory for what they answer.
    pub budget: Budget,
    /// What is read of their answers.
    pub gauge: Gauge,
}

impl InProcess {
    /// Nothing but honest clusters, and as much memory as usual.
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

/// What the engine of a store is made with.
pub fn engine_options(plan: &StorePlan) -> EngineOptions {
    EngineOptions {
        prefix: plan.prefix.clone(),
        settings: IndexSettings {
            replicas: 0,
            ..IndexSettings::default()
        },
        fields: plan.field_paths.iter().cloned().collect(),
        projection: plan.projection.hash(),
        owner: OWNER.to_owned(),
        address: "http://opensearch.example.com:9200".to_owned(),
    }
}

/// The engine that real registries get, over the simulated OpenSearch.
struct SimulatedStore {
    service: OpenSearchService,
    plan: StorePlan,
}

#[async_trait]
impl OpenStore for SimulatedStore {
    async fn open(&self) -> Result<OpenedStore, Unavailable> {
        let engine = Engine::new(self.service.clone(), engine_options(&self.plan));
        engine.prepare().await?;
        Ok(Arc::new(engine).into())
    }

    async fn changed(&self) -> bool {
        false
    }
}
