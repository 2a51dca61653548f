//! Selects the objects of a unit, and writes their documents to a store.

use std::sync::Arc;

use fleetdex_core::{
    model::{
        ClusterName, Document, FieldPath, FieldValues, IndexName, NameHash, Object, Projection,
        Projector, Resource, SelectableField,
    },
    selector::FieldRequirement,
};
use fleetdex_store::bulk::Write;
use jiff::Timestamp;

use crate::{
    filter::{ObjectFilter, other_paths},
    path_presence::PathPresence,
    pipeline::Pipeline,
    progress::{Progress, SelectionCounts},
    write_trace::WriteTrace,
};

/// Selects the objects of a unit, and hands their documents to the writer of a store.
#[derive(Clone)]
pub struct Sink {
    /// The writer of the store.
    pub pipeline: Pipeline,
    /// Makes the documents.
    pub projector: Projector,
    /// Selects the objects.
    pub filters: Filters,
}

/// Selects objects of a unit: those that any filter selects.
#[derive(Clone, Debug)]
pub struct Filters {
    any_of: Vec<ObjectFilter>,
    /// What several registries select, if that differs: ids, and positions in `any_of`.
    selections: Vec<(Arc<str>, Vec<usize>)>,
    /// Reads the paths that the filters name: selectable fields and any others. It reads the object
    /// as the member has it. The projector of the documents reads its own fields again, of the
    /// object as it is stored.
    reader: Projector,
    path_presence: Arc<PathPresence>,
}

/// Whether a write may wait for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A list is read no faster than the store accepts it.
    ForRoom,
    /// An API server closes a watch that is not read, so that its events are accepted as they come.
    Never,
}

impl Filters {
    /// The filters of one resource of a cluster, whose selectable fields are `fields`. `progress`
    /// tracks which of the other paths have values.
    pub fn new(
        cluster: &ClusterName,
        resource: &Resource,
        filters: Vec<ObjectFilter>,
        fields: &[SelectableField],
        progress: &Progress,
    ) -> Self {
        let paths = other_paths(filters.iter(), fields);
        let others = paths.iter().map(SelectableField::optional);
        let read: Vec<SelectableField> = fields.iter().cloned().chain(others).collect();
        let reader = Projector::new(cluster, resource, &Projection::default(), &read);
        Self {
            any_of: filters,
            selections: Vec::new(),
            reader,
            path_presence: progress.track_paths(paths),
        }
    }

    /// Also counts the objects of these selections, each of which is an id with positions of the
    /// filters that [`Self::new`] got.
    #[must_use]
    pub fn counting(mut self, selections: Vec<(Arc<str>, Vec<usize>)>) -> Self {
        self.selections = selections;
        self
    }

    /// The counts of a list without objects.
    pub fn no_counts(&self) -> SelectionCounts {
        let ids = self.selections.iter().map(|(id, _)| (Arc::clone(id), 0));
        Arc::new(ids.collect())
    }

    /// Whether exactly its selections are counted here.
    pub fn are_counted(&self, counts: &SelectionCounts) -> bool {
        counts.len() == self.selections.len()
            && self
                .selections
                .iter()
                .all(|(id, _)| counts.contains_key(id))
    }

    /// The selections that have an object, if registries select different ones.
    pub fn selections_of(&self, object: &Object<'_>) -> Vec<&Arc<str>> {
        if self.selections.is_empty() {
            return Vec::new();
        }
        let selecting: Vec<usize> = self.selecting(object, |filters| filters.collect());
        let has_any = |filters: &Vec<usize>| filters.iter().any(|at| selecting.contains(at));
        let having = self
            .selections
            .iter()
            .filter(|(_, filters)| has_any(filters));
        having.map(|(id, _)| id).collect()
    }

    /// Whether an object is selected.
    pub fn selects(&self, object: &Object<'_>) -> bool {
        self.any_of.iter().any(ObjectFilter::selects_everything)
            || self.selecting(object, |filters| filters.next().is_some())
    }

