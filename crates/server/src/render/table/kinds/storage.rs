//! Volumes and claims, and API group `storage.k8s.io`.

use crate::render::table::{
    column::{
        Cell, Column, NONE, RowContext, UNSET, age, computed, flag, length, name, text, text_or,
    },
    json_node::JsonNode,
    kind_columns::KindColumns,
    text::{joined, or},
};

/// Where the storage class was before it had a field of its own.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
/// What makes a storage class the default one, now and before.
const DEFAULT_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// The kinds.
pub const KINDS: &[KindColumns] = &[
    KindColumns::new("", "PersistentVolume", VOLUME),
    KindColumns::new("", "PersistentVolumeClaim", CLAIM),
    KindColumns::new(
        "storage.k8s.io",
        "StorageClass",
        &[
            computed("Name", &["metadata.name", "metadata.annotations"], |view| {
                let is_default = DEFAULT_ANNOTATIONS
                    .iter()
                    .any(|key| view.annotation(key) == Some("true"));
                format!(
                    "{}{}",
                    view.at("metadata.name").text(),
                    if is_default { " (default)" } else { "" }
                )
                .into()
            })
            .with_name_format(),
            text("Provisioner", "provisioner"),
            text_or("ReclaimPolicy", "reclaimPolicy", "Delete"),
            text_or("VolumeBindingMode", "volumeBindingMode", "Immediate"),
            flag("AllowVolumeExpansion", "allowVolumeExpansion", false).with_type("string"),
            age(),
        ],
    ),
    KindColumns::new(
        "storage.k8s.io",
        "VolumeAttributesClass",
        &[name(), text("DriverName", "driverName"), age()],
    ),
    KindColumns::new(
        "storage.k8s.io",
        "VolumeAttachment",
        &[
            name(),
            text("Attacher", "spec.attacher").with_name_format(),
            text("PV", "spec.source.persistentVolumeName"),
            text("Node", "spec.nodeName"),
            flag("Attached", "status.attached", false),
            age(),
        ],
    ),
    KindColumns::new(
        "storage.k8s.io",
        "CSINode",
        &[name(), length("Drivers", "spec.drivers"), age()],
    ),
    KindColumns::new(
        "storage.k8s.io",
        "CSIDriver",
        &[
            name(),
            flag("AttachRequired", "spec.attachRequired", true),
            flag("PodInfoOnMount", "spec.podInfoOnMount", false),
            flag("StorageCapacity", "spec.storageCapacity", false),
            computed("TokenRequests", &["spec.tokenRequests.audience"], |view| {
                let requests = view.at("spec.tokenRequests");
                if requests.is_given() {
                    crate::render::table::text::members(requests, "audience").into()
                } else {
                    UNSET.into()
                }
            }),
            flag("RequiresRepublish", "spec.requiresRepublish", false),
            computed("Modes", &["spec.volumeLifecycleModes"], |view| {
                or(
                    &joined(view.at("spec.volumeLifecycleModes").items(), ","),
                    NONE,
                )
                .into()
            }),
            age(),
        ],
    ),
];

const VOLUME: &[Column] = &[
    name(),
    computed("Capacity", &["spec.capacity.storage"], |view| {
        or(&view.at("spec.capacity.storage").shown(), "0").into()
    }),
    computed("Access Modes", &["spec.accessModes"], |view| {
        access_modes(view.at("spec.accessModes"))
    }),
    text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
    computed(
        "Status",
        &["metadata.deletionTimestamp", "status.phase"],
        phase,
    ),
    computed("Claim", &["spec.claimRef"], |view| {
        match view.at("spec.claimRef") {
            JsonNode::Null => "".into(),
            claim => format!(
                "{}/{}",
                claim.member("namespace").text(),
                claim.member("name").text()
            )
            .into(),
        }
    }),
    computed(
        "StorageClass",
        &["metadata.annotations", "spec.storageClassName"],
        class,
    ),
    text_or(
        "VolumeAttributesClass",
        "spec.volumeAttributesClassName",
        UNSET,
    ),
    text("Reason", "status.reason"),
    age(),
    text_or("VolumeMode", "spec.volumeMode", UNSET).wide(),
];

const CLAIM: &[Column] = &[
    name(),
    computed(
        "Status",
        &["metadata.deletionTimestamp", "status.phase"],
        phase,
    ),
    text("Volume", "spec.volumeName"),
    computed(
        "Capacity",
        &["spec.volumeName", "status.capacity.storage"],
        |view| {
            if is_bound(view) {
                or(&view.at("status.capacity.storage").shown(), "0").into()
            } else {
                "".into()
            }
        },
    ),
    computed(
        "Access Modes",
        &["spec.volumeName", "status.accessModes"],
        |view| {
            if is_bound(view) {
                access_modes(view.at("status.accessModes"))
            } else {
                "".into()
            }
        },
    ),
    computed(
        "StorageClass",
        &["metadata.annotations", "spec.storageClassName"],
        class,
    ),
    text_or(
        "VolumeAttributesClass",
        "spec.volumeAttributesClassName",
        UNSET,
    ),
    age(),
    text_or("VolumeMode", "spec.volumeMode", UNSET).wide(),
];

fn is_bound(view: &RowContext<'_>) -> bool {
    !view.at("spec.volumeName").text().is_empty()
}

fn phase(view: &RowContext<'_>) -> Cell {
    if view.is_deleted() {
        "Terminating".into()
    } else {
        view.at("status.phase").text().into()
    }
}

fn class(view: &RowContext<'_>) -> Cell {
    view.annotation(CLASS_ANNOTATION)
        .unwrap_or(view.at("spec.storageClassName").text())
        .into()
}

/// In this order, whatever order they are given in.
fn access_modes(modes: &JsonNode<'_>) -> Cell {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given = short
        .into_iter()
        .filter(|(mode, _)| modes.items().iter().any(|item| item.text() == *mode));
    given
        .map(|(_, short)| short)
        .collect::<Vec<_>>()
        .join(",")
        .into()
}
