//! Which objects of a resource one selector of a registry wants.

use std::collections::BTreeSet;

use fleetdex_api::registry::{ObjectFieldSelector, ResourceRegistrySpec, ResourceSelector};
use fleetdex_core::{
    model::{FieldPath, Namespace, Resource, SelectableField},
    selector::{FieldRequirement, FieldSelector, FieldTest, InvalidRequirement, LabelSelector},
};

/// A selector of a registry has a label or field selector that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSelector {
    /// Its label selector.
    #[error("labelSelector of {kind}: {reason}")]
    Labels {
        /// Kind of the resource selector.
        kind: String,
        /// What is wrong.
        reason: InvalidRequirement,
    },
    /// Its field selector.
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

/// Objects of one resource: those of `allow`, without those of any `deny`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectFilter {
    allow: Criteria,
    deny: Vec<Criteria>,
}

/// All of these must hold; the default holds for every object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Criteria {
    /// Only these namespaces; `None`: all.
    namespaces: Option<BTreeSet<Namespace>>,
    /// Not these.
    excluded: BTreeSet<Namespace>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl ObjectFilter {
    /// The filter of `selector`, one of the selectors of `spec`, for a resource that it names. `None` when `spec.exclude` leaves nothing.
    ///
    /// A resource without namespaces has no use for them: an allowing selector's are ignored, and a denying selector that names some is not
    /// about it.
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
            if !resource.namespaced && criteria.asks_for_namespaces() {
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

    /// Whether it wants every object, whatever its labels and fields.
    pub fn wants_everything(&self) -> bool {
        self.deny.is_empty() && self.allow == Criteria::default()
    }

    /// Whether name, namespace and labels are enough to tell whether it wants an object.
    pub fn decides_by_metadata(&self) -> bool {
        self.paths().next().is_none()
    }

    /// Whether it wants an object. `label` gives the object's labels by key; `meets` says whether a field meets a requirement.
    pub fn wants<'a>(
        &self,
        namespace: Option<&str>,
        label: impl Fn(&str) -> Option<&'a str>,
        meets: impl Fn(&FieldRequirement) -> bool,
    ) -> bool {
        let holds = |criteria: &Criteria| criteria.hold(namespace, &label, &meets);
        holds(&self.allow) && !self.deny.iter().any(holds)
    }

    /// The only namespaces that it wants objects of; `None`: all.
    pub fn namespaces(&self) -> Option<&BTreeSet<Namespace>> {
        self.allow.namespaces.as_ref()
    }

    /// Every path of an object that it reads, `metadata.name` and `metadata.namespace` aside.
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

    /// Whether it wants every object of some namespaces, whatever its labels and fields.
    pub fn decides_by_namespace(&self) -> bool {
        self.deny.is_empty() && !self.allow.selects_objects()
    }

    /// Namespaces that it wants no objects of.
    pub fn excluded_namespaces(&self) -> &BTreeSet<Namespace> {
        &self.allow.excluded
    }

    /// Labels that every wanted object has.
    pub fn labels(&self) -> &LabelSelector {
        &self.allow.labels
    }

    /// Fields that every wanted object has.
    pub fn fields(&self) -> &FieldSelector {
        &self.allow.fields
    }
}

/// The paths that filters name and that are no selectable fields.
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

/// Whether an `exclude` selector is about a resource. Versions do not matter: all of them show the same objects. Without an `apiVersion` it
/// is about the kind in every group, so that more is left out rather than less.
fn excludes(selector: &ResourceSelector, resource: &Resource) -> bool {
    let group_matches = match selector.api_version() {
        None | Some("*") => true,
        Some(api_version) => {
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            group == &*resource.gvk.group
        }
    };
    group_matches && (selector.every_kind() || selector.kind == *resource.gvk.kind)
}

impl Criteria {
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

    /// The same with `excluded` taken out of `namespaces`; `None` when none is left.
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

    fn asks_for_namespaces(&self) -> bool {
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
            namespace.is_some_and(|own| names.iter().any(|name| name.as_str() == own))
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

    fn wants(filter: &ObjectFilter, namespace: &str, app: &str, phase: &str) -> bool {
        filter.wants(
            Some(namespace),
            |key| (key == "app").then_some(app),
            |requirement| {
                requirement.path.as_str() == "status.phase" && requirement.test.accepts(phase)
            },
        )
    }

    #[test]
    fn namespaces_labels_and_fields_must_all_fit() {
        let selector = json!({
            "kind": "Pod", "namespaces": ["web", "db"],
            "labelSelector": {"matchLabels": {"app": "a"}},
            "fieldSelector": {"matchExpressions": [{"key": "status.phase", "operator": "In", "values": ["Running"]}]},
        });
        let filter = filter(selector, json!([]), true).unwrap();
        assert!(wants(&filter, "web", "a", "Running"));
        assert!(!wants(&filter, "other", "a", "Running"));
        assert!(!wants(&filter, "web", "b", "Running"));
        assert!(!wants(&filter, "web", "a", "Pending"));
    }

    #[test]
    fn excluded_namespaces_are_left_out() {
        let filter = filter(
            json!({"kind": "Pod", "excludeNamespaces": ["web"]}),
            json!([]),
            true,
        )
        .unwrap();
        assert!(!wants(&filter, "web", "a", ""));
        assert!(wants(&filter, "db", "a", ""));
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
            !wants(&without_a, "web", "a", "")
                && wants(&without_a, "web", "b", "")
                && wants(&without_a, "db", "a", "")
        );
        let only_db = filter(
            pods(),
            json!([{"kind": "Pod", "excludeNamespaces": ["db"]}]),
            true,
        )
        .unwrap();
        assert!(!wants(&only_db, "web", "a", "") && wants(&only_db, "db", "a", ""));
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
    fn namespaces_do_not_touch_resources_that_have_none() {
        let exclude = json!([{"kind": "*", "apiVersion": "*", "namespace": "web"}]);
        let filter = filter(json!({"kind": "Pod", "namespace": "web"}), exclude, false).unwrap();
        assert!(filter.wants(None, |_| None, |_| false));
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
        assert!(wants(&filter, "web", "a", "Running") && !wants(&filter, "web", "a", ""));
    }
}
