//! The visualizations.
//!
//! They aggregate only fields that every index has, so that none fails with `indexing: Full`, where
//! `spec` and `status` are flat objects.

use fleetdex_core::model::index_fields::{
    CLUSTER, CPU, DESIRED_REPLICAS, HEALTH, HEALTH_REASON, IMAGES, INDEXED_AT, KIND, MEMORY,
    NAMESPACE, READY_REPLICAS, REJECTED,
};

use crate::{
    aggregation::{BucketAggregation, BucketRole, count, distinct, sum, terms},
    dql::{FieldCondition, matches},
    index_patterns::{CHANGES, OBJECTS},
    searches::UNHEALTHY,
    visualization::{ControlsSpec, Look, VisualizationSpec},
};

/// A visualization, and the pattern that it searches.
pub(crate) struct PlacedVisualization {
    /// [`OBJECTS`] or [`CHANGES`].
    pub(crate) pattern: &'static str,
    pub(crate) spec: VisualizationSpec,
}

const fn of_objects(spec: VisualizationSpec) -> PlacedVisualization {
    PlacedVisualization {
        pattern: OBJECTS,
        spec,
    }
}

/// An image with its tag: of the spellings of an image, the one that has neither a digest nor a
/// missing tag. A port of a registry is followed by a slash.
const TAGGED: &str = "[^@]+:[^/@]+";

/// The kinds with replicas.
const WORKLOADS: &[FieldCondition] = &[matches(KIND, "(Deployment or StatefulSet or DaemonSet)")];

/// Every visualization with a search.
pub(crate) const VISUALIZATIONS: [PlacedVisualization; 13] = [
    of_objects(VisualizationSpec {
        id: "numbers",
        title: "Fleet in numbers",
        description: "",
        look: Look::Metric,
        query: &[],
        metrics: &[
            distinct(CLUSTER, "Clusters"),
            count("Objects"),
            distinct(KIND, "Kinds"),
            distinct(NAMESPACE, "Namespaces"),
        ],
        buckets: &[],
    }),
    of_objects(VisualizationSpec {
        id: "unhealthy-number",
        title: "Unhealthy objects in numbers",
        description: "Objects that are Degraded, Missing or Unknown",
        look: Look::Metric,
        query: UNHEALTHY,
        metrics: &[
            count("Unhealthy objects"),
            distinct(CLUSTER, "Clusters with unhealthy objects"),
        ],
        buckets: &[],
    }),
    of_objects(VisualizationSpec {
        id: "refused-number",
        title: "Refused documents in numbers",
        description: "Objects of which only a part is indexed",
        look: Look::Metric,
        query: &[matches(REJECTED, "*")],
        metrics: &[count("Refused documents")],
        buckets: &[],
    }),
    of_objects(VisualizationSpec {
        id: "health",
        title: "Health",
        description: "Of all objects that have a health",
        look: Look::Pie,
        query: &[matches(HEALTH, "*")],
        metrics: &[count("Objects")],
        buckets: &[terms(BucketRole::Segment, HEALTH, 10, "Health")],
    }),
    of_objects(VisualizationSpec {
        id: "health-by-cluster",
        title: "Health by cluster",
        description: "",
        look: Look::Bars,
        query: &[matches(HEALTH, "*")],
        metrics: &[count("Objects")],
        buckets: &[
            terms(BucketRole::Segment, CLUSTER, 50, "Cluster"),
            terms(BucketRole::Series, HEALTH, 10, "Health"),
        ],
    }),
    of_objects(VisualizationSpec {
        id: "kinds",
        title: "Objects by kind",
        description: "",
        look: Look::Table,
        query: &[],
        metrics: &[count("Objects"), distinct(CLUSTER, "Clusters")],
        buckets: &[terms(BucketRole::Row, KIND, 100, "Kind")],
    }),
    of_objects(VisualizationSpec {
        id: "namespaces",
        title: "Objects by namespace",
        description: "",
        look: Look::Table,
        query: &[matches(NAMESPACE, "*")],
        metrics: &[count("Objects"), distinct(CLUSTER, "Clusters")],
        buckets: &[terms(BucketRole::Row, NAMESPACE, 100, "Namespace")],
    }),
    of_objects(VisualizationSpec {
        id: "reasons",
        title: "Why objects are unhealthy",
        description: "",
        look: Look::Table,
        query: UNHEALTHY,
        metrics: &[count("Objects"), distinct(CLUSTER, "Clusters")],
        buckets: &[
            terms(BucketRole::Row, HEALTH_REASON, 50, "Reason"),
            terms(BucketRole::Row, KIND, 10, "Kind"),
        ],
    }),
    of_objects(VisualizationSpec {
        id: "health-by-kind",
        title: "Health by kind",
        description: "",
        look: Look::Bars,
        query: &[matches(HEALTH, "*")],
        metrics: &[count("Objects")],
        buckets: &[
            terms(BucketRole::Segment, KIND, 20, "Kind"),
            terms(BucketRole::Series, HEALTH, 10, "Health"),
        ],
    }),
    of_objects(VisualizationSpec {
        id: "replicas",
        title: "Replicas by cluster",
        description: "Of Deployments, StatefulSets and DaemonSets",
        look: Look::ColumnsSideBySide,
        query: WORKLOADS,
        metrics: &[
            sum(DESIRED_REPLICAS, "Desired replicas"),
            sum(READY_REPLICAS, "Ready replicas"),
        ],
        buckets: &[terms(BucketRole::Segment, CLUSTER, 50, "Cluster")],
    }),
    of_objects(VisualizationSpec {
        id: "requests",
        title: "Requested resources by namespace",
        description: "What the Pods of each namespace request, in all clusters",
        look: Look::Table,
        query: &[matches(KIND, "Pod")],
        metrics: &[
            sum(MEMORY, "Requested memory"),
            sum(CPU, "Requested cores"),
            count("Pods"),
        ],
        buckets: &[terms(BucketRole::Row, NAMESPACE, 100, "Namespace")],
    }),
    of_objects(VisualizationSpec {
        id: "images",
        title: "Pods by image and tag",
        description: "",
        look: Look::Table,
        query: &[matches(KIND, "Pod")],
        metrics: &[count("Pods"), distinct(CLUSTER, "Clusters")],
        buckets: &[BucketAggregation::Terms {
            field: IMAGES,
            size: 200,
            label: "Image",
            include: TAGGED,
            role: BucketRole::Row,
        }],
    }),
    PlacedVisualization {
        pattern: CHANGES,
        spec: VisualizationSpec {
            id: "changes-over-time",
            title: "Last changes over time",
            description: "Each object counts once, at its last change",
            look: Look::Columns,
            query: &[],
            metrics: &[count("Changed objects")],
            buckets: &[
                BucketAggregation::Times { field: INDEXED_AT },
                terms(BucketRole::Series, KIND, 8, "Kind"),
            ],
        },
    },
];

/// Every visualization that consists of controls.
pub(crate) const CONTROLS: [ControlsSpec; 2] = [
    ControlsSpec {
        id: "workload-controls",
        title: "Clusters, namespaces and kinds",
        description: "What the dashboard shows",
        fields: &[
            (CLUSTER, "Cluster"),
            (NAMESPACE, "Namespace"),
            (KIND, "Kind"),
        ],
    },
    ControlsSpec {
        id: "cluster-controls",
        title: "Which cluster",
        description: "Select the cluster that the dashboard shows; without a choice, it shows all",
        fields: &[(CLUSTER, "Cluster"), (NAMESPACE, "Namespace")],
    },
];
