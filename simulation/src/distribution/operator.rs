//! One process that distributes: the distributor with its connections and its Lease, as
//! `fleetdex run --distribute` has them.

use std::{collections::BTreeMap, sync::Arc};

use fakes::apiserver::Server;
use fleetdex_clusters::{
    Clusters, ConnectionTiming, Member,
    source::{SourceArgs, Sources},
};
use fleetdex_core::model::ClusterName;
use fleetdex_distribution::brake::DeletionBrake;
use fleetdex_distributor::{DistributorContext, SetSources};
use fleetdex_replicas::{ReplicaConfig, Replicas};
use fleetdex_telemetry::{Metrics, Readiness};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    clock,
    servers::{MemberConnections, client},
};
use crate::{
    interpreter::{Interpreter, Rules},
    operator,
};

/// The dependencies of an operator.
#[derive(Clone)]
pub struct Surroundings {
    /// The control plane.
    pub control_plane: Server,
    /// The members.
    pub members: BTreeMap<ClusterName, Server>,
    /// Whether several operators share Leases.
    pub has_replicas: bool,
}

/// A running operator.
pub struct Operator {
    /// What its requests say whose they are.
    pub agent: String,
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Operator {
    /// Starts the operator with a number; no other one has had it.
    pub fn start(surroundings: &Surroundings, number: u32) -> Self {
        let agent = format!("operator-{number}");
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(surroundings.clone(), agent.clone(), stop.clone()));
        Self { agent, stop, task }
    }

    /// Aborts it, as SIGKILL would.
    pub async fn kill(self) {
        self.task.abort();
        let _aborted = self.task.await;
    }

    /// Stops it as SIGTERM would.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.task.await?
    }

    /// Whether it ended without being stopped.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

/// The members, as the control plane describes them.
pub fn described(name: &ClusterName) -> Member {
    Member {
        labels: labels(name.as_str()),
        ..operator::member(name)
    }
}

/// The labels of a member.
pub fn labels(name: &str) -> BTreeMap<String, String> {
    let tier = if name.ends_with('1') {
        "large"
    } else {
        "small"
    };
    BTreeMap::from([("size".to_owned(), tier.to_owned())])
}

async fn run(
    surroundings: Surroundings,
    agent: String,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let Surroundings {
        control_plane,
        members,
        has_replicas,
    } = surroundings;
    let control_plane = client(&control_plane, &agent);
    let described: Vec<Member> = members.keys().map(described).collect();
    let connections = MemberConnections {
        servers: members,
        agent: agent.clone(),
    };
    let clusters = Arc::new(Clusters::new(
        control_plane.clone(),
        Arc::new(connections),
        ConnectionTiming::default(),
        stop.child_token(),
    ));
    clusters.set_members(described);
    let changed: Arc<Notify> = Arc::default();
    let replicas = if has_replicas {
        let config = ReplicaConfig {
            name: agent.parse()?,
            namespace: "default".to_owned(),
            address: None,
            pod_uid: None,
        };
        Replicas::join(control_plane.clone(), config, Arc::clone(&changed))
    } else {
        Replicas::alone()
    };
    let renewing = CancellationToken::new();
    let renewals = AbortOnDropHandle::new(tokio::spawn(replicas.clone().run(renewing.clone())));
    let announcing = AbortOnDropHandle::new(tokio::spawn(announce(replicas.clone(), changed)));
    let (rules, rules_reader) = watch::channel(Rules::BuiltIn.rule_set());
    let context = DistributorContext {
        control_plane: control_plane.clone(),
        clusters: Arc::clone(&clusters),
        sources: Arc::new(no_sources(control_plane.clone())),
        rules: rules_reader,
        webhooks: Arc::new(Interpreter::new(1)),
        replicas: replicas.clone(),
        metrics: Arc::new(Metrics::new()),
        brake: DeletionBrake::default(),
        sets: SetSources::default(),
        clock: clock::now,
    };
    fleetdex_distributor::run(context, stop.child_token()).await;
    drop((rules, announcing));
    renewing.cancel();
    // The task ends on cancellation, if it has not ended before.
    let _ended = renewals.await;
    replicas.leave().await;
    clusters.stopped().await;
    Ok(())
}

/// Members do not come from sources here: all of them are known from the start.
fn no_sources(control_plane: kube::Client) -> Sources {
    let args = SourceArgs {
        cluster_source: Vec::new(),
        cluster_namespace: Vec::new(),
        cluster_api_watch_filter: None,
        kubeconfig_clusters: None,
        cluster_context: Vec::new(),
        allow_same_cluster: false,
    };
    let metrics = Arc::new(Metrics::new());
    Sources::new(
        control_plane,
        args,
        metrics,
        Readiness::new(),
        Arc::default(),
    )
}

/// Announces what the Leases of the others ask for, as the controller does: there are no streams to
/// be handed over.
async fn announce(replicas: Replicas, changed: Arc<Notify>) {
    loop {
        changed.notified().await;
        replicas.announce_released(&replicas.assignment());
    }
}
