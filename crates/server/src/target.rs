//! Which stores answer a list, and what they are asked. Needs nothing but the catalog.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    model::{ClusterName, Gvk, PrinterColumn, StoreName},
    query::{
        Grant, InCluster, Ordered, Permitted, Query, QueryError, Requester, ResourceName,
        Selectable, Sort, SortKey, UnsupportedField, dsl,
    },
};
use fleetdex_store::merged::{Merged, Part};
use jiff::Timestamp;
use kube::core::Version;

use super::{
    catalog::{Catalog, Holding, Place, Registered, qualified},
    options::OrderBy,
    reach::{Overlap, Reach, shares},
    representation::{Layout, Representation},
    request::{Engine, ListRequest},
    status::ApiError,
    table::Table,
};

/// Objects in one page, whatever limit is asked for: bounds the memory that one request holds. A client that asked for more
/// gets a `continue` token with fewer objects, as Kubernetes allows.
pub const PAGE: usize = 1_000;
/// Clusters that one warning names.
const MAX_NAMES: usize = 5;
/// Clusters in `metadata.asOf`.
const MAX_AS_OF: usize = 100;
/// Bytes of one warning: ten of them are a fifth of what clients take as headers. What members say may be long.
const MAX_SENTENCE_BYTES: usize = 512;
/// Warnings in one answer; further clusters are only counted.
const MAX_WARNINGS: usize = 10;

/// A list, ready to be asked.
pub struct Target {
    /// The stores that answer, each for its part.
    pub stores: Merged,
    /// What they are asked; the limit is one page's.
    pub query: Query,
    /// The kind of the objects, in the version that the path names.
    pub kind: Gvk,
    /// The columns of the kind, if it is a custom resource and they are known.
    pub columns: Option<Arc<[PrinterColumn]>>,
    /// Of clusters whose objects are not those of this moment: since when. The first ones, if they are very many.
    pub as_of: BTreeMap<ClusterName, Timestamp>,
    /// What the client should know about the answer.
    pub warnings: Vec<String>,
    /// None of the clusters asked for holds the resource: the answer is an empty list.
    pub nothing_to_ask: bool,
}

impl Target {
    /// How its objects are shown.
    pub fn layout(&self, representation: Representation) -> Layout {
        let table = || Table::of(&self.kind, self.columns.as_deref());
        Layout::new(representation, self.kind.clone(), table, Timestamp::now())
    }
}

/// Finds the stores that answer a list. Whoever may see less than everything gets an answer of nothing more than that.
pub fn target(
    catalog: &Catalog,
    request: &ListRequest,
    permitted: Permitted,
) -> Result<Target, ApiError> {
    let native = &request.native;
    let name = ResourceName::new(&native.group, &native.plural);
    let registered = catalog
        .find(&name)
        .ok_or_else(|| not_selected(catalog, &name))?;
    check_version(registered, &native.version)?;
    check_namespaces(registered, request)?;
    check_clusters(catalog, registered, request)?;
    let asked = asked_clusters(registered, request);
    let stores = choose(catalog, registered, request, &asked)?;
    let holding = &together(registered, &stores);
    let clusters: Vec<ClusterName> = request
        .clusters
        .iter()
        .filter(|name| asked.contains(*name))
        .cloned()
        .collect();
    let [first, others @ ..] = stores.parts() else {
        return Err(ApiError::Internal(format!(
            "no store holds {}",
            qualified(&registered.name)
        )));
    };
    let selectable = first.selectable.clone();
    let order = |part: &Part| {
        let sorts = sort(&part.selectable, &request.options.order_by);
        sorts.map_err(|error| refused("orderBy", &error.into(), &part.name))
    };
    let query = Query {
        resource: name,
        namespaces: request.namespaces.clone(),
        names: request.names.clone(),
        permitted,
        labels: request.labels.clone(),
        fields: request.fields.clone(),
        sort: order(first)?,
        selectable,
        since: request.options.since,
        before: request.options.before,
        owners: None,
        requester: Requester::Operator,
        limit: request.limit.map_or(PAGE, |limit| limit.get().min(PAGE)),
        clusters,
    };
    for part in others {
        if order(part)? != query.sort {
            let problem =
                "parameter orderBy: the stores that hold the objects order them by different rules";
            return Err(ApiError::BadRequest(format!(
                "{problem}; choose with the parameter store: {}",
                stores.names()
            )));
        }
    }
    for part in stores.parts() {
        part.query(&query)
            .check()
            .map_err(|error| refused("fieldSelector", &error, &part.name))?;
    }
    // What is too large for OpenSearch is refused whichever store answers: a question should not depend on where it is kept.
    dsl::query_clause(&query).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let is_asked =
        |name: &ClusterName| request.clusters.is_empty() || request.clusters.contains(name);
    // Of clusters that the caller may not see nothing is told either.
    let answers = |name: &ClusterName| {
        is_asked(name) && query.permitted.in_cluster(name) != InCluster::Nothing
    };
    let as_of = as_of(catalog, holding, answers);
    let warnings = warnings(
        catalog,
        registered,
        request,
        holding,
        &query.permitted,
        answers,
    );
    Ok(Target {
        nothing_to_ask: query.clusters.is_empty() && !request.clusters.is_empty(),
        stores,
        query,
        kind: Gvk::new(&native.group, &native.version, &registered.kind),
        columns: registered.columns(&native.version),
        as_of,
        warnings,
    })
}

