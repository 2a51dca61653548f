//! The control plane and the members: what they serve, and clients that say whose they are.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use fakes::apiserver::{Editor, Name, Options, Server, Status, usual_resources};
use fleetdex_clusters::{
    Member,
    bearer::Bearer,
    connect::{Connect, ConnectError},
    credentials::Credentials,
};
use fleetdex_core::model::{ClusterName, Gvk, Resource};
use fleetdex_distribution::marks::CopyOrigin;
use fleetdex_limits::intake::{self, Budget};
use http::{HeaderValue, header};
use rand::{RngExt, rngs::StdRng};
use serde_json::json;

use crate::hostile::{self, Gauge};

/// The members.
pub const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];
/// The namespace with most objects; `default` has the others.
pub const NAMESPACE: &str = "shop";
/// The user who writes to the control plane.
pub const USER: Editor<'static> = Editor {
    manager: "kubectl-client-side-apply",
    subresource: None,
};

pub const MAPS: &str = "configmaps";
pub const DEPLOYMENTS: &str = "deployments.apps";
pub const NAMESPACES: &str = "namespaces";
pub const POLICIES: &str = "propagationpolicies.policy.karmada.io";
pub const CLUSTER_POLICIES: &str = "clusterpropagationpolicies.policy.karmada.io";
pub const OVERRIDES: &str = "overridepolicies.policy.karmada.io";
pub const CLUSTER_OVERRIDES: &str = "clusteroverridepolicies.policy.karmada.io";
pub const BINDINGS: &str = "resourcebindings.work.karmada.io";
pub const CLUSTER_BINDINGS: &str = "clusterresourcebindings.work.karmada.io";
pub const CLUSTERS: &str = "clusters.cluster.karmada.io";
pub const SETS: &str = "distributions.distribute.fleetdex.io";

/// The kinds that are distributed: resource, group and version, kind.
pub const DISTRIBUTED: [(&str, &str, &str); 3] = [
    (MAPS, "v1", "ConfigMap"),
    (DEPLOYMENTS, "apps/v1", "Deployment"),
    (NAMESPACES, "v1", "Namespace"),
];

fn custom(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Resource {
    Resource {
        gvk: Gvk::new(group, version, kind),
        plural: plural.into(),
        namespaced,
    }
}

/// From where the copies of a member are.
pub fn origin(control_plane: &str, member: &str) -> CopyOrigin {
    CopyOrigin {
        control_plane: control_plane.into(),
        cluster: member.into(),
    }
}

/// What a control plane serves for sets.
fn resources_of_sets() -> [Resource; 2] {
    let (group, reviews) = ("distribute.fleetdex.io", "authorization.k8s.io");
    [
        custom(group, "v1alpha1", "Distribution", "distributions", true),
        custom(
            reviews,
            "v1",
            "SubjectAccessReview",
            "subjectaccessreviews",
            false,
        ),
    ]
}

/// Creates a control plane with the credentials of all members.
pub fn control_plane(random: &mut StdRng, has_sets: bool) -> Result<Server, Status> {
    let mut options = Options::new(random.random());
    options
        .with_status
        .extend([BINDINGS, CLUSTER_BINDINGS, SETS].map(Name::from));
    options.resources = resources_of_policies();
    if has_sets {
        options.resources.extend(resources_of_sets());
    }
    options.counts_generations = has_sets;
    options.latency = latency(random);
    let server = Server::new(options);
    let annotations = json!({ "fleetdex.io/allowed-hosts": "*.example.com" });
    let metadata = json!({ "name": "member", "namespace": "default", "annotations": annotations });
    server.apply(
        "secrets",
        json!({ "metadata": metadata, "data": { "token": "dG9rZW4=" } }),
    )?;
    let namespace = json!({ "metadata": { "name": NAMESPACE, "labels": { "team": "shop" } } });
    server.apply_as(NAMESPACES, namespace, USER)?;
    for name in MEMBERS {
        let cluster = json!({ "metadata": { "name": name }, "spec": { "syncMode": "Push" } });
        server.apply_as(CLUSTERS, cluster, USER)?;
    }
    Ok(server)
}

/// What a control plane serves that distributes by policies.
fn resources_of_policies() -> Vec<Resource> {
    let (policy, work) = ("policy.karmada.io", "work.karmada.io");
    let mut resources = usual_resources();
    resources.extend([
        custom(
            policy,
            "v1alpha1",
            "PropagationPolicy",
            "propagationpolicies",
            true,
        ),
        custom(
            policy,
            "v1alpha1",
            "ClusterPropagationPolicy",
            "clusterpropagationpolicies",
            false,
        ),
        custom(
            policy,
            "v1alpha1",
            "OverridePolicy",
            "overridepolicies",
            true,
        ),
        custom(
            policy,
            "v1alpha1",
            "ClusterOverridePolicy",
            "clusteroverridepolicies",
            false,
        ),
        custom(
            work,
            "v1alpha2",
            "ResourceBinding",
            "resourcebindings",
            true,
        ),
        custom(
            work,
            "v1alpha2",
            "ClusterResourceBinding",
            "clusterresourcebindings",
            false,
        ),
        custom(
            "cluster.karmada.io",
            "v1alpha1",
            "Cluster",
            "clusters",
            false,
        ),
        custom("coordination.k8s.io", "v1", "Lease", "leases", true),
        custom("events.k8s.io", "v1", "Event", "events", true),
    ]);
    resources
}

/// Creates a member, sometimes with the namespace that most objects are in.
pub fn member(random: &mut StdRng, has_sets: bool) -> Result<Server, Status> {
    let mut options = Options::new(random.random());
    options.counts_generations = has_sets;
    options.latency = latency(random);
    options.largest_page = random.random_ratio(1, 3).then(|| random.random_range(1..6));
    let server = Server::new(options);
    if random.random_ratio(1, 2) {
        let namespace = json!({ "metadata": { "name": NAMESPACE } });
        server.apply_as(NAMESPACES, namespace, USER)?;
    }
    Ok(server)
}

fn latency(random: &mut StdRng) -> Duration {
    Duration::from_millis(random.random_range(1..80))
}

/// Creates a client that says whose it is in each request.
pub fn client(server: &Server, agent: &str) -> kube::Client {
    tagged(server, agent, &Budget::new(intake::MemoryLimits::default()))
}

fn tagged(server: &Server, agent: &str, budget: &Budget) -> kube::Client {
    let (server, agent) = (server.clone(), HeaderValue::from_str(agent).ok());
    hostile::client(
        budget.share("server"),
        Gauge::default(),
        move |mut request| {
            let (server, agent) = (server.clone(), agent.clone());
            async move {
                if let Some(agent) = agent {
                    request.headers_mut().insert(header::USER_AGENT, agent);
                }
                server.respond(request).await
            }
        },
    )
}

/// Connects one operator to the members.
pub struct MemberConnections {
    /// The members.
    pub servers: BTreeMap<ClusterName, Server>,
    /// The operator.
    pub agent: String,
}

#[async_trait]
impl Connect for MemberConnections {
    async fn connect(
        &self,
        member: &Member,
        _: &Credentials,
        _: &Bearer,
    ) -> Result<kube::Client, ConnectError> {
        let server = self.servers.get(&member.name);
        let server = server.ok_or(ConnectError::EndpointMissing)?;
        let budget = Budget::new(intake::MemoryLimits::default());
        Ok(tagged(server, &self.agent, &budget))
    }
}
