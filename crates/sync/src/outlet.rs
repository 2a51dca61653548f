//! Where the objects of a unit go, which of them, and as what.

use std::sync::Arc;

use fleetdex_core::{
    model::{
        ClusterName, Document, FieldPath, FieldValues, IndexName, NameHash, Object, Projection,
        Projector, Resource, SelectableField, Version,
    },
    selector::FieldRequirement,
};
use fleetdex_store::bulk::Write;

use super::{progress::Progress, sought::Sought};
use crate::{
    filter::{ObjectFilter, other_paths},
    pipeline::Pipeline,
};

/// Where the objects of a unit go.
#[derive(Clone)]
pub struct Outlet {
    /// The writer of the store.
    pub pipeline: Pipeline,
    /// Makes the documents.
    pub projector: Projector,
    /// Which objects.
    pub filters: Filters,
}

/// Which objects of a unit are wanted: those that any filter wants.
#[derive(Clone, Debug)]
pub struct Filters {
    any_of: Vec<ObjectFilter>,
    /// Reads what the filters name, of the object as the member has it: selectable fields and any other path.
    reader: Projector,
    sought: Arc<Sought>,
}

/// A document that is to be deleted.
#[derive(Clone, Debug)]
pub struct Deleted {
    /// Its id.
    pub id: Arc<str>,
    /// The version of the deletion.
    pub version: Version,
    /// The name of its object, where it is known.
    pub name: Option<NameHash>,
}

/// Whether a write may wait for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A list is read no faster than the store takes it.
    ForRoom,
    /// A watch that is not read is closed by the apiserver: its events are taken as they come.
    Never,
}

impl Filters {
    /// The filters of one resource of a cluster, whose selectable fields are `fields`. `progress` is told what is found at other paths.
    pub fn new(
        cluster: &ClusterName,
        resource: &Resource,
        filters: Vec<ObjectFilter>,
        fields: &[SelectableField],
        progress: &Progress,
    ) -> Self {
        let sought = other_paths(filters.iter(), fields);
        let others = sought.iter().map(SelectableField::optional);
        let read: Vec<SelectableField> = fields.iter().cloned().chain(others).collect();
        let reader = Projector::new(cluster, resource, &Projection::default(), &read);
        Self {
            any_of: filters,
            reader,
            sought: progress.seek(sought),
        }
    }

    fn want(&self, object: &Object<'_>) -> bool {
        if self.any_of.iter().any(ObjectFilter::wants_everything) {
            return true;
        }
        let decides_by_metadata = self.decide_by_metadata();
        let values = (!decides_by_metadata).then(|| self.reader.field_values(object));
        if let Some(values) = &values {
            self.sought
                .look(|path| self.values_at(values, path).next().is_some());
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
        self.any_of
            .iter()
            .any(|filter| filter.wants(object.namespace(), |key| object.label(key), meets))
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

    fn decide_by_metadata(&self) -> bool {
        self.any_of.iter().all(ObjectFilter::decides_by_metadata)
    }
}

impl Outlet {
    /// Whether a document should be made of an object.
    pub fn wants(&self, object: &Object<'_>) -> bool {
        self.filters.want(object)
    }

    /// Whether what an object's metadata says is enough to tell whether it is wanted.
    pub fn decides_by_metadata(&self) -> bool {
        self.filters.decide_by_metadata()
    }

    /// Every object of a list has been looked at.
    pub fn list_complete(&self) {
        self.filters.sought.complete();
    }

    /// Hands a change over to the writer.
    async fn send(
        &self,
        progress: &Arc<Progress>,
        write: Write,
        name: Option<NameHash>,
        is_partial: bool,
        wait: Wait,
    ) {
        if wait == Wait::ForRoom {
            self.pipeline.room().await;
        }
        let room = self.pipeline.room_for_large(&write).await;
        self.pipeline.submit(
            write,
            name,
            progress.ticket().keeping(room).of_part(is_partial),
        );
    }

    /// What an object is called.
    pub fn name(&self, object: &Object<'_>) -> NameHash {
        self.projector
            .name(object.namespace().unwrap_or_default(), object.name())
    }

    /// Writes the document of an object of this name.
    pub async fn index(
        &self,
        progress: &Arc<Progress>,
        target: &IndexName,
        document: Document,
        name: NameHash,
        wait: Wait,
    ) {
        let Document {
            id,
            version,
            body,
            is_partial,
        } = document;
        self.send(
            progress,
            Write {
                index: target.clone(),
                id,
                version,
                body: Some(body),
            },
            Some(name),
            is_partial,
            wait,
        )
        .await;
    }

    /// Deletes a document.
    pub async fn delete(
        &self,
        progress: &Arc<Progress>,
        target: &IndexName,
        deleted: Deleted,
        wait: Wait,
    ) {
        let Deleted { id, version, name } = deleted;
        self.send(
            progress,
            Write {
                index: target.clone(),
                id,
                version,
                body: None,
            },
            name,
            false,
            wait,
        )
        .await;
    }
}

#[cfg(test)]
#[allow(
    clippy::needless_pass_by_value,
    reason = "`json!` is written where it is passed"
)]
mod tests {
    use fleetdex_api::registry::ResourceRegistrySpec;
    use fleetdex_core::{kinds, model::Gvk};
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

    fn wants(filters: &Filters, object: &Value) -> bool {
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
        filters.want(&Object::parse(&whole.to_string()).unwrap())
    }

    fn by(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({ "fieldSelector": { "matchExpressions": [{ "key": key, "operator": operator, "values": values }] } })
    }

    #[test]
    fn any_path_of_an_object_of_any_kind_can_be_selected_by() {
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
                    wants(&allowing, &object),
                    expected,
                    "{kind}: {key} {operator} {values:?}"
                );
                let mut excluded = by(key, operator, values);
                excluded["kind"] = kind.into();
                let (denying, _) = filters(group, kind, json!({}), json!([excluded]));
                assert_eq!(
                    wants(&denying, &object),
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
            wants(&nodes, &json!({ "spec": {} }))
                && !wants(&nodes, &json!({ "spec": { "unschedulable": true } }))
        );
    }

    #[test]
    fn the_data_of_a_secret_cannot_be_guessed_by_a_filter() {
        let (secrets, _) = filters(
            "",
            "Secret",
            by("data.password", "In", &["c2VjcmV0"]),
            json!([]),
        );
        assert!(!wants(
            &secrets,
            &json!({ "data": { "password": "c2VjcmV0" } })
        ));
    }

    #[test]
    fn a_path_that_no_object_of_a_complete_list_has_is_known_until_one_has_it() {
        let (deployments, progress) = filters(
            "apps",
            "Deployment",
            by("spec.replica", "NotIn", &["2"]),
            json!([]),
        );
        let missing = || {
            progress
                .view()
                .sought
                .map(|found| (found.has_objects, found.missing.len()))
        };
        assert_eq!(missing(), None);
        deployments.sought.complete();
        assert_eq!(missing(), Some((false, 1)));
        assert!(wants(&deployments, &json!({ "spec": { "replicas": 2 } })));
        assert_eq!(missing(), Some((true, 1)));
        assert!(!wants(&deployments, &json!({ "spec": { "replica": 2 } })));
        assert_eq!(missing(), Some((true, 0)));
        let (pods, progress) = filters("", "Pod", by("spec.nodeName", "In", &["x"]), json!([]));
        wants(&pods, &json!({}));
        pods.sought.complete();
        assert!(
            progress.view().sought.unwrap().missing.is_empty(),
            "a selectable field is one, whether or not it has values"
        );
    }
}
