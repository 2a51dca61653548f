//! Decides which objects of a resource one selector of a registry selects.

use std::collections::BTreeSet;

use fleetdex_core::{
    model::{FieldPath, Namespace, Resource, SelectableField, split_api_version},
    selector::{FieldRequirement, FieldSelector, FieldTest, InvalidRequirement, LabelSelector},
};
use fleetdex_crds::registry::{ObjectFieldSelector, ResourceRegistrySpec, ResourceSelector};
use serde_json::{Value, json};

/// A label or field selector of a registry is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSelector {
    /// The label selector.
    #[error("labelSelector of {kind}: {reason}")]
    Labels {
        /// Kind of the resource selector.
        kind: String,
        /// Why it is invalid.
        reason: InvalidRequirement,
    },
    /// The field selector.
    #[error(
        "fieldSelector of {kind}: unknown operator {operator:?} of {key:?}, expected In, NotIn, Exists or DoesNotExist"
    )]
    Fields {
        /// Kind of the resource selector.
        kind: String,
        /// The field.
        key: String,
        /// The operator.
        operator: String,
    },
}

/// Selects the objects of one resource that `allow` holds for and no `deny` does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectFilter {
    allow: Criteria,
    deny: Vec<Criteria>,
}

/// Conditions that must all hold; the default holds for every object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Criteria {
    /// Only these namespaces; `None`: all.
    namespaces: Option<BTreeSet<Namespace>>,
    /// None of these namespaces.
    excluded: BTreeSet<Namespace>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl ObjectFilter {
    /// All that identifies it, in a form that no change of the code changes: it decides whether a
    /// stream lists again.
    pub fn identity(&self) -> Value {
        let Self { allow, deny } = self;
        let deny: Vec<Value> = deny.iter().map(Criteria::identity).collect();
        json!([allow.identity(), deny])
    }

    /// The filter of `selector`, one of the selectors of `spec`, for a resource that it names.
    /// `None` when `spec.exclude` leaves nothing.
    ///
    /// For a cluster-scoped resource, namespaces of an allowing selector are ignored, and a denying
    /// selector with namespaces does not apply.
    pub fn new(
        selector: &ResourceSelector,
        spec: &ResourceRegistrySpec,
        resource: &Resource,
    ) -> Result<Option<Self>, InvalidSelector> {
        let mut allow = Criteria::new(selector)?;
        if !resource.namespaced {
            allow.namespaces = None;
            allow.excluded.clear();
        }
        let mut deny = Vec::new();
        for excluded in spec
            .exclude
            .iter()
            .filter(|excluded| excludes(excluded, resource))
        {
            let criteria = Criteria::new(excluded)?;
            if !resource.namespaced && criteria.names_namespaces() {
                continue;
            }
            if criteria.selects_objects() || !criteria.excluded.is_empty() {
                deny.push(criteria);
                continue;
            }
            let Some(namespaces) = criteria.namespaces else {
                return Ok(None);
            };
            allow.excluded.extend(namespaces);
        }
        Ok(allow.without_excluded().map(|allow| Self { allow, deny }))
    }

    /// Whether the filter selects every object.
    pub fn selects_everything(&self) -> bool {
        self.deny.is_empty() && self.allow == Criteria::default()
    }

    /// Whether name, namespace and labels suffice to decide whether an object is selected.
    pub fn decides_by_metadata(&self) -> bool {
        self.paths().next().is_none()
    }

    /// Whether the filter selects an object. `label` returns a label of the object; `meets` decides
    /// whether a field meets a requirement.
    pub fn selects<'a>(
        &self,
        namespace: Option<&str>,
        label: impl Fn(&str) -> Option<&'a str>,
        meets: impl Fn(&FieldRequirement) -> bool,
    ) -> bool {
        let holds = |criteria: &Criteria| criteria.hold(namespace, &label, &meets);
        holds(&self.allow) && !self.deny.iter().any(holds)
    }

    /// The only namespaces whose objects are selected; `None`: all.
    pub fn namespaces(&self) -> Option<&BTreeSet<Namespace>> {
        self.allow.namespaces.as_ref()
    }

    /// Every path of an object that the filter reads, except `metadata.name` and
    /// `metadata.namespace`.
    pub fn paths(&self) -> impl Iterator<Item = &FieldPath> {
        let criteria = std::iter::once(&self.allow).chain(&self.deny);
        let paths = criteria.flat_map(|criteria| {
            criteria
                .fields
                .requirements()
                .map(|requirement| &requirement.path)
        });
        paths.filter(|path| !matches!(path.as_str(), "metadata.name" | "metadata.namespace"))
    }

    /// Whether the namespace alone decides whether an object is selected.
    pub fn decides_by_namespace(&self) -> bool {
        self.deny.is_empty() && !self.allow.selects_objects()
    }

    /// Namespaces whose objects are not selected.
    pub fn excluded_namespaces(&self) -> &BTreeSet<Namespace> {
        &self.allow.excluded
    }

    /// Labels that every selected object has.
    pub fn labels(&self) -> &LabelSelector {
        &self.allow.labels
    }

    /// Fields that every selected object has.
    pub fn fields(&self) -> &FieldSelector {
        &self.allow.fields
    }
}

