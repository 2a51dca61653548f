//! A catalog over prepared stores, for tests.
#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "for tests only"
)]

#[cfg(test)]
pub mod watched_fleet;

use std::sync::Arc;

use fleetdex_clusters::{
    Clusters, ConnectionTiming,
    connect::Network,
    discovery::{ResourceCapabilities, ServedResource},
    source::Loader,
};
use fleetdex_core::{
    model::{ClusterName, Gvk, Resource, StoreName},
    query::{Cursor, HeldMemory, Hit, Page, Relative, ResourceName},
};
use fleetdex_store::IndexReader;
use serde_json::{json, value::to_raw_value};
use tokio_util::sync::CancellationToken;

use super::catalog::{Catalog, CatalogEntry};

pub fn cursor(position: u32) -> Cursor {
    Cursor {
        snapshot: "view".to_owned(),
        after: vec![json!(position)],
        remaining: None,
    }
}

pub fn page(names: &[&str], next: Option<Cursor>, remaining: Option<u64>) -> Page {
    let hit = |name: &&str| Hit {
        interpretation: None,
        cluster: cluster("member1"),
        object: to_raw_value(&json!({ "metadata": { "name": name } }))
            .unwrap()
            .into(),
        memory: HeldMemory::default(),
    };
    Page {
        items: names.iter().map(hit).collect(),
        next,
        remaining,
    }
}

pub fn cluster(name: &str) -> ClusterName {
    name.parse().unwrap()
}

/// A relative of member1, in the namespace `shop`.
pub fn relative(group: &str, plural: &str, uid: &str) -> Relative {
    let resource = ResourceName::new(group, plural);
    Relative {
        cluster: cluster("member1"),
        namespace: "shop".to_owned(),
        resource,
        uid: uid.to_owned(),
    }
}

pub fn store(name: &str) -> StoreName {
    name.parse().unwrap()
}

pub fn served(gvk: Gvk, plural: &str, namespaced: bool, short_names: &[&str]) -> ServedResource {
    ServedResource {
        singular: gvk.kind.to_ascii_lowercase().into(),
        resource: Resource {
            gvk,
            plural: plural.into(),
            namespaced,
        },
        short_names: short_names.iter().map(|name| (*name).into()).collect(),
        list_and_watch: true,
        preferred: true,
        capabilities: Arc::new(ResourceCapabilities {
            verbs: "create delete deletecollection get list patch update watch"
                .split(' ')
                .map(Arc::from)
                .collect(),
            categories: Vec::new(),
            subresources: Vec::new(),
        }),
    }
}

pub fn pods() -> ServedResource {
    served(Gvk::new("", "v1", "Pod"), "pods", true, &["po"])
}

/// Pods in member1 and member2, nodes in member1, deployments of an old and a new version: all in
/// the store `main`.
pub fn catalog(main: Arc<dyn IndexReader>) -> Catalog {
    let mut catalog = Catalog::default();
    catalog.add_store(store("main"), main);
    catalog.add_registry("workloads");
    let deployments = |version| {
        let kind = Gvk::new("apps", version, "Deployment");
        served(kind, "deployments", true, &["deploy"])
    };
    let nodes = served(Gvk::new("", "v1", "Node"), "nodes", false, &["no"]);
    for (cluster, served) in [
        ("member1", pods()),
        ("member2", pods()),
        ("member1", nodes),
        ("member1", deployments("v1beta1")),
        ("member2", deployments("v1")),
    ] {
        add(&mut catalog, "main", cluster, &served);
    }
    catalog
}

pub fn add(catalog: &mut Catalog, store_name: &str, cluster_name: &str, served: &ServedResource) {
    let (in_store, of_cluster) = (store(store_name), cluster(cluster_name));
    catalog.add(CatalogEntry {
        served,
        cluster: &of_cluster,
        store: &in_store,
        fields: &[],
        any_path: false,
    });
}

/// No members.
pub fn no_clusters() -> Arc<Clusters> {
    let (loader, network) = (
        Loader::without_control_plane(),
        Arc::new(Network::default()),
    );
    Arc::new(Clusters::new(
        loader,
        network,
        ConnectionTiming::default(),
        CancellationToken::new(),
    ))
}