    /// Calls `use_filters` with the positions of the filters that select an object.
    fn selecting<T>(
        &self,
        object: &Object<'_>,
        use_filters: impl FnOnce(&mut dyn Iterator<Item = usize>) -> T,
    ) -> T {
        let decides_by_metadata = self.decide_by_metadata();
        let values = (!decides_by_metadata).then(|| self.reader.field_values(object));
        if let Some(values) = &values {
            self.path_presence
                .observe(|path| self.values_at(values, path).next().is_some());
        }
        let meets = |requirement: &FieldRequirement| match requirement.path.as_str() {
            "metadata.name" => requirement.test.accepts(object.name()),
            "metadata.namespace" => requirement
                .test
                .accepts(object.namespace().unwrap_or_default()),
            _ => requirement.test.accepts_among(
                values
                    .iter()
                    .flat_map(|values| self.values_at(values, &requirement.path)),
            ),
        };
        let selects = |filter: &ObjectFilter| {
            filter.selects(object.namespace(), |key| object.label(key), meets)
        };
        let numbered = self.any_of.iter().enumerate();
        let mut selecting = numbered
            .filter(|(_, filter)| selects(filter))
            .map(|(position, _)| position);
        use_filters(&mut selecting)
    }

    fn values_at<'v>(
        &self,
        values: &'v FieldValues<'_>,
        path: &FieldPath,
    ) -> impl Iterator<Item = &'v str> + use<'v> {
        let position = self
            .reader
            .fields()
            .iter()
            .position(|field| field.path == *path);
        position
            .into_iter()
            .flat_map(|position| values.all(position))
    }

    /// Whether the metadata of an object suffices to decide whether it is selected.
    pub fn decide_by_metadata(&self) -> bool {
        self.any_of.iter().all(ObjectFilter::decides_by_metadata)
    }

    /// Notes that every object of a list was observed.
    pub fn list_complete(&self) {
        self.path_presence.list_complete();
    }
}

impl Sink {
    /// The hash of an object's name and namespace.
    pub fn name(&self, object: &Object<'_>) -> NameHash {
        self.projector
            .name(object.namespace().unwrap_or_default(), object.name())
    }

    /// Hands a document over to the writer of the store. `name`: that of its object, where it is
    /// known. `trace`: that of the line or page from which it comes, if it is recorded.
    pub async fn write(
        &self,
        progress: &Arc<Progress>,
        target: &IndexName,
        document: Document,
        name: Option<NameHash>,
        trace: Option<WriteTrace>,
        wait: Wait,
    ) {
        if wait == Wait::ForRoom {
            self.pipeline.queue.wait_for_room().await;
        }
        let write = Write {
            index: target.clone(),
            document,
        };
        let permit = self.pipeline.queue.reserve_large(&write).await;
        let mut ticket = progress.ticket();
        (ticket.permit, ticket.trace) = (permit, trace);
        self.pipeline.queue.submit(write, name, ticket);
    }
}

/// The current time for `search.indexedAt`. Its length is constant, so that simulated runs fill
/// batches alike.
pub(crate) fn indexed_at() -> String {
    Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S.%3fZ")
        .to_string()
}

#[cfg(test)]
#[allow(
    clippy::needless_pass_by_value,
    reason = "`json!` is written where it is passed"
)]
mod tests {
    use fleetdex_core::{kinds, model::Gvk};
    use fleetdex_crds::registry::ResourceRegistrySpec;
    use serde_json::{Value, json};

    use super::*;

    fn filters(
        group: &str,
        kind: &str,
        selector: Value,
        exclude: Value,
    ) -> (Filters, Arc<Progress>) {
        let mut of_kind = json!({ "kind": kind });
        of_kind
            .as_object_mut()
            .unwrap()
            .extend(selector.as_object().unwrap().clone());
        let spec: ResourceRegistrySpec =
            serde_json::from_value(json!({ "resourceSelectors": [of_kind], "exclude": exclude }))
                .unwrap();
        let resource = Resource {
            gvk: Gvk::new(group, "v1", kind),
            plural: "objects".into(),
            namespaced: true,
        };
        let filter = ObjectFilter::new(&spec.resource_selectors[0], &spec, &resource)
            .unwrap()
            .unwrap();
        let cluster: ClusterName = "member1".parse().unwrap();
        let progress = Progress::new(cluster.clone(), Arc::default());
        let fields = kinds::selectable_fields(&resource.gvk).unwrap_or_default();
        (
            Filters::new(&cluster, &resource, vec![filter], fields, &progress),
            progress,
        )
    }

    fn selects(filters: &Filters, object: &Value) -> bool {
        let mut whole = json!({ "metadata": { "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7" } });
        let metadata = object["metadata"].as_object().cloned().unwrap_or_default();
        whole.as_object_mut().unwrap().extend(
            object
                .as_object()
                .unwrap()
                .iter()
                .filter(|(key, _)| *key != "metadata")
                .map(|(key, value)| (key.clone(), value.clone())),
        );
        whole["metadata"].as_object_mut().unwrap().extend(metadata);
        filters.selects(&Object::parse(&whole.to_string()).unwrap())
    }

