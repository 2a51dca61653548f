//! How rollouts have to end.

use fleetdex_distribution::rollout::UNDO;
use fleetdex_interpreter::value::text;
use serde_json::Value;

use super::{
    expected::{Expected, objects},
    servers::SETS,
    set_history::by_name,
    world::World,
};

impl World {
    /// Adds what is not as it shall be of sets, when nothing keeps them from it.
    pub fn add_set_differences(
        &self,
        expected: &Expected,
        wrong: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        let Some(sets) = &self.sets else {
            return Ok(());
        };
        for refused in &expected.plan.refused {
            let (resource, reason) = (&refused.resource, &refused.reason);
            wrong.push(format!("{resource} is refused: {reason}"));
        }
        for set in objects(&self.control_plane, SETS)? {
            let name = text(&set, &["metadata", "name"]);
            if !set["metadata"]["deletionTimestamp"].is_null() {
                wrong.push(format!("{name} is still there"));
                continue;
            }
            let uid = text(&set, &["metadata", "uid"]);
            let rollout = &set["status"]["rollout"];
            let revision = text(rollout, &["revision"]);
            let has = self.guard.revision(uid, revision);
            let has = has.map(|objects| {
                let objects: Vec<Value> = objects
                    .iter()
                    .map(|one| Value::clone(&one.object))
                    .collect();
                by_name(&objects)
            });
            if has != sets.source(name).map(by_name) {
                wrong.push(format!(
                    "{name} rolls out {revision}, which is not its source"
                ));
            }
            let is_undone = set["metadata"]["annotations"][UNDO] == *revision;
            let phase = text(rollout, &["phase"]);
            if phase != "Complete" && !(is_undone && phase == "Undone") {
                wrong.push(format!(
                    "{name} is {phase}: {}",
                    text(rollout, &["message"])
                ));
            }
            let conditions = set["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let ready = conditions.find(|one| one["type"] == "Ready");
            let is_ready = ready.is_some_and(|one| one["status"] == "True");
            if phase == "Complete" && !is_ready {
                let ready = ready.map_or("not said to be ready".to_owned(), Value::to_string);
                wrong.push(format!("{name} is complete, and {ready}"));
            }
        }
        Ok(())
    }
}
