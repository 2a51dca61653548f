//! The registered resources and the stores that hold them. The registry controller replaces the
//! catalog whenever they change.

pub mod coverage;
pub mod planned_stream;
mod registered_resource;
mod visible;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use fleetdex_clusters::discovery::{ResourceCapabilities, ServedResource};
use fleetdex_core::{
    model::{ClusterName, Namespace, PrinterColumn, Resource, StoreName},
    query::ResourceName,
};
use fleetdex_store::IndexReader;
use jiff::Timestamp;

pub use self::registered_resource::{CatalogEntry, RegisteredResource, StoredResource};
use self::{coverage::StoreCoverage, planned_stream::PlannedStream};
use crate::api_error::ApiError;

/// A cluster, or one namespace of it.
pub type ClusterNamespace = (ClusterName, Option<Namespace>);

/// Everything that can be queried at one time.
#[derive(Clone, Default)]
pub struct Catalog {
    resources: BTreeMap<ResourceName, RegisteredResource>,
    stores: BTreeMap<StoreName, Arc<dyn IndexReader>>,
    stale: BTreeMap<ClusterName, (Timestamp, String)>,
    /// Resources of which changes wait for the store, and the time of what is shown.
    delayed: BTreeMap<ClusterName, BTreeMap<ResourceName, Timestamp>>,
    registries: BTreeSet<String>,
    /// Why the registries are not known, which say what else is here.
    unread_registries: Option<String>,
    /// Whether flags of `fleetdex local` take the place of registries.
    pub(crate) is_local: bool,
    /// Every stream of the plan.
    pub(crate) streams: Vec<PlannedStream>,
    /// Clusters whose streams may be incomplete, by store.
    pub(crate) incomplete: Vec<(ClusterName, StoreName)>,
    /// Clusters that other replicas read, and the replicas' names.
    peer_clusters: BTreeMap<ClusterName, String>,
    /// What responses about a resource lack, in whole sentences.
    gaps: BTreeMap<ResourceName, BTreeMap<ClusterNamespace, String>>,
    /// Clusters without discovery, and why.
    undiscovered: BTreeMap<ClusterName, String>,
    /// Every cluster of which anything is registered, or should be.
    clusters: BTreeSet<ClusterName>,
    /// Whether clusters are omitted that the caller cannot see.
    pub(crate) is_restricted: bool,
    /// What stores hold of a cluster's objects, if not all of them.
    coverages: BTreeMap<(ResourceName, StoreName, ClusterName), StoreCoverage>,
}

impl Catalog {
    /// Adds a store. Resources in stores that are not added cannot be queried.
    pub fn add_store(&mut self, name: StoreName, store: Arc<dyn IndexReader>) {
        self.stores.insert(name, store);
    }

    /// Adds the name of a registry, for messages that suggest a change.
    pub fn add_registry(&mut self, name: &str) {
        self.registries.insert(name.to_owned());
    }

    /// A catalog without anything, as the registries could not be read; `problem` says why.
    pub fn without_registries(problem: &str) -> Self {
        Self {
            unread_registries: Some(problem.to_owned()),
            ..Self::default()
        }
    }

    /// Refuses requests for objects while the registries are not known.
    pub fn check_registries_are_read(&self) -> Result<(), ApiError> {
        match &self.unread_registries {
            Some(problem) => Err(ApiError::Unavailable(problem.clone())),
            None => Ok(()),
        }
    }

    /// Sets that flags of `fleetdex local` take the place of registries.
    pub fn set_local(&mut self) {
        self.is_local = true;
    }

    /// Sets that the objects of a cluster are stale since some time. `text` completes the sentence
    /// "cluster member2 is …", for example "disconnected since 2026-02-03T10:00:00Z".
    pub fn add_stale(&mut self, cluster: ClusterName, since: Timestamp, text: impl Into<String>) {
        self.stale.insert(cluster, (since, text.into()));
    }