/// The stores that answer a list at the moment.
pub(super) fn stores(catalog: &Catalog, request: &ListRequest) -> Result<Merged, ApiError> {
    let name = ResourceName::new(&request.native.group, &request.native.plural);
    let registered = catalog
        .find(&name)
        .ok_or_else(|| not_selected(catalog, &name))?;
    choose(
        catalog,
        registered,
        request,
        &asked_clusters(registered, request),
    )
}

/// A parameter that the store cannot answer, and what would change that.
pub fn refused(parameter: &str, error: &QueryError, store: &StoreName) -> ApiError {
    let remedy = match error {
        QueryError::UnsupportedField(_) if *store != StoreName::embedded() => {
            "; spec.backendStore.openSearch.fieldPaths of a ResourceRegistry makes others selectable"
        }
        _ => "",
    };
    ApiError::bad_request(format!("parameter {parameter}: {error}{remedy}"))
}

/// The order that was asked for, or the standard one.
fn sort(selectable: &Selectable, order: &[OrderBy]) -> Result<Vec<Sort>, UnsupportedField> {
    if order.is_empty() {
        return Ok(Sort::standard());
    }
    let mut sorts = Vec::with_capacity(order.len());
    for by in order {
        let key = match by.field.as_str() {
            "cluster" => SortKey::Cluster,
            "namespace" => SortKey::Namespace,
            "name" => SortKey::Name,
            "metadata.creationTimestamp" | "created_at" => SortKey::CreationTimestamp,
            field => match selectable.ordered(field)? {
                Ordered::Always(_) => continue,
                Ordered::Name => SortKey::Name,
                Ordered::Namespace => SortKey::Namespace,
                Ordered::Field(path, kind) => SortKey::Field(path, kind),
            },
        };
        sorts.push(Sort {
            key,
            descending: by.descending,
        });
    }
    Ok(sorts)
}

fn not_selected(catalog: &Catalog, name: &ResourceName) -> ApiError {
    if let Some((cluster, why)) = catalog.unread().next() {
        let message = format!(
            "{} are not known yet: cluster {cluster}, which may have them, is {why}",
            qualified(name)
        );
        return not_registered(name, cut(message));
    }
    if catalog.is_local() {
        let called = qualified(name);
        return not_registered(
            name,
            format!(
                "fleetdex local does not read {called}: start it with --resource {called}, and the others"
            ),
        );
    }
    let registries: Vec<&str> = catalog.registries().collect();
    if catalog.is_restricted() {
        return not_registered(
            name,
            format!(
                "no ResourceRegistry selects {} of a cluster that you may see",
                qualified(name)
            ),
        );
    }
    let remedy = if registries.is_empty() {
        "there is no ResourceRegistry yet; create one".to_owned()
    } else {
        format!(
            "add it to spec.resourceSelectors of one ({})",
            registries.join(", ")
        )
    };
    not_registered(
        name,
        format!("no ResourceRegistry selects {}: {remedy}", qualified(name)),
    )
}

fn not_registered(name: &ResourceName, message: String) -> ApiError {
    ApiError::NotRegistered {
        group: name.group.to_string(),
        plural: name.plural.to_string(),
        message,
    }
}

/// Any version of the group finds the objects, also one that no cluster serves any more: an older client should not have to know. What is
/// no version at all is a slip.
fn check_version(registered: &Registered, version: &str) -> Result<(), ApiError> {
    let is_version = !matches!(Version::parse(version), Version::Nonconformant(_));
    if is_version || registered.versions.iter().any(|known| &**known == version) {
        return Ok(());
    }
    let known: Vec<&str> = registered.versions.iter().map(|known| &**known).collect();
    let name = &registered.name;
    let message = format!(
        "{} is not registered in version {version}, but in {}",
        qualified(name),
        known.join(", ")
    );
    Err(not_registered(name, message))
}

