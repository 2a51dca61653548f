//! Members described by Cluster API's `Cluster` objects, which are never written.
//!
//! A Cluster is connected once its infrastructure is provisioned, and stays a member until the
//! object is gone: the objects of a cluster that is paused or being deleted are still worth
//! finding.

use std::{convert::Infallible, time::Duration};

use fleetdex_crds::cluster::LocalSecretReference;
use http::HeaderMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup;
use kube::{
    Api, Client, ResourceExt,
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::watcher::Config,
};
use tokio::time::sleep;

use super::{
    super::{
        member::{KubeconfigSecret, Member, MemberAccess},
        request,
    },
    NOT_SERVED_RETRY,
    aggregator::{SourceEntry, SourceWriter},
    reflector::{explain, reflect},
};

const GROUP: &str = "cluster.x-k8s.io";
/// The supported versions, the preferred one first.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];
/// The label that assigns Clusters to controllers.
const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";
/// The key of a Secret `<name>-kubeconfig` that holds the kubeconfig.
const KEYS: &[&str] = &["value"];
const HELP: &str = "install Cluster API, or choose other sources with --cluster-source";
/// Timeout of the request for the versions of the group.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Which Clusters to watch.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterApiScope {
    /// The namespace; `None` for all namespaces.
    pub(super) namespace: Option<String>,
    /// The value of the watch filter label; `None` for any value.
    pub(super) watch_filter: Option<String>,
}

/// Reflects the Clusters in a version that is served.
pub(super) async fn run(
    control_plane: Client,
    scope: ClusterApiScope,
    writer: SourceWriter,
) -> Infallible {
    loop {
        match served_version(&control_plane).await {
            Ok(version) => reflect_version(&control_plane, version, &scope, &writer).await,
            Err(message) => writer.report_error(message),
        }
        sleep(NOT_SERVED_RETRY).await;
    }
}

async fn reflect_version(
    control_plane: &Client,
    version: &str,
    scope: &ClusterApiScope,
    writer: &SourceWriter,
) {
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(GROUP, version, "Cluster"),
        "clusters",
    );
    let api: Api<DynamicObject> = match &scope.namespace {
        Some(namespace) => Api::namespaced_with(control_plane.clone(), namespace, &resource),
        None => Api::all_with(control_plane.clone(), &resource),
    };
    let config = match &scope.watch_filter {
        Some(value) => Config::default().labels(&format!("{WATCH_FILTER}={value}")),
        None => Config::default(),
    };
    reflect(api, config, writer, HELP, |cluster| {
        let previous = writer.member(&format!(
            "{}/{}",
            cluster.namespace().unwrap_or_default(),
            cluster.name_any()
        ));
        Some(entry(&cluster, previous))
    })
    .await;
}

/// The preferred version that the control plane serves.
async fn served_version(control_plane: &Client) -> Result<&'static str, String> {
    let response = request::get(
        control_plane,
        &format!("/apis/{GROUP}"),
        HeaderMap::new(),
        TIMEOUT,
    )
    .await;
    let response = response.map_err(|error| {
        explain(
            error.status().map(|status| status.as_u16()),
            &error.to_string(),
            HELP,
        )
    })?;
    let group: APIGroup = serde_json::from_slice(&response.body)
        .map_err(|_| format!("/apis/{GROUP} was not answered by an APIGroup"))?;
    let is_served = |version: &&str| {
        group
            .versions
            .iter()
            .any(|served| served.version == **version)
    };
    let served = VERSIONS.into_iter().find(is_served);
    served.ok_or_else(|| {
        format!(
            "it is served in none of the supported versions: {}",
            VERSIONS.join(", ")
        )
    })
}

/// `previous` is the member that the Cluster described before.
fn entry(cluster: &DynamicObject, previous: Option<Member>) -> SourceEntry {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let uid = cluster.uid().unwrap_or_default();
    let connected_before = previous.filter(|member| {
        member.uid == uid && matches!(member.access, MemberAccess::KubeconfigSecret(_))
    });
    let access = match connected_before {
        // Infrastructure that is being repaired does not mean that the cluster is unreachable: keep
        // the connection.
        Some(member) => member.access,
        None => access(cluster, &namespace, &name),
    };
    let member = match format!("{namespace}/{name}").parse() {
        Err(_) => Err("it has no name".to_owned()),
        Ok(full_name) => Ok(Member {
            name: full_name,
            uid,
            generation: cluster.metadata.generation,
            labels: cluster.labels().clone(),
            provider: None,
            region: None,
            zones: Vec::new(),
            origin: format!("Cluster API Cluster {namespace}/{name}"),
            created: cluster.creation_timestamp().map(|time| time.0),
            access,
        }),
    };
    SourceEntry {
        member,
        cluster_object: None,
    }
}

fn access(cluster: &DynamicObject, namespace: &str, name: &str) -> MemberAccess {
    let status = &cluster.data["status"];
    let provisioned = [
        &status["initialization"]["infrastructureProvisioned"],
        &status["infrastructureReady"],
    ]
    .iter()
    .any(|field| **field == true);
    if !provisioned {
        let message = "its infrastructure is not provisioned yet; the cluster is connected as soon as Cluster API reports that it is".to_owned();
        return MemberAccess::Awaited {
            reason: "WaitingForInfrastructure",
            message,
        };
    }
    let secret = LocalSecretReference {
        namespace: namespace.to_owned(),
        name: format!("{name}-kubeconfig"),
    };
    MemberAccess::KubeconfigSecret(KubeconfigSecret { secret, keys: KEYS })
}