    /// Sets that changes of a resource wait for the store, so that what is shown is of this time.
    pub fn add_delayed(&mut self, cluster: ClusterName, resource: ResourceName, since: Timestamp) {
        let of_cluster = self.delayed.entry(cluster).or_default();
        let earliest = of_cluster.entry(resource).or_insert(since);
        *earliest = since.min(*earliest);
    }

    /// Adds a stream, for verification.
    pub fn add_stream(&mut self, stream: PlannedStream) {
        self.clusters.insert(stream.unit.cluster.clone());
        self.streams.push(stream);
    }

    /// Sets that streams may be missing for a cluster and a store.
    pub fn add_incomplete(&mut self, cluster: ClusterName, store: StoreName) {
        self.clusters.insert(cluster.clone());
        self.incomplete.push((cluster, store));
    }

    /// Adds what responses about a resource lack, in a whole sentence. The first sentence of each
    /// cluster and namespace is used.
    pub fn add_gap(&mut self, scope: ClusterNamespace, resource: ResourceName, sentence: String) {
        let gaps = self.gaps.entry(resource).or_default();
        gaps.entry(scope).or_insert(sentence);
    }

    /// Adds what a store holds of a cluster without discovery.
    pub fn add_remembered(
        &mut self,
        cluster: &ClusterName,
        store: &StoreName,
        resource: Resource,
        any_path: bool,
    ) {
        let capabilities = ResourceCapabilities {
            verbs: ["get", "list", "watch"].map(Arc::from).to_vec(),
            ..ResourceCapabilities::default()
        };
        let served = ServedResource {
            singular: resource.gvk.kind.to_ascii_lowercase().into(),
            resource,
            short_names: Vec::new(),
            list_and_watch: true,
            preferred: true,
            capabilities: Arc::new(capabilities),
        };
        self.add(CatalogEntry {
            served: &served,
            cluster,
            store,
            fields: &[],
            any_path,
        });
    }

    /// Adds a selected cluster without discovery, and why.
    pub fn add_undiscovered(&mut self, cluster: ClusterName, reason: String) {
        self.clusters.insert(cluster.clone());
        self.undiscovered.insert(cluster, reason);
    }

