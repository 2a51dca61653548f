//! Which stores answer a request, and for which clusters and namespaces each of them does.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use fleetdex_core::{
    model::{ClusterName, StoreName},
    query::{Grant, ResourceName},
};
use fleetdex_query_api::question::{ListRequest, StoreKind};
use fleetdex_store::merged::{Merged, StorePart};

use super::checks::not_registered;
use crate::{
    api_error::ApiError,
    catalog::{
        Catalog, RegisteredResource, StoredResource,
        coverage::{Overlap, StoreCoverage, assign},
    },
};

/// The clusters that hold the resource, of those that the request names, or of all.
pub(crate) fn requested_clusters(
    registered: &RegisteredResource,
    request: &ListRequest,
) -> BTreeSet<ClusterName> {
    let held = stored_by(registered, request).flat_map(|(_, stored)| &stored.clusters);
    held.filter(|name| request.clusters.is_empty() || request.clusters.contains(name))
        .cloned()
        .collect()
}

/// What each store holds of the resource, for stores of the kind that the path names.
fn stored_by<'r>(
    registered: &'r RegisteredResource,
    request: &ListRequest,
) -> impl Iterator<Item = (&'r StoreName, &'r StoredResource)> {
    let kind = request.store_kind;
    let stores = registered.by_store.iter();
    stores.filter(move |(name, _)| kind.is_none_or(|kind| kind.is_of(name)))
}

/// A hash of what the stores hold that a request selects, whatever its clusters are. Where it stays
/// the same, the same stores answer for the same objects.
pub(crate) fn holdings_hash(catalog: &Catalog, request: &ListRequest) -> u64 {
    let mut hasher = DefaultHasher::new();
    let name = ResourceName::new(&request.resource.group, &request.resource.plural);
    let Some(registered) = catalog.find(&name) else {
        return hasher.finish();
    };
    let stores: Vec<_> = stored_by(registered, request).collect();
    for (store, stored) in &stores {
        store.hash(&mut hasher);
        // A store that is alone answers for everything that it holds.
        if stores.len() > 1 {
            for cluster in &stored.clusters {
                (cluster, catalog.coverage(&name, store, cluster)).hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}

/// The store that the request names, or else all stores that hold a part of the result.
pub(super) fn select_stores(
    catalog: &Catalog,
    registered: &RegisteredResource,
    request: &ListRequest,
    asked: &BTreeSet<ClusterName>,
) -> Result<Merged, ApiError> {
    let names = || {
        let names = stored_by(registered, request).map(|(name, _)| name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let name = &registered.name;
    if let Some(wanted) = &request.store {
        let (wanted, stored) = registered.by_store.get_key_value(wanted).ok_or_else(|| {
            let problem = format!(
                "parameter store: {wanted} does not hold {name}; these do: {}",
                names()
            );
            ApiError::BadRequest(problem)
        })?;
        let only = part(catalog, registered, wanted, stored, None)?;
        return Ok(Merged::new(vec![only.clone()], vec![only.store]));
    }
    check_kind_of_store(registered, request)?;
    let everything = StoreCoverage::everything();
    let coverage_of = |store: &StoreName, cluster: &ClusterName| {
        let coverage = catalog.coverage(&registered.name, store, cluster);
        coverage.unwrap_or(&everything)
    };
    let mut holders: BTreeMap<&StoreName, BTreeMap<&ClusterName, &StoreCoverage>> = BTreeMap::new();
    for (store, stored) in stored_by(registered, request) {
        let clusters = stored.clusters.iter();
        let covered = clusters.map(|cluster| (cluster, coverage_of(store, cluster)));
        holders.insert(store, covered.collect());
    }
    let mut shares = assign(&holders, asked).map_err(|Overlap { cluster, stores }| {
        let stores = stores.iter().map(StoreName::as_str).collect::<Vec<_>>().join(" and ");
        let problem = format!("{stores} hold {name} of cluster {cluster} by labels or fields, so that some may be in both");
        ApiError::BadRequest(format!("{problem}; choose with the parameter store: {}", names()))
    })?;
    if shares.is_empty() {
        // A query needs a store even if no cluster of the request holds the resource. That store is
        // not queried.
        shares.extend(holders.keys().next().map(|store| ((*store).clone(), None)));
    }
    let mut parts = Vec::with_capacity(shares.len());
    for (store, area) in shares {
        let Some(stored) = registered.by_store.get(&store) else {
            continue;
        };
        parts.push(part(catalog, registered, &store, stored, area)?);
    }
    let is_selected = |store: &StoreName| request.store_kind.is_none_or(|kind| kind.is_of(store));
    let all = catalog.stores().filter(|(store, _)| is_selected(store));
    let all = all.map(|(_, store)| Arc::clone(store)).collect();
    Ok(Merged::new(parts, all))
}

/// Refuses a kind of store that does not hold the resource.
fn check_kind_of_store(
    registered: &RegisteredResource,
    request: &ListRequest,
) -> Result<(), ApiError> {
    let Some(kind) = request.store_kind else {
        return Ok(());
    };
    if stored_by(registered, request).next().is_some() {
        return Ok(());
    }
    let called = match kind {
        StoreKind::Embedded => "the embedded store",
        StoreKind::OpenSearch => "OpenSearch",
    };
    let name = &registered.name;
    let problem = format!("no ResourceRegistry keeps {name} in {called}");
    Err(not_registered(name, problem))
}

fn part(
    catalog: &Catalog,
    registered: &RegisteredResource,
    name: &StoreName,
    stored: &StoredResource,
    area: Option<Vec<Grant>>,
) -> Result<StorePart, ApiError> {
    let unconnected = || ApiError::Unavailable(format!("store {name} is not connected yet"));
    let store = catalog.store(name).ok_or_else(unconnected)?;
    Ok(StorePart {
        name: name.clone(),
        store: Arc::clone(store),
        selectable: registered.selectable(stored),
        area,
    })
}

/// What the selected stores hold together.
pub(super) fn union(registered: &RegisteredResource, stores: &Merged) -> StoredResource {
    let mut all = StoredResource::default();
    let parts = stores.parts().iter();
    for stored in parts.filter_map(|part| registered.by_store.get(&part.name)) {
        all.clusters.extend(stored.clusters.iter().cloned());
        for (version, clusters) in &stored.versions {
            let of_version = all.versions.entry(Arc::clone(version)).or_default();
            of_version.extend(clusters.iter().cloned());
        }
    }
    all
}
