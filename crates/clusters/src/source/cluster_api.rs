//! Members that Cluster API's `Cluster` objects describe. Nothing is ever written to them.
//!
//! A Cluster is a member from when its infrastructure is provisioned, and stays one until the object is gone: neither `paused` nor a
//! deletion under way makes its objects less worth finding.

use std::{convert::Infallible, time::Duration};

use fleetdex_api::cluster::SecretReference;
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
        member::{Access, KubeconfigSecret, Member},
        request,
    },
    board::{Entry, Feed},
    mirror::{RETRY, explain, follow},
};

const GROUP: &str = "cluster.x-k8s.io";
/// The versions that are understood, the best first.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];
/// The label that shares Clusters among controllers.
const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";
/// The key of a Secret `<name>-kubeconfig`.
const KEYS: &[&str] = &["value"];
const HELP: &str = "install Cluster API, or choose other sources with --cluster-source";
/// Longest wait for the versions of the group.
const LIMIT: Duration = Duration::from_secs(5);

/// Where to look for Clusters.
#[derive(Clone, Debug, Default)]
pub(super) struct Extent {
    /// The namespace; `None`: all.
    pub(super) namespace: Option<String>,
    /// The value of the watch filter's label; `None`: whatever they have.
    pub(super) watch_filter: Option<String>,
}

/// Follows the Clusters in a version that is served.
pub(super) async fn run(hub: Client, extent: Extent, feed: Feed) -> Infallible {
    loop {
        match served_version(&hub).await {
            Ok(version) => follow_version(&hub, version, &extent, &feed).await,
            Err(message) => feed.trouble(message),
        }
        sleep(RETRY).await;
    }
}

async fn follow_version(hub: &Client, version: &str, extent: &Extent, feed: &Feed) {
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(GROUP, version, "Cluster"),
        "clusters",
    );
    let api: Api<DynamicObject> = match &extent.namespace {
        Some(namespace) => Api::namespaced_with(hub.clone(), namespace, &resource),
        None => Api::all_with(hub.clone(), &resource),
    };
    let config = match &extent.watch_filter {
        Some(value) => Config::default().labels(&format!("{WATCH_FILTER}={value}")),
        None => Config::default(),
    };
    follow(api, config, feed, HELP, |cluster| {
        let known = feed.member(&format!(
            "{}/{}",
            cluster.namespace().unwrap_or_default(),
            cluster.name_any()
        ));
        Some(entry(&cluster, known))
    })
    .await;
}

/// The best version that the control plane serves.
async fn served_version(hub: &Client) -> Result<&'static str, String> {
    let answer = request::get(hub, &format!("/apis/{GROUP}"), HeaderMap::new(), LIMIT).await;
    let answer = answer.map_err(|error| {
        explain(
            error.status().map(|status| status.as_u16()),
            &error.to_string(),
            HELP,
        )
    })?;
    let group: APIGroup = serde_json::from_slice(&answer.body)
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
            "none of its versions that are understood is served: {}",
            VERSIONS.join(", ")
        )
    })
}

/// `known`: the member that it was before.
fn entry(cluster: &DynamicObject, known: Option<Member>) -> Entry {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let uid = cluster.uid().unwrap_or_default();
    let connected_before = known
        .filter(|member| member.uid == uid && matches!(member.access, Access::KubeconfigSecret(_)));
    let access = match connected_before {
        // Infrastructure that is being repaired is no reason to let a cluster go that may answer.
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
    Entry {
        member,
        cluster: None,
    }
}

fn access(cluster: &DynamicObject, namespace: &str, name: &str) -> Access {
    let status = &cluster.data["status"];
    let provisioned = [
        &status["initialization"]["infrastructureProvisioned"],
        &status["infrastructureReady"],
    ]
    .iter()
    .any(|field| **field == true);
    if !provisioned {
        let message = "its infrastructure is not provisioned yet; it is connected to as soon as Cluster API says so".to_owned();
        return Access::Awaited {
            reason: "WaitingForInfrastructure",
            message,
        };
    }
    let secret = SecretReference {
        namespace: namespace.to_owned(),
        name: format!("{name}-kubeconfig"),
    };
    Access::KubeconfigSecret(KubeconfigSecret { secret, keys: KEYS })
}