    /// What responses about a resource lack, by cluster and namespace.
    pub fn gaps<'c>(
        &'c self,
        resource: &ResourceName,
    ) -> impl Iterator<Item = (&'c ClusterNamespace, &'c str)> {
        let gaps = self.gaps.get(resource).into_iter().flatten();
        gaps.map(|(scope, sentence)| (scope, sentence.as_str()))
    }

    /// The clusters without discovery, and why.
    pub fn undiscovered(&self) -> impl Iterator<Item = (&ClusterName, &str)> {
        let undiscovered = self.undiscovered.iter();
        undiscovered.map(|(cluster, reason)| (cluster, reason.as_str()))
    }

    /// Adds a cluster that another replica reads, and the replica's name.
    pub fn add_peer_cluster(&mut self, cluster: ClusterName, replica: String) {
        self.peer_clusters.insert(cluster, replica);
    }

    /// The clusters that other replicas read, and the replicas' names.
    pub fn peer_clusters(&self) -> impl Iterator<Item = (&ClusterName, &str)> {
        let clusters = self.peer_clusters.iter();
        clusters.map(|(cluster, replica)| (cluster, replica.as_str()))
    }

    /// Registers one resource of one cluster. Kind, singular and scope of built-in resources are
    /// Kubernetes'. Where clusters disagree about others, the majority wins: no single member
    /// decides for all.
    pub fn add(&mut self, entry: CatalogEntry<'_>) {
        let resource = &entry.served.resource;
        let name = ResourceName::from(resource);
        self.clusters.insert(entry.cluster.clone());
        self.resources
            .entry(name)
            .or_insert_with_key(|name| RegisteredResource::new(name, entry.served))
            .add(entry);
    }

    /// Sets the columns of a custom resource of a cluster, if it is registered. Where clusters
    /// disagree, the majority wins.
    pub fn add_columns(
        &mut self,
        cluster: &ClusterName,
        name: &ResourceName,
        version: &Arc<str>,
        columns: &Arc<[PrinterColumn]>,
    ) {
        let Some(registered) = self.resources.get_mut(name) else {
            return;
        };
        let known = registered.columns.entry(Arc::clone(version)).or_default();
        match known.iter_mut().find(|(known, _)| known == columns) {
            Some((_, clusters)) => drop(clusters.insert(cluster.clone())),
            None => known.push((Arc::clone(columns), [cluster.clone()].into())),
        }
    }

    /// Adds what a store holds of a cluster's objects of a resource; without it, all of them.
    pub fn add_coverage(
        &mut self,
        name: &ResourceName,
        store: &StoreName,
        cluster: &ClusterName,
        coverage: &StoreCoverage,
    ) {
        let key = (name.clone(), store.clone(), cluster.clone());
        self.coverages.entry(key).or_default().extend(coverage);
    }

    /// What a store holds of a cluster's objects of a resource, if it was added.
    pub fn coverage(
        &self,
        name: &ResourceName,
        store: &StoreName,
        cluster: &ClusterName,
    ) -> Option<&StoreCoverage> {
        self.coverages
            .get(&(name.clone(), store.clone(), cluster.clone()))
    }

    /// Every store, by name.
    pub fn stores(&self) -> impl Iterator<Item = (&StoreName, &Arc<dyn IndexReader>)> {
        self.stores.iter()
    }

    /// The resource of this name.
    pub fn find(&self, name: &ResourceName) -> Option<&RegisteredResource> {
        self.resources.get(name)
    }

    /// Every resource, sorted by group and plural.
    pub fn resources(&self) -> impl Iterator<Item = &RegisteredResource> {
        self.resources.values()
    }

    /// The store of this name.
    pub fn store(&self, name: &StoreName) -> Option<&Arc<dyn IndexReader>> {
        self.stores.get(name)
    }

    /// Whether the same resources of the same clusters are in the same stores as in another
    /// catalog.
    pub fn holds_like(&self, other: &Self) -> bool {
        self.clusters == other.clusters
            && self.coverages == other.coverages
            && self.stores.keys().eq(other.stores.keys())
            && self.resources == other.resources
    }

    /// Why the objects of a cluster are stale, if they are.
    pub fn stale(&self, cluster: &ClusterName) -> Option<&str> {
        self.stale.get(cluster).map(|(_, text)| text.as_str())
    }

    /// Since when the objects of a cluster are stale, if they are.
    pub fn stale_since(&self, cluster: &ClusterName) -> Option<Timestamp> {
        self.stale.get(cluster).map(|(since, _)| *since)
    }

    /// Since when changes of a cluster wait for the store, if they do: those of one resource, or of
    /// any.
    pub fn delayed_since(
        &self,
        cluster: &ClusterName,
        resource: Option<&ResourceName>,
    ) -> Option<Timestamp> {
        let of_cluster = self.delayed.get(cluster)?;
        match resource {
            Some(resource) => of_cluster.get(resource).copied(),
            None => of_cluster.values().min().copied(),
        }
    }

    /// The registries, sorted.
    pub fn registries(&self) -> impl Iterator<Item = &str> {
        self.registries.iter().map(String::as_str)
    }

    /// Whether a cluster has streams, or should have some.
    pub fn has_streams_of(&self, cluster: &ClusterName) -> bool {
        let mut streams = self.streams.iter();
        streams.any(|stream| stream.unit.cluster == *cluster)
            || self.incomplete.iter().any(|(name, _)| name == cluster)
    }

    /// Whether anything of a cluster is stored, or should be.
    pub fn knows_cluster(&self, cluster: &ClusterName) -> bool {
        self.clusters.contains(cluster)
    }

    /// Every cluster of which anything is stored, or should be.
    pub fn clusters(&self) -> &BTreeSet<ClusterName> {
        &self.clusters
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Catalog")
            .field("resources", &self.resources)
            .field("stores", &self.stores.keys())
            .field("clusters", &self.clusters)
            .finish_non_exhaustive()
    }
}
