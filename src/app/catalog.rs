//! The catalog that queries are resolved against: from the plan, and from what runs of it.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use fleetdex_clusters::{MemberState, discovery::ServedResource, source::is_duplicate};
use fleetdex_core::{
    model::{ClusterName, Resource, Scope, SelectableField, StoreName, Unit, interpreted_fields},
    query::ResourceName,
};
use fleetdex_operator::{
    completeness::IncompleteReason,
    controller::Publish,
    plan::Plan,
    stream_supervisor::{ObservedStreams, StreamSupervisor},
};
use fleetdex_server::catalog::{
    Catalog, CatalogEntry,
    coverage::StoreCoverage,
    planned_stream::{NoAudit, PlannedStream},
};
use fleetdex_store::Checkpoints;
use fleetdex_sync::{checkpoints, filter::ObjectFilter};
use jiff::Timestamp;
use tokio::sync::watch;

/// Publishes the catalog to the query API.
pub(super) struct CatalogPublisher(pub(super) watch::Sender<Arc<Catalog>>);

impl Publish for CatalogPublisher {
    fn publish(
        &self,
        plan: &Plan,
        supervisor: &StreamSupervisor,
        members: &BTreeMap<ClusterName, MemberState>,
    ) {
        self.0
            .send_replace(Arc::new(catalog(plan, supervisor, members)));
    }

    fn registries_unread(&self, problem: &str) {
        self.0
            .send_replace(Arc::new(Catalog::without_registries(problem)));
    }
}

/// The catalog of the kinds that are planned and stored.
pub fn catalog(
    plan: &Plan,
    supervisor: &StreamSupervisor,
    members: &BTreeMap<ClusterName, MemberState>,
) -> Catalog {
    let mut catalog = Catalog::default();
    for name in plan.registries.keys() {
        catalog.add_registry(name);
    }
    let fields = add_stores(&mut catalog, plan, supervisor);
    add_kinds(&mut catalog, plan, supervisor, members, &fields);
    for (cluster, member) in members {
        for (name, version, definition) in member
            .definitions
            .iter()
            .flat_map(|definitions| definitions.iter())
        {
            catalog.add_columns(cluster, name, version, &definition.columns);
        }
    }
    add_stale(&mut catalog, members);
    add_undiscovered(&mut catalog, plan, supervisor, members);
    for (stream, reason) in supervisor.incomplete_streams() {
        let resource = ResourceName::from(&stream.unit.resource);
        let warning = incompleteness_warning(&resource, &stream.unit, &reason);
        if let IncompleteReason::Delayed { since, .. } = &reason {
            catalog.add_delayed(stream.unit.cluster.clone(), resource.clone(), *since);
        }
        let namespace = match stream.unit.scope {
            Scope::All => None,
            Scope::Namespace(namespace) => Some(namespace),
        };
        catalog.add_gap((stream.unit.cluster, namespace), resource, warning);
    }
    add_streams(&mut catalog, plan, supervisor, members);
    for ((store, cluster), _) in plan
        .coverage
        .iter()
        .filter(|(_, coverage)| !coverage.certain)
    {
        catalog.add_incomplete(cluster.clone(), store.clone());
    }
    catalog
}

/// Adds the stores that are open. Returns the selectable fields that each has besides those of the
/// kinds.
fn add_stores<'p>(
    catalog: &mut Catalog,
    plan: &'p Plan,
    supervisor: &StreamSupervisor,
) -> BTreeMap<&'p StoreName, Vec<SelectableField>> {
    let mut fields = BTreeMap::new();
    // Queries of objects that are moving to another location may still be answered from the former
    // one.
    for name in supervisor.locations().former() {
        if let Some(open) = supervisor.reader(name) {
            catalog.add_store(name.clone(), open);
        }
    }
    for (name, store) in &plan.stores {
        if let Some(open) = supervisor.reader(name) {
            catalog.add_store(name.clone(), open);
        }
        let extra: Vec<SelectableField> = store
            .field_paths
            .iter()
            .map(SelectableField::optional)
            .collect();
        fields.insert(name, extra);
    }
    fields
}

