//! Volumes and claims, and API group `storage.k8s.io`.

use crate::render::table::{
    column::{
        Cell, Column, KindColumns, NONE, RowContext, UNSET, age, computed, flag, length, members,
        name, shown, text, text_or,
    },
    json_node::JsonNode,
    text::{joined, name_of_class, or, pair},
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
    KindColumns::new("", "PersistentVolume").with(VOLUME),
    KindColumns::new("", "PersistentVolumeClaim").with(CLAIM),
    KindColumns::new("storage.k8s.io", "StorageClass").with(&[
        computed("Name", &["metadata.name", "metadata.annotations"], |view| {
            name_of_class(view, &DEFAULT_ANNOTATIONS)
        })
        .with_name_format(),
        text("Provisioner", "provisioner"),
        text_or("ReclaimPolicy", "reclaimPolicy", "Delete"),
        text_or("VolumeBindingMode", "volumeBindingMode", "Immediate"),
        flag("AllowVolumeExpansion", "allowVolumeExpansion", false).with_type("string"),
        age(),
    ]),
    KindColumns::new("storage.k8s.io", "VolumeAttributesClass").with(&[
        name(),
        text("DriverName", "driverName"),
        age(),
    ]),
    KindColumns::new("storage.k8s.io", "VolumeAttachment").with(&[
        name(),
        text("Attacher", "spec.attacher").with_name_format(),
        text("PV", "spec.source.persistentVolumeName"),
        text("Node", "spec.nodeName"),
        flag("Attached", "status.attached", false),
        age(),
    ]),
    KindColumns::new("storage.k8s.io", "CSINode").with(&[
        name(),
        length("Drivers", "spec.drivers"),
        age(),
    ]),
    KindColumns::new("storage.k8s.io", "CSIDriver").with(&[
        name(),
        flag("AttachRequired", "spec.attachRequired", true),
        flag("PodInfoOnMount", "spec.podInfoOnMount", false),
        flag("StorageCapacity", "spec.storageCapacity", false),
        computed("TokenRequests", &["spec.tokenRequests.audience"], |view| {
            let requests = view.at("spec.tokenRequests");
            if requests.is_given() {
                members(requests, "audience")
            } else {
                UNSET.into()
            }
        }),
        flag("RequiresRepublish", "spec.requiresRepublish", false),
        shown("Modes", "spec.volumeLifecycleModes", |node| {
            or(&joined(node.items(), ","), NONE).into()
        }),
        age(),
    ]),
];

const PHASE: Column = computed(
    "Status",
    &["metadata.deletionTimestamp", "status.phase"],
    phase,
);
const STORAGE_CLASS: Column = computed(
    "StorageClass",
    &["metadata.annotations", "spec.storageClassName"],
    class,
);
const ATTRIBUTES_CLASS: Column = text_or(
    "VolumeAttributesClass",
    "spec.volumeAttributesClassName",
    UNSET,
);
const VOLUME_MODE: Column = text_or("VolumeMode", "spec.volumeMode", UNSET).wide();

const VOLUME: &[Column] = &[
    name(),
    shown("Capacity", "spec.capacity.storage", |node| {
        or(&node.shown(), "0").into()
    }),
    shown("Access Modes", "spec.accessModes", access_modes),
    text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
    PHASE,
    shown("Claim", "spec.claimRef", |node| match node {
        JsonNode::Null => "".into(),
        claim => pair(claim, "namespace", "name"),
    }),
    STORAGE_CLASS,
    ATTRIBUTES_CLASS,
    text("Reason", "status.reason"),
    age(),
    VOLUME_MODE,
];

const CLAIM: &[Column] = &[
    name(),
    PHASE,
    text("Volume", "spec.volumeName"),
    computed(
        "Capacity",
        &["spec.volumeName", "status.capacity.storage"],
        |view| {
            if_bound(view, "status.capacity.storage", |node| {
                or(&node.shown(), "0").into()
            })
        },
    ),
    computed(
        "Access Modes",
        &["spec.volumeName", "status.accessModes"],
        |view| if_bound(view, "status.accessModes", access_modes),
    ),
    STORAGE_CLASS,
    ATTRIBUTES_CLASS,
    age(),
    VOLUME_MODE,
];

fn if_bound(view: &RowContext<'_>, path: &str, show: fn(&JsonNode<'_>) -> Cell) -> Cell {
    if view.at("spec.volumeName").text().is_empty() {
        "".into()
    } else {
        show(view.at(path))
    }
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
    let given: Vec<&str> = given.map(|(_, short)| short).collect();
    given.join(",").into()
}
