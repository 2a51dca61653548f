//! Users end what keeps rollouts from coming to an end.

use fleetdex_distribution::rollout::RESUME;
use fleetdex_interpreter::value::text;

use super::{
    expected::objects, servers::SETS, set_sources::source_text, set_users::SetUsers, world::World,
};

impl World {
    /// Ends what keeps rollouts from coming to an end.
    pub fn settle_sets(&mut self) -> anyhow::Result<()> {
        if self.sets.is_none() {
            return Ok(());
        }
        self.with_sets(|sets| {
            sets.ill.clear();
            sets.ill_marks.clear();
        });
        for set in objects(&self.control_plane, SETS)? {
            let name = text(&set, &["metadata", "name"]).to_owned();
            self.restore_rights(&name, &set);
            if !set["metadata"]["deletionTimestamp"].is_null() {
                continue;
            }
            self.edit_set(&name, |set| {
                set["spec"]["suspend"] = false.into();
                if !set["spec"]["rollout"].is_null() {
                    set["spec"]["rollout"]["paused"] = false.into();
                }
            })?;
            if self.with_sets(|sets| sets.broken.contains(&name)) {
                self.edit_source(&name)?;
            }
            self.give_up_names(&name)?;
        }
        let names = self.sets.as_ref().map(SetUsers::names).unwrap_or_default();
        self.remove_foreign(&names)?;
        self.run_workloads()
    }

    /// Removes the objects of a set whose names other sets and templates may have, too.
    fn give_up_names(&mut self, name: &str) -> anyhow::Result<()> {
        let source = self.sets.as_ref().and_then(|sets| sets.source(name));
        let mut objects = source.unwrap_or_default().to_vec();
        let number = objects.len();
        objects.retain(|one| text(one, &["metadata", "name"]).starts_with(name));
        if objects.len() == number {
            return Ok(());
        }
        let given_up = source_text(&objects);
        self.with_sets(|sets| {
            let sources = sets.sources.entry(name.to_owned()).or_default();
            sources.push(objects);
        });
        self.write_source(name, &given_up)
    }

    /// Resumes rollouts that wait for it, as a user does who reads that they wait.
    pub fn attend_sets(&mut self) -> anyhow::Result<()> {
        if self.sets.is_none() {
            return Ok(());
        }
        for set in objects(&self.control_plane, SETS)? {
            let rollout = &set["status"]["rollout"];
            if rollout["phase"] != "Paused" {
                continue;
            }
            let value = format!("{}/{}", text(rollout, &["revision"]), rollout["wave"]);
            if set["metadata"]["annotations"][RESUME] != *value {
                let name = text(&set, &["metadata", "name"]).to_owned();
                self.resume(&name, &set)?;
            }
        }
        Ok(())
    }
}
