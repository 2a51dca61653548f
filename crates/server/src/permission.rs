//! What of a list the caller may see: the place where the front's decisions meet the catalog and the stores.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use fleetdex_core::{
    model::{ClusterName, Namespace},
    query::{Grant, GroupKey, Permitted, Query, Relative, Requester, ResourceName},
};
use tokio::time::timeout;

use super::{
    caller::Caller,
    catalog::Catalog,
    front::{
        attributes::Attributes,
        authorize::{Holders, Permission, Wanted},
        standing::Standing,
    },
    gate::Gate,
    request::ListRequest,
    status::ApiError,
    target::{asked_clusters, target},
};

/// How long the store may take to tell which namespaces hold objects.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The part of the catalog that a request is answered from: what its caller may know of, and nothing that depends on other clusters. Every path
/// that leads to members or to what is stored of them begins here.
///
/// A name that the caller may not see is refused alike whether a cluster has it or not; a cluster that is not named and may not be seen is one
/// that does not exist. `resource`: the only one that the request is about.
pub async fn sight(
    gate: &Gate,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    named: &[ClusterName],
    resource: Option<&ResourceName>,
) -> Result<Arc<Catalog>, ApiError> {
    Ok(
        match visible_clusters(gate, caller, catalog, named).await? {
            None => Arc::clone(catalog),
            Some(visible) => Arc::new(catalog.seen_by(&visible, resource)),
        },
    )
}

/// The clusters that a caller may see, of those that are named or of all that there are; nothing if it is all of them.
pub async fn visible_clusters(
    gate: &Gate,
    caller: &Caller,
    catalog: &Catalog,
    named: &[ClusterName],
) -> Result<Option<BTreeSet<ClusterName>>, ApiError> {
    let Gate::Front(front) = gate else {
        return Ok(None);
    };
    front
        .authorizer()
        .clusters(caller, named, catalog.clusters())
        .await
}

/// What of the objects that a request asks for its caller may see. `catalog`: what the caller may know of. An error if it is nothing.
pub async fn permission(
    gate: &Gate,
    caller: &Caller,
    catalog: &Catalog,
    request: &ListRequest,
) -> Result<Permission, ApiError> {
    let Gate::Front(front) = gate else {
        return Ok(Permission::default());
    };
    let native = &request.native;
    let resource = ResourceName::new(&native.group, &native.plural);
    // What is not registered is not found, whoever asks.
    let Some(registered) = catalog.find(&resource) else {
        return Ok(Permission::default());
    };
    let clusters: Vec<ClusterName> = asked_clusters(registered, request).into_iter().collect();
    let wanted = Wanted {
        verb: verb(request),
        resource: &resource,
        version: &native.version,
        namespaced: registered.namespaced,
        name: native.name.as_deref(),
        namespaces: &request.namespaces,
        clusters: &clusters,
        only_these: catalog.is_restricted(),
    };
    front
        .authorizer()
        .permission(
            caller,
            &wanted,
            &StoredNamespaces {
                caller,
                catalog,
                request,
            },
        )
        .await
}

/// What a watch goes on by; nothing if nobody has to be asked.
pub fn standing(
    gate: &Gate,
    caller: &Caller,
    request: &ListRequest,
    permitted: &Permitted,
    let_in_as: Option<Attributes>,
) -> Option<Standing> {
    let Gate::Front(front) = gate else {
        return None;
    };
    let native = &request.native;
    (!caller.may_everything()).then_some(Standing {
        authorizer: front.authorizer().clone(),
        caller: caller.clone(),
        outer: let_in_as?,
        resource: ResourceName::new(&native.group, &native.plural),
        version: native.version.clone(),
        name: native.name.clone(),
        permitted: permitted.clone(),
    })
}

/// What somebody sees of objects of any kind.
pub struct Sight<'s> {
    /// Who decides.
    pub gate: &'s Gate,
    /// Who looks.
    pub caller: &'s Caller,
    /// What the caller may know of.
    pub catalog: &'s Catalog,
}