/// Adds the kinds that each store has of each cluster.
fn add_kinds(
    catalog: &mut Catalog,
    plan: &Plan,
    supervisor: &StreamSupervisor,
    members: &BTreeMap<ClusterName, MemberState>,
    fields: &BTreeMap<&StoreName, Vec<SelectableField>>,
) {
    let ObservedStreams {
        rebuilding,
        missing_fields,
        ..
    } = supervisor.observed();
    let locations = supervisor.locations();
    for (stream, unit_plan) in &plan.streams {
        let unit = &stream.unit;
        let member = members.get(&unit.cluster);
        let Some(served) = member.and_then(|member| served_resource(member, &unit.resource)) else {
            continue;
        };
        let defined: Vec<SelectableField> = if missing_fields.contains(stream) {
            Vec::new()
        } else {
            unit_plan
                .fields
                .iter()
                .map(SelectableField::optional)
                .collect()
        };
        for route in &unit_plan.routes {
            let in_store = locations
                .serving(&route.registry, &unit.cluster)
                .unwrap_or(&route.store);
            let extra = fields.get(in_store).map_or(&[][..], Vec::as_slice);
            let fields = if defined.is_empty() {
                Cow::Borrowed(extra)
            } else {
                Cow::Owned([&defined, extra].concat())
            };
            let is_rebuilding = || rebuilding.contains(&(in_store.clone(), unit.cluster.clone()));
            let store = plan.stores.get(in_store);
            let is_interpreted = unit_plan.rules.is_some() && !is_rebuilding();
            let fields = if is_interpreted {
                Cow::Owned([&fields, interpreted_fields()].concat())
            } else {
                fields
            };
            let any_path = *in_store == StoreName::embedded()
                || store.is_some_and(|store| store.projection.is_full() && !is_rebuilding());
            catalog.add(CatalogEntry {
                served,
                cluster: &unit.cluster,
                store: in_store,
                fields: &fields,
                any_path,
            });
            catalog.add_coverage(
                &ResourceName::from(&unit.resource),
                in_store,
                &unit.cluster,
                &coverage_of(&route.filter),
            );
        }
    }
}

/// A resource as a member serves it.
fn served_resource<'m>(member: &'m MemberState, resource: &Resource) -> Option<&'m ServedResource> {
    let discovery = member.discovery.as_ref()?;
    discovery
        .served
        .iter()
        .find(|served| served.resource == *resource)
}

/// Adds the clusters that are not connected, whose documents may be old.
fn add_stale(catalog: &mut Catalog, members: &BTreeMap<ClusterName, MemberState>) {
    for (name, member) in members
        .iter()
        .filter(|(_, member)| member.connection.is_none() && !is_duplicate(member))
    {
        // Without the message, which names addresses and Secrets: administrators find it in the
        // status.
        catalog.add_stale(
            name.clone(),
            member.since,
            format!("disconnected since {} ({})", member.since, member.reason),
        );
    }
}

/// Adds the clusters that have not been read since the start, with the kinds that are stored of
/// them.
fn add_undiscovered(
    catalog: &mut Catalog,
    plan: &Plan,
    supervisor: &StreamSupervisor,
    members: &BTreeMap<ClusterName, MemberState>,
) {
    for (store, cluster) in plan.coverage.keys() {
        let Some(member) = members
            .get(cluster)
            .filter(|member| member.discovery.is_none() && !is_duplicate(member))
        else {
            continue;
        };
        let why = match supervisor.assignment_for(store).other_reader(cluster) {
            // The other replica may read it, but what it serves is not known here.
            Some(replica) => format!("{}; replica {replica} reads it", member.reason),
            None => member.reason.to_owned(),
        };
        catalog.add_undiscovered(
            cluster.clone(),
            format!("not read since the start of Fleetdex ({why})"),
        );
        let remembered = supervisor
            .pipeline(store)
            .and_then(|pipeline| pipeline.checkpoints.loaded(cluster));
        if let Some(remembered) = remembered {
            let any_path = plan
                .stores
                .get(store)
                .is_some_and(|plan| plan.is_embedded() || plan.projection.is_full());
            add_remembered(catalog, (store, any_path), &remembered, member.since, &why);
        }
    }
}

/// Adds the streams that can be verified here, and the replicas that read the others.
fn add_streams(
    catalog: &mut Catalog,
    plan: &Plan,
    supervisor: &StreamSupervisor,
    members: &BTreeMap<ClusterName, MemberState>,
) {
    for stream in plan.streams.keys() {
        let assignment = supervisor.assignment_for(&stream.store);
        if let Some(replica) = assignment.other_reader(&stream.unit.cluster) {
            catalog.add_peer_cluster(stream.unit.cluster.clone(), replica.to_string());
        }
        let why_not = || match assignment.other_reader(&stream.unit.cluster) {
            Some(replica) => NoAudit::ReadBy(replica.to_string()),
            None => NoAudit::NotRunning(why_not_running(members.get(&stream.unit.cluster))),
        };
        let audit = supervisor.audit(stream).cloned().ok_or_else(why_not);
        catalog.add_stream(PlannedStream {
            unit: stream.unit.clone(),
            store: stream.store.clone(),
            audit,
        });
    }
}

/// The objects of a cluster that a filter lets into a store.
fn coverage_of(filter: &ObjectFilter) -> StoreCoverage {
    if filter.decides_by_namespace() {
        StoreCoverage::of_namespaces(filter.namespaces(), filter.excluded_namespaces())
    } else {
        StoreCoverage::some_of(filter.namespaces())
    }
}

