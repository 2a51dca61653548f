//! The visualizations.
//!
//! They aggregate only fields that every index has, so that none fails with `indexing: Full`, where
//! `spec` and `status` are flat objects.

use crate::{
    aggregation::{BucketAggregation, BucketRole, count, distinct, sum, terms},
    index_patterns::{CHANGED_AT, CHANGES, OBJECTS},
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
const WORKLOADS: &str = "kind: (Deployment or StatefulSet or DaemonSet)";

/// Every visualization with a search.
pub(crate) const VISUALIZATIONS: [PlacedVisualization; 13] = [
    of_objects(VisualizationSpec {
        id: "numbers",
        title: "Fleet in numbers",
        description: "",
        look: Look::Metric,
        query: "",
        metrics: &[
            distinct("cluster", "Clusters"),
            count("Objects"),
            distinct("kind", "Kinds"),
            distinct("metadata.namespace", "Namespaces"),
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
            distinct("cluster", "Clusters with unhealthy objects"),
        ],
        buckets: &[],
    }),
    of_objects(VisualizationSpec {
        id: "refused-number",
        title: "Refused documents in numbers",
        description: "Objects of which only a part is indexed",
        look: Look::Metric,
        query: "search.rejected: *",
        metrics: &[count("Refused documents")],
        buckets: &[],
    }),
    of_objects(VisualizationSpec {
        id: "health",
        title: "Health",
        description: "Of all objects that have a health",
        look: Look::Pie,
        query: "search.health: *",
        metrics: &[count("Objects")],
        buckets: &[terms(BucketRole::Segment, "search.health", 10, "Health")],
    }),
    of_objects(VisualizationSpec {
        id: "health-by-cluster",
        title: "Health by cluster",
        description: "",
        look: Look::Bars,
        query: "search.health: *",
        metrics: &[count("Objects")],
        buckets: &[
            terms(BucketRole::Segment, "cluster", 50, "Cluster"),
            terms(BucketRole::Series, "search.health", 10, "Health"),
        ],
    }),
    of_objects(VisualizationSpec {
        id: "kinds",
        title: "Objects by kind",
        description: "",
        look: Look::Table,
        query: "",
        metrics: &[count("Objects"), distinct("cluster", "Clusters")],
        buckets: &[terms(BucketRole::Row, "kind", 100, "Kind")],
    }),
    of_objects(VisualizationSpec {
        id: "namespaces",
        title: "Objects by namespace",
        description: "",
        look: Look::Table,
        query: "metadata.namespace: *",
        metrics: &[count("Objects"), distinct("cluster", "Clusters")],
        buckets: &[terms(
            BucketRole::Row,
            "metadata.namespace",
            100,
            "Namespace",
        )],
    }),
    of_objects(VisualizationSpec {
        id: "reasons",
        title: "Why objects are unhealthy",
        description: "",
        look: Look::Table,
        query: UNHEALTHY,
        metrics: &[count("Objects"), distinct("cluster", "Clusters")],
        buckets: &[
            terms(BucketRole::Row, "search.healthReason", 50, "Reason"),
            terms(BucketRole::Row, "kind", 10, "Kind"),
        ],
    }),
    of_objects(VisualizationSpec {
        id: "health-by-kind",
        title: "Health by kind",
        description: "",
        look: Look::Bars,
        query: "search.health: *",
        metrics: &[count("Objects")],
        buckets: &[
            terms(BucketRole::Segment, "kind", 20, "Kind"),
            terms(BucketRole::Series, "search.health", 10, "Health"),
        ],
    }),
    of_objects(VisualizationSpec {
        id: "replicas",
        title: "Replicas by cluster",
        description: "Of Deployments, StatefulSets and DaemonSets",
        look: Look::ColumnsSideBySide,
        query: WORKLOADS,
        metrics: &[
            sum("search.replicas.desired", "Desired replicas"),
            sum("search.replicas.ready", "Ready replicas"),
        ],
        buckets: &[terms(BucketRole::Segment, "cluster", 50, "Cluster")],
    }),
    of_objects(VisualizationSpec {
        id: "requests",
        title: "Requested resources by namespace",
        description: "What the Pods of each namespace request, in all clusters",
        look: Look::Table,
        query: "kind: Pod",
        metrics: &[
            sum("search.resources.memory", "Requested memory"),
            sum("search.resources.cpu", "Requested cores"),
            count("Pods"),
        ],
        buckets: &[terms(
            BucketRole::Row,
            "metadata.namespace",
            100,
            "Namespace",
        )],
    }),
    of_objects(VisualizationSpec {
        id: "images",
        title: "Pods by image and tag",
        description: "",
        look: Look::Table,
        query: "kind: Pod",
        metrics: &[count("Pods"), distinct("cluster", "Clusters")],
        buckets: &[BucketAggregation::Terms {
            field: "search.images",
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
            query: "",
            metrics: &[count("Changed objects")],
            buckets: &[
                BucketAggregation::Times { field: CHANGED_AT },
                terms(BucketRole::Series, "kind", 8, "Kind"),
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
            ("cluster", "Cluster"),
            ("metadata.namespace", "Namespace"),
            ("kind", "Kind"),
        ],
    },
    ControlsSpec {
        id: "cluster-controls",
        title: "Which cluster",
        description: "Select the cluster that the dashboard shows; without a choice, it shows all",
        fields: &[("cluster", "Cluster"), ("metadata.namespace", "Namespace")],
    },
];