/// The paths that filters name and that are not selectable fields.
pub fn other_paths<'f>(
    filters: impl Iterator<Item = &'f ObjectFilter>,
    fields: &[SelectableField],
) -> BTreeSet<FieldPath> {
    let is_selectable = |path: &FieldPath| fields.iter().any(|field| field.path == *path);
    filters
        .flat_map(ObjectFilter::paths)
        .filter(|path| !is_selectable(path))
        .cloned()
        .collect()
}

/// Whether an `exclude` selector applies to a resource. The version does not matter, because all
/// versions show the same objects. Without an `apiVersion` the selector applies to the kind in
/// every group: it excludes more rather than less.
fn excludes(selector: &ResourceSelector, resource: &Resource) -> bool {
    let group_matches = match selector.api_version() {
        None | Some("*") => true,
        Some(api_version) => {
            let (group, _) = split_api_version(api_version);
            group == &*resource.gvk.group
        }
    };
    group_matches && (selector.every_kind() || selector.kind == *resource.gvk.kind)
}

impl Criteria {
    fn identity(&self) -> Value {
        let Self {
            namespaces,
            excluded,
            labels,
            fields,
        } = self;
        let names = |namespaces: &BTreeSet<Namespace>| -> Value {
            namespaces.iter().map(Namespace::as_str).collect()
        };
        let fields = fields.requirements().map(|requirement| {
            let path = requirement.path.as_str();
            match &requirement.test {
                FieldTest::In(values) => json!([path, "in", values]),
                FieldTest::NotIn(values) => json!([path, "notin", values]),
                FieldTest::Compares(..) => json!([path, requirement.to_string()]),
            }
        });
        json!([
            namespaces.as_ref().map(names),
            names(excluded),
            labels.to_string(),
            fields.collect::<Value>()
        ])
    }

    fn new(selector: &ResourceSelector) -> Result<Self, InvalidSelector> {
        let names = |list: &[String]| {
            list.iter()
                .filter_map(|name| name.parse().ok())
                .collect::<BTreeSet<Namespace>>()
        };
        let mut namespaces = names(&selector.namespaces);
        namespaces.extend(selector.namespace.parse::<Namespace>());
        let labels = match &selector.label_selector {
            None => LabelSelector::default(),
            Some(labels) => {
                LabelSelector::from_api(labels).map_err(|reason| InvalidSelector::Labels {
                    kind: selector.kind.clone(),
                    reason,
                })?
            }
        };
        Ok(Self {
            namespaces: (!namespaces.is_empty()).then_some(namespaces),
            excluded: names(&selector.exclude_namespaces),
            labels,
            fields: fields(&selector.kind, selector.field_selector.as_ref())?,
        })
    }