/// Adds what a store has of a cluster whose discovery is missing, by its checkpoints. `since`
/// counts where these have no time.
fn add_remembered(
    catalog: &mut Catalog,
    (store, any_path): (&StoreName, bool),
    remembered: &Checkpoints,
    since: Timestamp,
    why: &str,
) {
    let cluster = &remembered.cluster;
    for resource in checkpoints::resources(remembered) {
        catalog.add_remembered(cluster, store, resource, any_path);
    }
    let at = remembered.at.unwrap_or(since);
    catalog.add_stale(
        cluster.clone(),
        at,
        format!("not read since the start of Fleetdex, and as it was at {at} ({why})"),
    );
}

/// The warning of an incomplete stream.
fn incompleteness_warning(
    resource: &ResourceName,
    unit: &Unit,
    incomplete: &IncompleteReason,
) -> String {
    let what = match &unit.scope {
        Scope::All => format!("{} of cluster {}", resource, unit.cluster),
        Scope::Namespace(namespace) => format!(
            "{} in namespace {namespace} of cluster {}",
            resource, unit.cluster
        ),
    };
    match incomplete {
        IncompleteReason::FirstList => {
            format!("{what} are being read and are not shown completely yet")
        }
        // Without the message of the member or the store, which may name addresses: it is in the
        // status of the registry.
        IncompleteReason::Failing {
            reason,
            is_shown: false,
            ..
        } => format!("{what} are not shown ({reason})"),
        IncompleteReason::Failing {
            reason,
            is_shown: true,
            ..
        } => format!("{what} are as they were last read ({reason})"),
        IncompleteReason::Delayed { since, reason } => {
            let why = reason
                .as_ref()
                .map(|reason| format!(" ({reason})"))
                .unwrap_or_default();
            format!("{what} are as they were at {since}: later changes wait for the store{why}")
        }
        IncompleteReason::Disconnected => {
            format!(
                "{what} are as they were last read (their cluster is disconnected from the replica that reads it)"
            )
        }
        IncompleteReason::Unknown(replica) => {
            format!(
                "whether {what} are shown completely is not known yet: replica {replica}, which reads them, has not reported yet"
            )
        }
    }
}

/// Why a stream of the plan does not run here.
fn why_not_running(member: Option<&MemberState>) -> String {
    match member {
        Some(MemberState {
            connection: None,
            since,
            reason,
            message,
            ..
        }) => {
            format!("the cluster is disconnected since {since}: {reason}: {message}")
        }
        Some(_) => "its stream has not started".to_owned(),
        None => "the cluster is not a member".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_core::query::Permitted;
    use fleetdex_query_api::question::{ListRequest, ResourcePath};
    use fleetdex_server::read::query_plan::plan;
    use fleetdex_store::{Checkpoint, KindOfUnit, memory::Memory};

    use super::*;

    #[test]
    fn stored_objects_of_a_member_that_was_never_read_are_shown_with_a_warning() {
        let cluster: ClusterName = "member1".parse().unwrap();
        let store: StoreName = "main".parse().unwrap();
        let kind = KindOfUnit {
            kind: "Pod".into(),
            namespaced: true,
        };
        let checkpoint = Checkpoint {
            plan: "all".to_owned(),
            version: "7".parse().unwrap(),
            objects: 3,
            selected: Arc::default(),
            kind: Some(kind),
        };
        let at: Timestamp = "2026-02-03T10:00:00Z".parse().unwrap();
        let remembered = Checkpoints {
            cluster: cluster.clone(),
            revision: 1,
            index: "a".into(),
            units: [("v1/pods".to_owned(), checkpoint)].into(),
            at: Some(at),
        };
        let mut catalog = Catalog::default();
        catalog.add_store(store.clone(), Arc::new(Memory::new()));
        catalog.add_undiscovered(
            cluster.clone(),
            "not read since the start of Fleetdex (dial)".to_owned(),
        );
        let native = |plural: &str| ResourcePath {
            version: "v1".to_owned(),
            plural: plural.to_owned(),
            ..ResourcePath::default()
        };
        let ask = |catalog: &Catalog, plural: &str| {
            plan(
                catalog,
                &ListRequest {
                    resource: native(plural),
                    ..ListRequest::default()
                },
                Permitted::Everything,
            )
        };
        let refused = ask(&catalog, "pods").err().unwrap();
        assert_eq!(
            (refused.code(), refused.to_string().as_str()),
            (
                404,
                "pods are not known yet: cluster member1, which may have them, is not read since the start of Fleetdex (dial)"
            )
        );
        add_remembered(
            &mut catalog,
            (&store, true),
            &remembered,
            Timestamp::UNIX_EPOCH,
            "dial",
        );
        let found = ask(&catalog, "pods").unwrap();
        assert_eq!(found.as_of, [(cluster, at)].into());
        assert_eq!(
            found.warnings,
            [
                "cluster member1 is not read since the start of Fleetdex, and as it was at 2026-02-03T10:00:00Z (dial)"
            ]
        );
        assert!(ask(&catalog, "nodes").is_err());
    }
}
