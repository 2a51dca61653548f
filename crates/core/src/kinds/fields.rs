//! Which fields an apiserver selects by, for the kinds that have more than `metadata.name` and `metadata.namespace`.
//!
//! From the `AddFieldLabelConversionFunc` of each API (what it accepts) and the `ToSelectableFields` of each registry (what that
//! reads) in Kubernetes 1.36. Both are alike in every version of a group, so the version does not matter here.

use std::sync::LazyLock;

use super::table;
use crate::model::{FieldPath, FieldType, Gvk, SelectableField};

/// The fields of a built-in kind that its documents hold for field selectors, besides name and namespace; nothing for any other kind.
pub fn selectable_fields(gvk: &Gvk) -> Option<&'static [SelectableField]> {
    static STORED: LazyLock<Vec<Vec<SelectableField>>> =
        LazyLock::new(|| TABLE.iter().map(Selectables::stored).collect());
    if let Some(index) = TABLE.iter().position(|entry| entry.is_of(gvk)) {
        return STORED.get(index).map(Vec::as_slice);
    }
    let is_built_in = table::is_built_in(gvk);
    is_built_in.then_some(&[])
}

/// Every label that a field selector may name for a kind, by the apiserver's own list, and the field it reads. A label without a field
/// always reads empty.
///
/// A kind that the apiserver knows no list for has `metadata.name` and `metadata.namespace`, the latter always empty if it has none.
pub fn field_labels(
    gvk: &Gvk,
) -> impl Iterator<Item = (&'static str, Option<&'static str>)> + use<> {
    let entry = TABLE.iter().find(|entry| entry.is_of(gvk));
    let (metadata, fields) = entry.map_or((NAMESPACED, &[][..]), |entry| {
        (entry.metadata, entry.fields)
    });
    metadata
        .iter()
        .map(|path| (*path, Some(*path)))
        .chain(fields.iter().map(Field::label))
}

struct Selectables {
    group: &'static str,
    kind: &'static str,
    metadata: &'static [&'static str],
    fields: &'static [Field],
}

impl Selectables {
    fn is_of(&self, gvk: &Gvk) -> bool {
        self.group == &*gvk.group && self.kind == &*gvk.kind
    }

    fn stored(&self) -> Vec<SelectableField> {
        self.fields.iter().filter_map(Field::stored).collect()
    }
}

enum Field {
    /// Stands in the object under its own path.
    Own(&'static str, FieldType),
    /// Stands elsewhere: the first of the paths that is not empty.
    From(&'static str, FieldType, &'static [&'static str]),
    /// An old name of another field.
    Alias(&'static str, &'static str),
    /// The apiserver accepts it, and never fills it.
    AlwaysEmpty(&'static str),
}

impl Field {
    fn stored(&self) -> Option<SelectableField> {
        let (path, kind, sources) = match *self {
            Self::Own(path, kind) => (path, kind, &[path][..]),
            Self::From(path, kind, sources) => (path, kind, sources),
            Self::Alias(..) | Self::AlwaysEmpty(_) => return None,
        };
        let sources = sources
            .iter()
            .map(|source| FieldPath::new(source))
            .collect();
        Some(SelectableField {
            path: FieldPath::new(path),
            sources,
            kind,
        })
    }

    fn label(&self) -> (&'static str, Option<&'static str>) {
        match *self {
            Self::Own(path, _) | Self::From(path, ..) => (path, Some(path)),
            Self::Alias(label, path) => (label, Some(path)),
            Self::AlwaysEmpty(label) => (label, None),
        }
    }
}

const NAMESPACED: &[&str] = &["metadata.name", "metadata.namespace"];
const NAME_ONLY: &[&str] = &["metadata.name"];

const fn text(path: &'static str) -> Field {
    Field::Own(path, FieldType::Text)
}

const fn kind(
    group: &'static str,
    kind: &'static str,
    metadata: &'static [&'static str],
    fields: &'static [Field],
) -> Selectables {
    Selectables {
        group,
        kind,
        metadata,
        fields,
    }
}

#[rustfmt::skip]
const TABLE: &[Selectables] = &[
    kind("", "Event", NAMESPACED, &[
        text("involvedObject.kind"),
        text("involvedObject.namespace"),
        text("involvedObject.name"),
        text("involvedObject.uid"),
        text("involvedObject.apiVersion"),
        text("involvedObject.resourceVersion"),
        text("involvedObject.fieldPath"),
        text("reason"),
        text("reportingComponent"),
        Field::From("source", FieldType::Text, &["source.component", "reportingComponent"]),
        text("type"),
    ]),
    kind("", "Namespace", NAME_ONLY, &[text("status.phase")]),
    kind("", "Node", NAME_ONLY, &[Field::Own("spec.unschedulable", FieldType::Flag)]),
    kind("", "Pod", NAMESPACED, &[
        text("spec.nodeName"),
        text("spec.restartPolicy"),
        text("spec.schedulerName"),
        text("spec.serviceAccountName"),
        Field::Own("spec.hostNetwork", FieldType::Flag),
        text("status.phase"),
        text("status.podIP"),
        text("status.nominatedNodeName"),
        Field::Alias("spec.host", "spec.nodeName"),
        Field::AlwaysEmpty("status.podIPs"),
    ]),
    kind("", "ReplicationController", NAMESPACED, &[Field::Own("status.replicas", FieldType::Number)]),
    kind("", "Secret", NAMESPACED, &[text("type")]),
    kind("", "Service", NAMESPACED, &[text("spec.clusterIP"), text("spec.type")]),
    kind("batch", "Job", NAMESPACED, &[Field::From("status.successful", FieldType::Number, &["status.succeeded"])]),
    kind("certificates.k8s.io", "CertificateSigningRequest", NAME_ONLY, &[text("spec.signerName")]),
    kind("certificates.k8s.io", "ClusterTrustBundle", NAME_ONLY, &[text("spec.signerName")]),
    // Namespaced, and yet metadata.namespace is not on its list.
    kind("certificates.k8s.io", "PodCertificateRequest", NAME_ONLY, &[
        text("spec.signerName"),
        text("spec.podName"),
        text("spec.nodeName"),
    ]),
    kind("events.k8s.io", "Event", NAMESPACED, &[
        text("regarding.kind"),
        text("regarding.namespace"),
        text("regarding.name"),
        text("regarding.uid"),
        text("regarding.apiVersion"),
        text("regarding.resourceVersion"),
        text("regarding.fieldPath"),
        text("reason"),
        text("reportingController"),
        text("type"),
    ]),
    kind("resource.k8s.io", "ResourceSlice", NAME_ONLY, &[text("spec.nodeName"), text("spec.driver")]),
];
