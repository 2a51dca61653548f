//! What clusters say of the hooks of sets, between the runner and the planner.

use std::collections::BTreeMap;

use fleetdex_distribution::hooks::{HookOutcome, HookReport, HookTask};
use parking_lot::Mutex;

/// The reports of the clusters of one set.
pub type ClusterReports = BTreeMap<String, HookReport>;

/// What clusters say of the hooks of sets, by the UID of the set.
#[derive(Default)]
pub struct HookBoard(Mutex<BTreeMap<String, ClusterReports>>);

impl HookBoard {
    /// What a cluster says of its task. Returns whether that is another thing than before.
    pub fn report(&self, task: &HookTask, outcome: HookOutcome) -> bool {
        let report = HookReport {
            key: task.key.clone(),
            outcome,
        };
        let mut sets = self.0.lock();
        let clusters = sets.entry(task.set.uid.clone()).or_default();
        let before = clusters.insert(task.cluster.clone(), report.clone());
        before != Some(report)
    }

    /// What the clusters of a set say.
    pub fn of(&self, uid: &str) -> ClusterReports {
        self.0.lock().get(uid).cloned().unwrap_or_default()
    }

    /// Forgets what no task is for any more.
    pub fn keep(&self, tasks: &[HookTask]) {
        let mut keys: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        for task in tasks {
            keys.insert((&task.set.uid, &task.cluster), &task.key);
        }
        let mut sets = self.0.lock();
        for (uid, clusters) in &mut *sets {
            clusters.retain(|cluster, report| {
                let key = keys.get(&(uid.as_str(), cluster.as_str()));
                key == Some(&report.key.as_str())
            });
        }
        sets.retain(|_, clusters| !clusters.is_empty());
    }
}
