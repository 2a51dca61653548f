//! What clusters have of several objects, in numbers.

use std::collections::BTreeMap;

use fleetdex_distribution::template_name::TemplateName;

use super::StatusBoard;

/// Bytes of a message of a cluster.
const LONGEST_MESSAGE: usize = 512;

/// What a cluster has of several objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterCount {
    /// How many it shall have.
    pub objects: i64,
    /// How many it has as they shall be.
    pub applied: i64,
    /// How many of these are not unhealthy.
    pub healthy: i64,
    /// Why one is missing: the first.
    pub message: String,
}

impl ClusterCount {
    /// Whether it has all of them, and none is unhealthy.
    pub fn is_ready(&self) -> bool {
        self.healthy == self.objects
    }
}

impl StatusBoard {
    /// What clusters have of these objects.
    pub fn count(&self, names: &[TemplateName]) -> BTreeMap<String, ClusterCount> {
        let state = self.state.lock();
        let mut counts: BTreeMap<String, ClusterCount> = BTreeMap::new();
        for name in names {
            let Some((planned, _)) = state.bindings.get(name) else {
                continue;
            };
            let reports = state.reports.get(name);
            for cluster in &planned.clusters {
                let count = counts.entry(cluster.name.clone()).or_default();
                count.objects += 1;
                let copy = reports.and_then(|reports| reports.get(&cluster.name));
                let Some(copy) = copy.map(|copy| &copy.report) else {
                    continue;
                };
                count.applied += i64::from(copy.is_applied);
                count.healthy += i64::from(copy.is_applied && copy.health != "Unhealthy");
                if !copy.is_applied && count.message.is_empty() {
                    let mut message = format!("{name}: {}", copy.message);
                    if message.len() > LONGEST_MESSAGE {
                        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
                    }
                    count.message = message;
                }
            }
        }
        counts
    }
}