    /// The same without the excluded namespaces; `None` when none is left.
    fn without_excluded(mut self) -> Option<Self> {
        if let Some(namespaces) = &mut self.namespaces {
            namespaces.retain(|namespace| !self.excluded.contains(namespace));
            self.excluded.clear();
            if namespaces.is_empty() {
                return None;
            }
        }
        Some(self)
    }

    fn names_namespaces(&self) -> bool {
        self.namespaces.is_some() || !self.excluded.is_empty()
    }

    fn selects_objects(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    fn hold<'a>(
        &self,
        namespace: Option<&str>,
        label: impl Fn(&str) -> Option<&'a str>,
        meets: impl Fn(&FieldRequirement) -> bool,
    ) -> bool {
        let among = |names: &BTreeSet<Namespace>| {
            namespace.is_some_and(|namespace| names.iter().any(|name| name.as_str() == namespace))
        };
        self.namespaces.as_ref().is_none_or(among)
            && !among(&self.excluded)
            && self.labels.matches(label)
            && self.fields.requirements().all(meets)
    }
}

fn fields(
    kind: &str,
    selector: Option<&ObjectFieldSelector>,
) -> Result<FieldSelector, InvalidSelector> {
    let requirements = selector
        .map(|fields| fields.match_expressions.as_slice())
        .unwrap_or_default();
    let mut parsed = Vec::with_capacity(requirements.len());
    for requirement in requirements {
        let values = || requirement.values.iter().cloned().collect();
        let empty = || [String::new()].into();
        let test = match requirement.operator.as_str() {
            "In" => FieldTest::In(values()),
            "NotIn" => FieldTest::NotIn(values()),
            "Exists" => FieldTest::NotIn(empty()),
            "DoesNotExist" => FieldTest::In(empty()),
            _ => {
                let (key, operator) = (requirement.key.clone(), requirement.operator.clone());
                return Err(InvalidSelector::Fields {
                    kind: kind.to_owned(),
                    key,
                    operator,
                });
            }
        };
        parsed.push(FieldRequirement {
            path: FieldPath::new(&requirement.key),
            test,
        });
    }
    Ok(parsed.into_iter().collect())
}

#[cfg(test)]
#[allow(
    clippy::needless_pass_by_value,
    reason = "`json!` is written where it is passed"
)]
mod tests {
    use fleetdex_core::model::Gvk;
    use serde_json::{Value, json};

    use super::*;

    fn filter(selector: Value, exclude: Value, namespaced: bool) -> Option<ObjectFilter> {
        let spec: ResourceRegistrySpec =
            serde_json::from_value(json!({"resourceSelectors": [selector], "exclude": exclude}))
                .unwrap();
        let resource = Resource {
            gvk: Gvk::new("", "v1", "Pod"),
            plural: "pods".into(),
            namespaced,
        };
        ObjectFilter::new(&spec.resource_selectors[0], &spec, &resource).unwrap()
    }

    fn selects(filter: &ObjectFilter, namespace: &str, app: &str, phase: &str) -> bool {
        filter.selects(
            Some(namespace),
            |key| (key == "app").then_some(app),
            |requirement| {
                requirement.path.as_str() == "status.phase" && requirement.test.accepts(phase)
            },
        )
    }

