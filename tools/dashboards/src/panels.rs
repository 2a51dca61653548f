//! The dashboards: which panels each has, and where.

use serde_json::{Value, json};

use crate::{
    saved_object::{SavedObject, SavedObjectReference, SavedObjectType, attributes, no_index},
    searches::SEARCHES,
};

/// The columns of the grid.
#[cfg(test)]
pub(crate) const GRID_WIDTH: u32 = 48;

/// The version that wrote the panels. The client compares it with those whose panels differ, and
/// fails without one; 3.x reads panels of 2.19 as they are.
const WRITER_VERSION: &str = "2.19.0";

/// A row of panels of one height, from the left to the right.
struct PanelRow {
    height: u32,
    panels: &'static [PanelSpec],
}

struct PanelSpec {
    id: &'static str,
    width: u32,
    object_type: SavedObjectType,
}

const fn chart(id: &'static str, width: u32) -> PanelSpec {
    PanelSpec {
        id,
        width,
        object_type: SavedObjectType::Visualization,
    }
}

const fn search(id: &'static str, width: u32) -> PanelSpec {
    PanelSpec {
        id,
        width,
        object_type: SavedObjectType::Search,
    }
}

const fn row(height: u32, panels: &'static [PanelSpec]) -> PanelRow {
    PanelRow { height, panels }
}

pub(crate) struct DashboardSpec {
    pub(crate) id: &'static str,
    title: &'static str,
    description: &'static str,
    rows: &'static [PanelRow],
}

/// Every dashboard. The range of time concerns only panels of changes.
pub(crate) const DASHBOARDS: [DashboardSpec; 3] = [
    DashboardSpec {
        id: "fleet",
        title: "Fleet overview",
        description: "What the clusters hold, what is unhealthy, and what changes",
        rows: &[
            row(
                8,
                &[
                    chart("numbers", 24),
                    chart("unhealthy-number", 14),
                    chart("refused-number", 10),
                ],
            ),
            row(15, &[chart("health", 16), chart("health-by-cluster", 32)]),
            row(15, &[chart("changes-over-time", 32), chart("kinds", 16)]),
            row(15, &[chart("reasons", 24), chart("namespaces", 24)]),
            row(15, &[search("unhealthy", 48)]),
            row(15, &[search("newest-changes", 48)]),
            row(12, &[search("refused", 48)]),
        ],
    },
    DashboardSpec {
        id: "workloads",
        title: "Workload health",
        description: "Which workloads do not work, and why",
        rows: &[
            row(7, &[chart("workload-controls", 48)]),
            row(15, &[chart("health-by-kind", 24), chart("replicas", 24)]),
            row(15, &[chart("reasons", 24), chart("requests", 24)]),
            row(15, &[search("unhealthy", 48)]),
            row(15, &[search("pods-not-running", 48)]),
            row(15, &[search("restarts", 48)]),
            row(15, &[chart("images", 20), search("warning-events", 28)]),
        ],
    },
    DashboardSpec {
        id: "cluster",
        title: "One cluster",
        description: "What one cluster holds: select it at the top",
        rows: &[
            row(7, &[chart("cluster-controls", 48)]),
            row(8, &[chart("numbers", 24), chart("unhealthy-number", 24)]),
            row(
                15,
                &[
                    chart("health", 16),
                    chart("kinds", 16),
                    chart("namespaces", 16),
                ],
            ),
            row(12, &[search("nodes", 24), search("restart-events", 24)]),
            row(15, &[search("unhealthy", 48)]),
            row(
                15,
                &[search("secret-users", 24), search("pods-by-image", 24)],
            ),
            row(15, &[chart("changes-over-time", 48)]),
            row(15, &[search("newest-changes", 48)]),
        ],
    },
];

impl DashboardSpec {
    /// The saved object; `id_of` returns the id of the object of a panel.
    pub(crate) fn build(&self, id: String, id_of: impl Fn(&str) -> String) -> SavedObject {
        let mut panels = Vec::new();
        let mut references = Vec::new();
        let mut top = 0;
        for row in self.rows {
            let mut left = 0;
            for panel in row.panels {
                let number = panels.len();
                let place = json!({ "x": left, "y": top, "w": panel.width, "h": row.height, "i": number.to_string() });
                panels.push(panel.json(number, &place));
                references.push(SavedObjectReference {
                    name: reference_name(number),
                    object_type: panel.object_type,
                    id: id_of(panel.id),
                });
                left += panel.width;
            }
            top += row.height;
        }
        let options = json!({ "useMargins": true, "hidePanelTitles": false });
        SavedObject {
            object_type: SavedObjectType::Dashboard,
            id,
            attributes: attributes(json!({
                "title": self.title,
                "description": self.description,
                "hits": 0,
                "version": 1,
                "panelsJSON": Value::Array(panels).to_string(),
                "optionsJSON": options.to_string(),
                "timeRestore": true,
                "timeFrom": "now-24h",
                "timeTo": "now",
                "refreshInterval": { "pause": true, "value": 0 },
                "kibanaSavedObjectMeta": no_index(),
            })),
            references,
        }
    }
}

impl PanelSpec {
    fn json(&self, number: usize, place: &Value) -> Value {
        let order = SEARCHES
            .iter()
            .find(|search| self.object_type == SavedObjectType::Search && search.id == self.id)
            .map(|search| json!({ "sort": search.order() }));
        json!({
            "version": WRITER_VERSION,
            "gridData": place,
            "panelIndex": number.to_string(),
            // Otherwise the panel would sort by the time field of the pattern.
            "embeddableConfig": order.unwrap_or_else(|| json!({})),
            "panelRefName": reference_name(number),
        })
    }
}

fn reference_name(number: usize) -> String {
    format!("panel_{number}")
}