/// The apiserver has no such path for a resource without namespaces; our parameter for it means nothing.
fn check_namespaces(registered: &Registered, request: &ListRequest) -> Result<(), ApiError> {
    if registered.namespaced || request.namespaces.is_empty() {
        return Ok(());
    }
    let problem = format!("{} live in no namespace", qualified(&registered.name));
    if request.native.namespace.is_some() {
        return Err(not_registered(&registered.name, problem));
    }
    Err(ApiError::bad_request(format!(
        "parameter namespaces: {problem}"
    )))
}

/// Every cluster that is named has to exist, and the path's has to hold the resource.
fn check_clusters(
    catalog: &Catalog,
    registered: &Registered,
    request: &ListRequest,
) -> Result<(), ApiError> {
    if let Some(unknown) = request
        .clusters
        .iter()
        .find(|name| !catalog.knows_cluster(name))
    {
        return Err(ApiError::NoSuchCluster(unknown.clone()));
    }
    let Some(name) = request
        .path_cluster
        .as_ref()
        .filter(|name| !registered.is_held_for(name))
    else {
        return Ok(());
    };
    let message = format!(
        "no ResourceRegistry selects {} of cluster {name}",
        qualified(&registered.name)
    );
    Err(not_registered(&registered.name, message))
}

/// The clusters that hold the resource, of those that were asked for.
pub(super) fn asked_clusters(
    registered: &Registered,
    request: &ListRequest,
) -> BTreeSet<ClusterName> {
    let held = holdings(registered, request).flat_map(|(_, holding)| &holding.clusters);
    held.filter(|name| request.clusters.is_empty() || request.clusters.contains(name))
        .cloned()
        .collect()
}

/// Who holds the resource, of the kind of store that the path names.
fn holdings<'r>(
    registered: &'r Registered,
    request: &ListRequest,
) -> impl Iterator<Item = (&'r StoreName, &'r Holding)> {
    let engine = request.engine;
    registered
        .holdings
        .iter()
        .filter(move |(name, _)| engine.is_none_or(|engine| engine.is_of(name)))
}

