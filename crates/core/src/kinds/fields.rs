//! The selectable fields of built-in kinds that have more than `metadata.name` and
//! `metadata.namespace`.
//!
//! Source: the `AddFieldLabelConversionFunc` of each API (which labels it accepts) and the
//! `ToSelectableFields` of each registry (which fields these read) in Kubernetes 1.36. Both are the
//! same in every version of a group, so the version does not matter here.

use std::sync::LazyLock;

use super::built_in;
use crate::model::{FieldPath, FieldType, Gvk, SelectableField};

/// The fields that documents of a built-in kind hold for field selectors, besides name and
/// namespace; `None` for any other kind.
pub fn selectable_fields(gvk: &Gvk) -> Option<&'static [SelectableField]> {
    static STORED: LazyLock<Vec<Vec<SelectableField>>> =
        LazyLock::new(|| TABLE.iter().map(Selectables::stored).collect());
    if let Some(index) = TABLE.iter().position(|entry| entry.is_of(gvk)) {
        return STORED.get(index).map(Vec::as_slice);
    }
    let is_built_in = built_in::is_built_in(gvk);
    is_built_in.then_some(&[])
}

/// Every label that a field selector may name for a kind according to the apiserver, and the field
/// that it reads. A label without a field always reads empty.
///
/// A kind without a list in the apiserver has `metadata.name` and `metadata.namespace`, which is
/// always empty for a cluster-scoped kind.
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
    /// The value at the same path of the object.
    SamePath(&'static str, FieldType),
    /// The first value that is not empty, of those at other paths.
    From(&'static str, FieldType, &'static [&'static str]),
    /// An old name of another field.
    Alias(&'static str, &'static str),
    /// The apiserver accepts the label, and never sets the field.
    AlwaysEmpty(&'static str),
}

impl Field {
    fn stored(&self) -> Option<SelectableField> {
        let (path, kind, sources) = match *self {
            Self::SamePath(path, kind) => (path, kind, &[path][..]),
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
            Self::SamePath(path, _) | Self::From(path, ..) => (path, Some(path)),
            Self::Alias(label, path) => (label, Some(path)),
            Self::AlwaysEmpty(label) => (label, None),
        }
    }
}

const NAMESPACED: &[&str] = &["metadata.name", "metadata.namespace"];
const NAME_ONLY: &[&str] = &["metadata.name"];

const fn text(path: &'static str) -> Field {
    Field::SamePath(path, FieldType::Text)
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
    kind("", "Node", NAME_ONLY, &[Field::SamePath("spec.unschedulable", FieldType::Flag)]),
    kind("", "Pod", NAMESPACED, &[
        text("spec.nodeName"),
        text("spec.restartPolicy"),
        text("spec.schedulerName"),
        text("spec.serviceAccountName"),
        Field::SamePath("spec.hostNetwork", FieldType::Flag),
        text("status.phase"),
        text("status.podIP"),
        text("status.nominatedNodeName"),
        Field::Alias("spec.host", "spec.nodeName"),
        Field::AlwaysEmpty("status.podIPs"),
    ]),
    kind("", "ReplicationController", NAMESPACED, &[Field::SamePath("status.replicas", FieldType::Number)]),
    kind("", "Secret", NAMESPACED, &[text("type")]),
    kind("", "Service", NAMESPACED, &[text("spec.clusterIP"), text("spec.type")]),
    kind("batch", "Job", NAMESPACED, &[Field::From("status.successful", FieldType::Number, &["status.succeeded"])]),
    kind("certificates.k8s.io", "CertificateSigningRequest", NAME_ONLY, &[text("spec.signerName")]),
    kind("certificates.k8s.io", "ClusterTrustBundle", NAME_ONLY, &[text("spec.signerName")]),
    // Namespaced, but the apiserver does not list metadata.namespace for it.
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