impl Sight<'_> {
    /// Those of some objects that the caller may list.
    pub async fn of(&self, found: BTreeSet<Relative>) -> Result<Vec<Relative>, ApiError> {
        let Gate::Front(front) = self.gate else {
            return Ok(found.into_iter().collect());
        };
        let mut by_resource: BTreeMap<ResourceName, Vec<Relative>> = BTreeMap::new();
        for relative in found {
            by_resource
                .entry(relative.resource.clone())
                .or_default()
                .push(relative);
        }
        let mut seen = Vec::new();
        for (resource, relatives) in by_resource {
            // What is not registered any more has no version to ask about.
            let Some(registered) = self.catalog.find(&resource) else {
                continue;
            };
            let clusters: BTreeSet<&ClusterName> =
                relatives.iter().map(|relative| &relative.cluster).collect();
            let namespaces: BTreeSet<&str> = relatives
                .iter()
                .map(|relative| relative.namespace.as_str())
                .collect();
            let wanted = Wanted {
                verb: "list",
                resource: &resource,
                version: registered.versions.first().map_or("", |version| version),
                namespaced: registered.namespaced,
                name: None,
                namespaces: &namespaces
                    .into_iter()
                    .filter_map(|name| name.parse().ok())
                    .collect::<Vec<_>>(),
                clusters: &clusters.into_iter().cloned().collect::<Vec<_>>(),
                only_these: self.catalog.is_restricted(),
            };
            match front
                .authorizer()
                .permission(self.caller, &wanted, &NoOthers)
                .await
            {
                Ok(Permission { permitted, .. }) => {
                    let may_be_seen = |relative: &Relative| {
                        permitted.allows(relative.cluster.as_str(), &relative.namespace)
                    };
                    seen.extend(relatives.into_iter().filter(may_be_seen));
                }
                Err(ApiError::Forbidden(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(seen)
    }
}

/// No namespaces but those of the objects in question.
struct NoOthers;

#[async_trait]
impl Holders for NoOthers {
    async fn namespaces(&self) -> Result<BTreeMap<ClusterName, Vec<Namespace>>, ApiError> {
        Ok(BTreeMap::new())
    }
}

/// What a list or watch is for somebody who may see it.
fn verb(request: &ListRequest) -> &'static str {
    match request.native.name {
        _ if request.follow.watch => "watch",
        Some(_) => "get",
        None => "list",
    }
}

/// The namespaces that hold the resource in the stores that would answer.
struct StoredNamespaces<'r> {
    caller: &'r Caller,
    catalog: &'r Catalog,
    request: &'r ListRequest,
}

#[async_trait]
impl Holders for StoredNamespaces<'_> {
    async fn namespaces(&self) -> Result<BTreeMap<ClusterName, Vec<Namespace>>, ApiError> {
        let found = target(self.catalog, self.request, Permitted::Everything)?;
        if found.nothing_to_ask {
            return Ok(BTreeMap::new());
        }
        // Of all objects, so that a refusal tells nothing about which of them selectors match.
        let Query {
            resource,
            selectable,
            limit,
            clusters,
            namespaces,
            ..
        } = found.query;
        let permitted = self.within();
        // The caller waits among its own questions, and nothing is kept open that would end the caller's lists.
        let requester = Requester::User(self.caller.name.as_str().into());
        let everything = Query {
            clusters,
            namespaces,
            permitted,
            requester,
            ..Query::all_of(resource, selectable, limit)
        };
        let keys = [GroupKey::Cluster, GroupKey::Namespace];
        let asked = timeout(TIMEOUT, found.stores.groups(&everything, &keys)).await;
        let groups = asked.map_err(|_| ApiError::Timeout(TIMEOUT.as_secs()))??;
        let mut held: BTreeMap<ClusterName, Vec<Namespace>> = BTreeMap::new();
        for group in groups.groups {
            let [Some(cluster), Some(namespace)] = group.values.as_slice() else {
                continue;
            };
            let (Ok(cluster), Ok(namespace)) = (cluster.parse(), namespace.parse()) else {
                continue;
            };
            held.entry(cluster).or_default().push(namespace);
        }
        Ok(held)
    }
}

impl StoredNamespaces<'_> {
    /// The clusters that the caller may know of: what others hold decides nothing.
    fn within(&self) -> Permitted {
        if !self.catalog.is_restricted() {
            return Permitted::Everything;
        }
        Permitted::Only(vec![Grant {
            clusters: Some(self.catalog.clusters().iter().cloned().collect()),
            namespaces: None,
        }])
    }
}
