//! The saved searches.

use fleetdex_core::model::index_fields::{
    CLUSTER, CREATION_TIMESTAMP, DEPENDENCIES, HEALTH, HEALTH_MESSAGE, HEALTH_REASON, IMAGES,
    INDEXED_AT, KIND, NAME, NAMESPACE, REJECTED, RESOURCE_VERSION,
};
use serde_json::{Value, json};

use crate::{
    dql::{FieldCondition, excludes, matches, query},
    index_patterns::{CHANGES, OBJECTS},
    saved_object::{SavedObject, SavedObjectType, attributes, search_source},
};

/// A saved search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchSpec {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    /// [`OBJECTS`] or [`CHANGES`].
    pub(crate) pattern: &'static str,
    pub(crate) query: &'static [FieldCondition],
    pub(crate) columns: &'static [&'static str],
    /// The newest first.
    pub(crate) sort: &'static str,
}

/// Health that people have to look after.
pub(crate) const UNHEALTHY: &[FieldCondition] =
    &[matches(HEALTH, "(Degraded or Missing or Unknown)")];

/// Every saved search.
pub(crate) const SEARCHES: [SearchSpec; 10] = [
    SearchSpec {
        id: "unhealthy",
        title: "Unhealthy objects",
        description: "Objects of all kinds that are Degraded, Missing or Unknown",
        pattern: OBJECTS,
        query: UNHEALTHY,
        columns: &[
            CLUSTER,
            NAMESPACE,
            KIND,
            NAME,
            HEALTH,
            HEALTH_REASON,
            HEALTH_MESSAGE,
        ],
        sort: INDEXED_AT,
    },
    SearchSpec {
        id: "pods-not-running",
        title: "Pods that are not running",
        description: "Pods in any other phase than Running and Succeeded",
        pattern: OBJECTS,
        query: &[
            matches(KIND, "Pod"),
            excludes("status.phase", "(Running or Succeeded)"),
        ],
        columns: &[
            CLUSTER,
            NAMESPACE,
            NAME,
            "status.phase",
            HEALTH,
            HEALTH_REASON,
            "spec.nodeName",
        ],
        sort: CREATION_TIMESTAMP,
    },
    SearchSpec {
        id: "restarts",
        title: "Pods whose containers restart",
        description: "Pods that are unhealthy because a container ended with a failure. The number of restarts is no field of the index",
        pattern: OBJECTS,
        query: &[
            matches(KIND, "Pod"),
            matches(
                HEALTH_REASON,
                "(CrashLoopBackOff or OOMKilled or Error or ContainerCannotRun or StartError)",
            ),
        ],
        columns: &[
            CLUSTER,
            NAMESPACE,
            NAME,
            HEALTH_REASON,
            HEALTH_MESSAGE,
            IMAGES,
        ],
        sort: INDEXED_AT,
    },
    SearchSpec {
        id: "restart-events",
        title: "Events of restarts",
        description: "Events about containers that are killed or restarted; needs a registry that selects Events",
        pattern: OBJECTS,
        query: &[
            matches(KIND, "Event"),
            matches("reason", "(BackOff or Killing or OOMKilling or Unhealthy)"),
        ],
        columns: EVENT_COLUMNS,
        sort: INDEXED_AT,
    },
    SearchSpec {
        id: "warning-events",
        title: "Warning Events",
        description: "Events of type Warning; needs a registry that selects Events",
        pattern: OBJECTS,
        query: &[matches(KIND, "Event"), matches("type", "Warning")],
        columns: EVENT_COLUMNS,
        sort: INDEXED_AT,
    },
    SearchSpec {
        id: "pods-by-image",
        title: "Pods and their images",
        description: "Add search.images: \"REPOSITORY:TAG\" to the query for the Pods of one image",
        pattern: OBJECTS,
        query: &[matches(KIND, "Pod"), matches(IMAGES, "*")],
        columns: &[IMAGES, CLUSTER, NAMESPACE, NAME, "status.phase"],
        sort: CREATION_TIMESTAMP,
    },
    SearchSpec {
        id: "secret-users",
        title: "What uses a Secret",
        description: "Objects that refer to a Secret. Replace the * by NAMESPACE/NAME for one Secret, or by NAMESPACE/* for those of a namespace",
        pattern: OBJECTS,
        query: &[matches(DEPENDENCIES, "v1/Secret/*")],
        columns: &[CLUSTER, NAMESPACE, KIND, NAME, DEPENDENCIES],
        sort: CREATION_TIMESTAMP,
    },
    SearchSpec {
        id: "refused",
        title: "Refused documents",
        description: "Objects of which only a part is indexed, and why",
        pattern: OBJECTS,
        query: &[matches(REJECTED, "*")],
        columns: &[CLUSTER, NAMESPACE, KIND, NAME, REJECTED],
        sort: INDEXED_AT,
    },
    SearchSpec {
        id: "newest-changes",
        title: "Newest changes",
        description: "Objects by the time of their last change; deleted objects are not in the index",
        pattern: CHANGES,
        query: &[],
        columns: &[CLUSTER, NAMESPACE, KIND, NAME, HEALTH, RESOURCE_VERSION],
        sort: INDEXED_AT,
    },
    SearchSpec {
        id: "nodes",
        title: "Nodes",
        description: "Needs a registry that selects Nodes",
        pattern: OBJECTS,
        query: &[matches(KIND, "Node")],
        columns: &[CLUSTER, NAME, HEALTH, HEALTH_REASON, "spec.unschedulable"],
        sort: CREATION_TIMESTAMP,
    },
];

/// The last one is read from the document, and cannot be searched.
const EVENT_COLUMNS: &[&str] = &[
    CLUSTER,
    "involvedObject.namespace",
    "involvedObject.kind",
    "involvedObject.name",
    "reason",
    "message",
];

impl SearchSpec {
    /// The order of the rows. A panel of a dashboard has to repeat it.
    pub(crate) fn order(&self) -> Value {
        json!([[self.sort, "desc"]])
    }

    /// The saved object; `index_pattern` is the id of the pattern to search.
    pub(crate) fn build(&self, id: String, index_pattern: &str) -> SavedObject {
        let (meta, reference) = search_source(&query(self.query), index_pattern);
        SavedObject {
            object_type: SavedObjectType::Search,
            id,
            attributes: attributes(json!({
                "title": self.title,
                "description": self.description,
                "hits": 0,
                "columns": self.columns,
                "sort": self.order(),
                "version": 1,
                "kibanaSavedObjectMeta": meta,
            })),
            references: vec![reference],
        }
    }
}