/// The store that was named, or else all that hold a part of the answer.
fn choose(
    catalog: &Catalog,
    registered: &Registered,
    request: &ListRequest,
    asked: &BTreeSet<ClusterName>,
) -> Result<Merged, ApiError> {
    let names = || {
        holdings(registered, request)
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let name = qualified(&registered.name);
    if let Some(wanted) = &request.store {
        let (wanted, holding) = registered.holdings.get_key_value(wanted).ok_or_else(|| {
            let problem = format!(
                "parameter store: {wanted} does not hold {name}; these do: {}",
                names()
            );
            ApiError::BadRequest(problem)
        })?;
        let only = part(catalog, registered, wanted, holding, None)?;
        return Ok(Merged::new(vec![only.clone()], vec![only.store]));
    }
    if let Some(engine) = request.engine
        && holdings(registered, request).next().is_none()
    {
        let kind = if engine == Engine::Embedded {
            "the embedded store"
        } else {
            "OpenSearch"
        };
        return Err(not_registered(
            &registered.name,
            format!("no ResourceRegistry keeps {name} in {kind}"),
        ));
    }
    let everything = Reach::everything();
    let reach = |store: &StoreName, cluster: &ClusterName| {
        catalog
            .reach(&registered.name, store, cluster)
            .unwrap_or(&everything)
    };
    let mut holders: BTreeMap<&StoreName, BTreeMap<&ClusterName, &Reach>> = BTreeMap::new();
    for (store, holding) in holdings(registered, request) {
        holders.insert(
            store,
            holding
                .clusters
                .iter()
                .map(|cluster| (cluster, reach(store, cluster)))
                .collect(),
        );
    }
    let mut shares = shares(&holders, asked).map_err(|Overlap { cluster, stores }| {
        let stores = stores.iter().map(StoreName::as_str).collect::<Vec<_>>().join(" and ");
        let problem = format!("{stores} hold {name} of cluster {cluster} by labels or fields, so that some may be in both");
        ApiError::BadRequest(format!("{problem}; choose with the parameter store: {}", names()))
    })?;
    if shares.is_empty() {
        // Nothing is asked of it.
        shares.extend(holders.keys().next().map(|store| ((*store).clone(), None)));
    }
    let mut parts = Vec::with_capacity(shares.len());
    for (store, area) in shares {
        let Some(holding) = registered.holdings.get(&store) else {
            continue;
        };
        parts.push(part(catalog, registered, &store, holding, area)?);
    }
    let is_asked = |store: &StoreName| request.engine.is_none_or(|engine| engine.is_of(store));
    let all = catalog
        .stores()
        .filter(|(store, _)| is_asked(store))
        .map(|(_, store)| Arc::clone(store))
        .collect();
    Ok(Merged::new(parts, all))
}

fn part(
    catalog: &Catalog,
    registered: &Registered,
    name: &StoreName,
    holding: &Holding,
    area: Option<Vec<Grant>>,
) -> Result<Part, ApiError> {
    let store = catalog
        .store(name)
        .ok_or_else(|| ApiError::Unavailable(format!("store {name} is not connected yet")))?;
    Ok(Part {
        name: name.clone(),
        store: Arc::clone(store),
        selectable: registered.selectable(holding),
        area,
    })
}

/// What the stores that answer hold together.
fn together(registered: &Registered, stores: &Merged) -> Holding {
    let mut all = Holding::default();
    for holding in stores
        .parts()
        .iter()
        .filter_map(|part| registered.holdings.get(&part.name))
    {
        all.clusters.extend(holding.clusters.iter().cloned());
        for (version, clusters) in &holding.versions {
            all.versions
                .entry(Arc::clone(version))
                .or_default()
                .extend(clusters.iter().cloned());
        }
    }
    all
}

/// A sentence of which a header has room for several.
fn cut(mut sentence: String) -> String {
    if sentence.len() > MAX_SENTENCE_BYTES {
        sentence.truncate(sentence.floor_char_boundary(MAX_SENTENCE_BYTES));
        sentence.push_str(" ...");
    }
    sentence
}

/// Objects keep the `apiVersion` that their cluster serves: one sentence for each version other than the one asked for.
fn other_versions(
    registered: &Registered,
    request: &ListRequest,
    holding: &Holding,
    answers: impl Fn(&ClusterName) -> bool,
) -> Vec<String> {
    let asked = &request.native.version;
    let mut sentences = Vec::new();
    for (version, clusters) in holding
        .versions
        .iter()
        .filter(|(version, _)| ***version != **asked)
    {
        let names = clusters.iter().filter(|name| answers(name));
        let names: Vec<&str> = names.map(ClusterName::as_str).collect();
        let shown = names
            .iter()
            .take(MAX_NAMES)
            .copied()
            .collect::<Vec<_>>()
            .join(", ");
        let whose = match names.len() {
            0 => continue,
            1 => format!("cluster {shown}"),
            2..=MAX_NAMES => format!("clusters {shown}"),
            count => format!("clusters {shown} and {} more", count - MAX_NAMES),
        };
        sentences.push(format!(
            "{} of {whose} are in version {version}, not {asked}",
            qualified(&registered.name)
        ));
    }
    sentences
}

fn as_of(
    catalog: &Catalog,
    holding: &Holding,
    answers: impl Fn(&ClusterName) -> bool,
) -> BTreeMap<ClusterName, Timestamp> {
    let answering = holding.clusters.iter().filter(|name| answers(name));
    answering
        .filter_map(|name| Some((name.clone(), catalog.stale_since(name)?)))
        .take(MAX_AS_OF)
        .collect()
}

fn warnings(
    catalog: &Catalog,
    registered: &Registered,
    request: &ListRequest,
    holding: &Holding,
    permitted: &Permitted,
    answers: impl Fn(&ClusterName) -> bool + Copy,
) -> Vec<String> {
    let mut warnings = other_versions(registered, request, holding, answers);
    let missing = request
        .clusters
        .iter()
        .filter(|name| !holding.clusters.contains(*name));
    for name in missing {
        warnings.push(format!(
            "no ResourceRegistry selects {} of cluster {name}",
            qualified(&registered.name)
        ));
    }
    for name in holding.clusters.iter().filter(|name| answers(name)) {
        if let Some(since) = catalog.stale(name) {
            warnings.push(cut(format!("cluster {name} is {since}")));
        }
    }
    let is_shown = |(cluster, namespace): &Place| {
        answers(cluster)
            && namespace.as_ref().is_none_or(|name| {
                let is_asked = request.namespaces.is_empty() || request.namespaces.contains(name);
                is_asked && permitted.allows(cluster.as_str(), name.as_str())
            })
    };
    for (_, sentence) in catalog
        .gaps(&registered.name)
        .filter(|(place, _)| is_shown(place))
    {
        warnings.push(cut(sentence.to_owned()));
    }
    for (name, why) in catalog
        .unread()
        .filter(|(name, _)| answers(name) && !holding.clusters.contains(*name))
    {
        let what = qualified(&registered.name);
        warnings.push(cut(format!(
            "whether cluster {name} has {what} is not known: it is {why}"
        )));
    }
    let surplus = warnings.len().saturating_sub(MAX_WARNINGS);
    if surplus > 0 {
        warnings.truncate(MAX_WARNINGS);
        warnings.push(format!("{surplus} more warnings of this kind are left out"));
    }
    warnings
}