    /// If this fails, all streams with filters list again after an upgrade.
    #[test]
    fn a_filter_is_identified_by_what_it_selects() {
        let selector = json!({
            "kind": "Pod", "namespaces": ["web", "db"],
            "labelSelector": {"matchLabels": {"app": "a"}},
            "fieldSelector": {"matchExpressions": [{"key": "status.phase", "operator": "In", "values": ["Running"]}]},
        });
        let excluded = json!([{"kind": "Pod", "namespaces": ["db"], "labelSelector": {"matchLabels": {"b": "c"}}}]);
        assert_eq!(
            filter(selector, excluded, true).unwrap().identity(),
            json!([
                [
                    ["db", "web"],
                    [],
                    "app=a",
                    [["status.phase", "in", ["Running"]]]
                ],
                [[["db"], [], "b=c", []]]
            ])
        );
        assert_eq!(
            ObjectFilter::default().identity(),
            json!([[null, [], "", []], []])
        );
    }

    #[test]
    fn namespaces_labels_and_fields_must_all_match() {
        let selector = json!({
            "kind": "Pod", "namespaces": ["web", "db"],
            "labelSelector": {"matchLabels": {"app": "a"}},
            "fieldSelector": {"matchExpressions": [{"key": "status.phase", "operator": "In", "values": ["Running"]}]},
        });
        let filter = filter(selector, json!([]), true).unwrap();
        assert!(selects(&filter, "web", "a", "Running"));
        assert!(!selects(&filter, "other", "a", "Running"));
        assert!(!selects(&filter, "web", "b", "Running"));
        assert!(!selects(&filter, "web", "a", "Pending"));
    }

    #[test]
    fn excluded_namespaces_are_not_selected() {
        let filter = filter(
            json!({"kind": "Pod", "excludeNamespaces": ["web"]}),
            json!([]),
            true,
        )
        .unwrap();
        assert!(!selects(&filter, "web", "a", ""));
        assert!(selects(&filter, "db", "a", ""));
    }

    #[test]
    fn deny_beats_allow() {
        let pods = || json!({"kind": "Pod", "namespaces": ["web", "db"]});
        assert_eq!(filter(pods(), json!([{"kind": "Pod"}]), true), None);
        assert_eq!(
            filter(pods(), json!([{"kind": "*", "apiVersion": "*"}]), true),
            None
        );
        assert_eq!(
            filter(
                pods(),
                json!([{"kind": "Pod", "namespaces": ["web", "db"]}]),
                true
            ),
            None
        );
        let without_web =
            filter(pods(), json!([{"kind": "Pod", "namespace": "web"}]), true).unwrap();
        assert_eq!(
            without_web.namespaces(),
            Some(&["db".parse().unwrap()].into())
        );
        let by_label = json!([{"kind": "Pod", "namespace": "web", "labelSelector": {"matchLabels": {"app": "a"}}}]);
        let without_a = filter(pods(), by_label, true).unwrap();
        assert!(
            !selects(&without_a, "web", "a", "")
                && selects(&without_a, "web", "b", "")
                && selects(&without_a, "db", "a", "")
        );
        let only_db = filter(
            pods(),
            json!([{"kind": "Pod", "excludeNamespaces": ["db"]}]),
            true,
        )
        .unwrap();
        assert!(!selects(&only_db, "web", "a", "") && selects(&only_db, "db", "a", ""));
        assert!(
            filter(
                pods(),
                json!([{"kind": "Secret"}, {"kind": "Pod", "apiVersion": "apps/v1"}]),
                true
            )
            .is_some()
        );
    }

    #[test]
    fn namespaces_are_ignored_for_cluster_scoped_resources() {
        let exclude = json!([{"kind": "*", "apiVersion": "*", "namespace": "web"}]);
        let filter = filter(json!({"kind": "Pod", "namespace": "web"}), exclude, false).unwrap();
        assert!(filter.selects(None, |_| None, |_| false));
    }

    #[test]
    fn exists_means_not_empty() {
        let exists = json!({"matchExpressions": [{"key": "status.phase", "operator": "Exists"}]});
        let filter = filter(
            json!({"kind": "Pod", "fieldSelector": exists}),
            json!([]),
            true,
        )
        .unwrap();
        assert!(selects(&filter, "web", "a", "Running") && !selects(&filter, "web", "a", ""));
    }
}
