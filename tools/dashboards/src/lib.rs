//! What OpenSearch Dashboards shows of the index: saved objects, and roles for its users.
//!
//! ```text
//!  panels ──> visualizations ──> visualization ──> aggregation
//!     │  └──> searches ────────────┐    │
//!     └────────────────────────────┴────┴──> saved_object <── index_patterns ──> fields
//!  roles ──> roles::filter ──> roles::rights ──> roles::rules
//! ```
//!
//! Guarantee: nothing here does I/O. The same mapping and prefix give the same objects, byte by
//! byte, with the same ids, so that an import replaces what an earlier one created. The objects
//! need no scripts, and have only attributes that both 2.19 and 3.x accept.

mod aggregation;
mod dql;
pub mod fields;
mod index_patterns;
mod panels;
pub mod roles;
mod saved_object;
mod searches;
mod visualization;
mod visualizations;

use fleetdex_core::model::IndexPrefix;
use serde_json::Value;

pub use saved_object::{SavedObject, SavedObjectReference, SavedObjectType, ndjson};

use panels::DASHBOARDS;
use searches::SEARCHES;
use visualizations::{CONTROLS, VISUALIZATIONS};

/// All saved objects for the indices of a prefix, which have this mapping: index patterns, saved
/// searches, visualizations, dashboards. What an object refers to is before it. With the address of
/// Fleetdex's web page, such as `https://fleetdex.example.com/ui`, names in tables are links to it.
pub fn saved_objects(
    prefix: &IndexPrefix,
    mapping: &Value,
    web_page: Option<&str>,
) -> Vec<SavedObject> {
    let id_of = |name: &str| format!("{}-{name}", prefix.as_str());
    let mut objects = index_patterns::index_patterns(prefix, mapping, web_page);
    for search in &SEARCHES {
        objects.push(search.build(id_of(search.id), &id_of(search.pattern)));
    }
    for placed in &VISUALIZATIONS {
        let id = id_of(placed.spec.id);
        objects.push(placed.spec.build(id, &id_of(placed.pattern)));
    }
    for controls in &CONTROLS {
        objects.push(controls.build(id_of(controls.id), &id_of(index_patterns::OBJECTS)));
    }
    for dashboard in &DASHBOARDS {
        objects.push(dashboard.build(id_of(dashboard.id), id_of));
    }
    objects
}

#[cfg(test)]
mod tests;