    fn by(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({ "fieldSelector": { "matchExpressions": [{ "key": key, "operator": operator, "values": values }] } })
    }

    #[test]
    fn any_path_of_any_kind_can_select_objects() {
        let object = json!({
            "metadata": { "annotations": { "a.b/c": "yes" }, "generation": 3 },
            "spec": { "replicas": 2, "paused": true, "ratio": 1.5, "strategy": { "type": "Recreate" },
                      "containers": [{ "image": "x" }, { "image": "y" }] },
        });
        for (group, kind) in [("apps", "Deployment"), ("example.com", "Widget")] {
            for (key, operator, values, expected) in [
                ("spec.replicas", "In", &["2"][..], true),
                ("spec.replicas", "In", &["1", "3"], false),
                ("spec.replicas", "NotIn", &["2"], false),
                ("spec.replicas", "NotIn", &["1"], true),
                ("spec.paused", "In", &["true"], true),
                ("spec.ratio", "In", &["1.5"], true),
                ("spec.strategy.type", "In", &["Recreate"], true),
                ("spec['strategy'].type", "In", &["Recreate"], true),
                ("metadata.annotations['a.b/c']", "In", &["yes"], true),
                ("metadata.generation", "NotIn", &["3"], false),
                ("spec.containers.image", "In", &["y"], true),
                ("spec.containers.image", "NotIn", &["y"], false),
                ("spec.containers.image", "NotIn", &["z"], true),
                ("spec.replicas", "Exists", &[], true),
                ("spec.absent", "Exists", &[], false),
                ("spec.replicas", "DoesNotExist", &[], false),
                ("spec.absent", "DoesNotExist", &[], true),
            ] {
                let (allowing, _) = filters(group, kind, by(key, operator, values), json!([]));
                assert_eq!(
                    selects(&allowing, &object),
                    expected,
                    "{kind}: {key} {operator} {values:?}"
                );
                let mut excluded = by(key, operator, values);
                excluded["kind"] = kind.into();
                let (denying, _) = filters(group, kind, json!({}), json!([excluded]));
                assert_eq!(
                    selects(&denying, &object),
                    !expected,
                    "{kind}: exclude {key} {operator} {values:?}"
                );
            }
        }
    }

    #[test]
    fn a_selectable_field_reads_as_the_apiserver_compares_it() {
        let (nodes, _) = filters(
            "",
            "Node",
            by("spec.unschedulable", "In", &["false"]),
            json!([]),
        );
        assert!(
            selects(&nodes, &json!({ "spec": {} }))
                && !selects(&nodes, &json!({ "spec": { "unschedulable": true } }))
        );
    }

    #[test]
    fn a_filter_cannot_read_the_data_of_a_secret() {
        let (secrets, _) = filters(
            "",
            "Secret",
            by("data.password", "In", &["c2VjcmV0"]),
            json!([]),
        );
        assert!(!selects(
            &secrets,
            &json!({ "data": { "password": "c2VjcmV0" } })
        ));
    }

    #[test]
    fn a_path_without_a_value_is_reported_until_an_object_has_one() {
        let (deployments, progress) = filters(
            "apps",
            "Deployment",
            by("spec.replica", "NotIn", &["2"]),
            json!([]),
        );
        let missing = || {
            progress
                .status()
                .filter_paths
                .map(|found| (found.has_objects, found.missing.len()))
        };
        assert_eq!(missing(), None);
        deployments.path_presence.list_complete();
        assert_eq!(missing(), Some((false, 1)));
        assert!(selects(&deployments, &json!({ "spec": { "replicas": 2 } })));
        assert_eq!(missing(), Some((true, 1)));
        assert!(!selects(&deployments, &json!({ "spec": { "replica": 2 } })));
        assert_eq!(missing(), Some((true, 0)));
        let (pods, progress) = filters("", "Pod", by("spec.nodeName", "In", &["x"]), json!([]));
        selects(&pods, &json!({}));
        pods.path_presence.list_complete();
        assert!(
            progress.status().filter_paths.unwrap().missing.is_empty(),
            "a selectable field is never missing, whether or not it has values"
        );
    }
}
