//! What users do to sets, and what happens to what sets run.

use fleetdex_distribution::{
    rollout::{RESUME, UNDO},
    template_name::TemplateName,
};
use fleetdex_interpreter::value::text;
use rand::{RngExt, seq::IndexedRandom};
use serde_json::{Value, json};

use super::{
    expected::objects,
    servers::{MAPS, NAMESPACE, SETS, USER},
    set_sources::{BROKEN, SET_NAMES, mark, next_source, source_text},
    set_specs::{placement, rollout},
    set_users::{FROM_MAP, SOURCE_MAP, SetUsers, account_of},
    world::{World, refused},
};

/// All operations of sets, for counting.
pub const SET_OPERATIONS: [&str; 20] = [
    "set made",
    "set deleted",
    "source edited",
    "source edited back",
    "source broken",
    "set placed anew",
    "waves edited",
    "rollout paused",
    "rollout goes on",
    "wave resumed",
    "wave of another revision resumed",
    "revision undone",
    "undo withdrawn",
    "prune changed",
    "set suspended",
    "rights withdrawn",
    "rights restored",
    "workload ill",
    "workload recovers",
    "revision ill",
];

impl World {
    /// Makes the first sets.
    pub fn populate_sets(&mut self) -> anyhow::Result<()> {
        for _ in 0..self.random.random_range(1..4) {
            self.make_set()?;
        }
        Ok(())
    }

    /// One random operation of sets.
    pub fn operate_sets(&mut self) -> anyhow::Result<()> {
        let choice = self.random.random_range(0..40);
        if choice <= 2 {
            return self.make_set();
        }
        if choice <= 4 {
            self.note("workload recovers");
            self.with_sets(|sets| sets.ill.clear());
            return self.run_workloads();
        }
        let sets = objects(&self.control_plane, SETS)?.into_iter();
        let live = sets.filter(|set| set["metadata"]["deletionTimestamp"].is_null());
        let live: Vec<Value> = live.collect();
        let Some(set) = live.choose(&mut self.random).cloned() else {
            return Ok(());
        };
        let name = text(&set, &["metadata", "name"]).to_owned();
        match choice {
            5..=14 => self.edit_source(&name),
            15 | 16 => self.edit_source_back(&name),
            17 => self.break_source(&name),
            18..=20 => self.place_anew(&name),
            21 | 22 => self.edit_waves(&name),
            23 => self.pause(&name, &set),
            24 | 25 => self.resume(&name, &set),
            26 => self.resume_another(&name, &set),
            27..=29 => self.undo(&name, &set),
            30 => self.change_prune(&name),
            31 => self.suspend(&name, &set),
            32 | 33 => self.change_rights(&name, &set),
            34 => self.delete_set(&name, &set),
            35..=37 => self.make_ill(&name),
            _ => self.make_revision_ill(&name),
        }
    }

    pub(super) fn with_sets<T: Default>(&mut self, change: impl FnOnce(&mut SetUsers) -> T) -> T {
        self.sets.as_mut().map(change).unwrap_or_default()
    }

    fn make_set(&mut self) -> anyhow::Result<()> {
        let name = SET_NAMES[self.random.random_range(0..SET_NAMES.len())];
        let known = self.control_plane.object(SETS, Some(NAMESPACE), name);
        if known.map_err(refused)?.is_some() {
            return Ok(());
        }
        self.note("set made");
        let objects = self.new_source(name, &[]);
        let source = match name {
            FROM_MAP => json!({ "configMapRef": { "name": SOURCE_MAP, "key": "objects" } }),
            _ => json!({ "inline": source_text(&objects) }),
        };
        let mut spec = json!({
            "source": { "manifests": source }, "serviceAccountName": format!("account-{name}"),
        });
        for (field, value) in [
            ("placement", placement(&mut self.random)),
            ("rollout", rollout(&mut self.random)),
        ] {
            if !value.is_null() {
                spec[field] = value;
            }
        }
        self.with_sets(|sets| {
            sets.sources.insert(name.to_owned(), vec![objects.clone()]);
            sets.broken.remove(name);
        });
        if name == FROM_MAP {
            self.write_source_map(&source_text(&objects))?;
        }
        let metadata = json!({ "namespace": NAMESPACE, "name": name });
        self.apply(SETS, json!({ "metadata": metadata, "spec": spec }))?;
        self.note_set(name)
    }

    fn new_source(&mut self, name: &str, before: &[Value]) -> Vec<Value> {
        let write = self.with_sets(|sets| {
            sets.writes += 1;
            sets.writes
        });
        next_source(&mut self.random, name, before, write)
    }

    fn write_source_map(&self, text: &str) -> anyhow::Result<()> {
        let metadata = json!({ "namespace": NAMESPACE, "name": SOURCE_MAP });
        self.apply(
            MAPS,
            json!({ "metadata": metadata, "data": { "objects": text } }),
        )
    }

    /// Tells the guard what a set is now.
    fn note_set(&self, name: &str) -> anyhow::Result<()> {
        let set = self.control_plane.object(SETS, Some(NAMESPACE), name);
        let (Some(set), Some(sets)) = (set.map_err(refused)?, &self.sets) else {
            return Ok(());
        };
        let is_denied = sets.denied.contains(name);
        self.guard.set_changed(&set, sets.source(name), is_denied);
        Ok(())
    }

    pub(super) fn edit_set(
        &self,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> anyhow::Result<()> {
        let edited = self
            .control_plane
            .edit(SETS, Some(NAMESPACE), name, USER, change);
        edited.map_err(refused)?;
        self.note_set(name)
    }

    fn annotate_set(&self, name: &str, key: &str, value: &str) -> anyhow::Result<()> {
        self.edit_set(name, |set| {
            set["metadata"]["annotations"][key] = value.into();
        })
    }

    pub(super) fn write_source(&self, name: &str, text: &str) -> anyhow::Result<()> {
        if name != FROM_MAP {
            return self.edit_set(name, |set| {
                set["spec"]["source"]["manifests"]["inline"] = text.into();
            });
        }
        self.write_source_map(text)?;
        self.note_set(name)
    }

    pub(super) fn edit_source(&mut self, name: &str) -> anyhow::Result<()> {
        self.note("source edited");
        let before = self.with_sets(|sets| {
            let before = sets.sources.get(name).and_then(|sources| sources.last());
            before.cloned().unwrap_or_default()
        });
        let objects = self.new_source(name, &before);
        let text = source_text(&objects);
        self.with_sets(|sets| {
            sets.broken.remove(name);
            sets.sources
                .entry(name.to_owned())
                .or_default()
                .push(objects);
        });
        self.write_source(name, &text)
    }

    fn edit_source_back(&mut self, name: &str) -> anyhow::Result<()> {
        let known = self.with_sets(|sets| sets.sources.get(name).cloned().unwrap_or_default());
        let Some(objects) = known.choose(&mut self.random).cloned() else {
            return Ok(());
        };
        self.note("source edited back");
        let text = source_text(&objects);
        self.with_sets(|sets| {
            sets.broken.remove(name);
            sets.sources
                .entry(name.to_owned())
                .or_default()
                .push(objects);
        });
        self.write_source(name, &text)
    }

    fn break_source(&mut self, name: &str) -> anyhow::Result<()> {
        self.note("source broken");
        self.with_sets(|sets| sets.broken.insert(name.to_owned()));
        if name == FROM_MAP && self.random.random_ratio(1, 2) {
            let deleted = self.control_plane.delete(MAPS, Some(NAMESPACE), SOURCE_MAP);
            deleted.map_err(refused)?;
            return self.note_set(name);
        }
        self.write_source(name, BROKEN)
    }

    fn place_anew(&mut self, name: &str) -> anyhow::Result<()> {
        self.note("set placed anew");
        let placement = placement(&mut self.random);
        self.edit_set(name, |set| set["spec"]["placement"] = placement)
    }

    fn edit_waves(&mut self, name: &str) -> anyhow::Result<()> {
        self.note("waves edited");
        let rollout = rollout(&mut self.random);
        self.edit_set(name, |set| set["spec"]["rollout"] = rollout)
    }

    fn pause(&mut self, name: &str, set: &Value) -> anyhow::Result<()> {
        let rollout = &set["spec"]["rollout"];
        if rollout.is_null() {
            return Ok(());
        }
        let pauses = rollout["paused"] != true;
        self.note(if pauses {
            "rollout paused"
        } else {
            "rollout goes on"
        });
        self.edit_set(name, |set| set["spec"]["rollout"]["paused"] = pauses.into())
    }

    pub(super) fn resume(&mut self, name: &str, set: &Value) -> anyhow::Result<()> {
        let rollout = &set["status"]["rollout"];
        if rollout.is_null() {
            return Ok(());
        }
        self.note("wave resumed");
        let value = format!("{}/{}", text(rollout, &["revision"]), rollout["wave"]);
        self.annotate_set(name, RESUME, &value)
    }

    fn resume_another(&mut self, name: &str, set: &Value) -> anyhow::Result<()> {
        let rollout = &set["status"]["rollout"];
        let stable = text(rollout, &["stable"]);
        if stable.is_empty() || rollout["stable"] == rollout["revision"] {
            return Ok(());
        }
        self.note("wave of another revision resumed");
        self.annotate_set(name, RESUME, &format!("{stable}/{}", rollout["wave"]))
    }

    fn undo(&mut self, name: &str, set: &Value) -> anyhow::Result<()> {
        if !set["metadata"]["annotations"][UNDO].is_null() && self.random.random_ratio(1, 2) {
            self.note("undo withdrawn");
            return self.edit_set(name, |set| {
                if let Some(annotations) = set["metadata"]["annotations"].as_object_mut() {
                    annotations.shift_remove(UNDO);
                }
            });
        }
        let revision = text(set, &["status", "rollout", "revision"]);
        if revision.is_empty() {
            return Ok(());
        }
        self.note("revision undone");
        self.annotate_set(name, UNDO, revision)
    }

    fn change_prune(&mut self, name: &str) -> anyhow::Result<()> {
        self.note("prune changed");
        let prunes = self.random.random_ratio(2, 3);
        self.edit_set(name, |set| set["spec"]["prune"] = prunes.into())
    }

    fn suspend(&mut self, name: &str, set: &Value) -> anyhow::Result<()> {
        self.note("set suspended");
        let suspends = set["spec"]["suspend"] != true;
        self.edit_set(name, |set| set["spec"]["suspend"] = suspends.into())
    }

    fn change_rights(&mut self, name: &str, set: &Value) -> anyhow::Result<()> {
        let is_denied = self.with_sets(|sets| sets.denied.contains(name));
        if is_denied {
            self.restore_rights(name, set);
            return Ok(());
        }
        self.note("rights withdrawn");
        self.with_sets(|sets| sets.denied.insert(name.to_owned()));
        self.control_plane.set_denied(&account_of(set), true);
        if self.random.random_ratio(2, 3) {
            return self.edit_source(name);
        }
        Ok(())
    }

    pub(super) fn restore_rights(&mut self, name: &str, set: &Value) {
        self.note("rights restored");
        self.with_sets(|sets| sets.denied.remove(name));
        self.control_plane.set_denied(&account_of(set), false);
        self.guard.rights_restored(name);
    }

    fn delete_set(&mut self, name: &str, set: &Value) -> anyhow::Result<()> {
        self.note("set deleted");
        let deleted = self.control_plane.delete(SETS, Some(NAMESPACE), name);
        self.guard.set_ended(text(set, &["metadata", "uid"]));
        deleted.map(drop).map_err(refused)
    }

    fn make_ill(&mut self, name: &str) -> anyhow::Result<()> {
        self.note("workload ill");
        let (member, _) = self.some_member();
        let workload = self.workload(name);
        self.with_sets(|sets| {
            let workload = workload.map(|object| TemplateName::of(&object));
            let workload = workload.map(|workload| (member.to_owned(), workload));
            sets.ill.extend(workload);
        });
        self.run_workloads()
    }

    fn workload(&self, name: &str) -> Option<Value> {
        let source = self.sets.as_ref()?.sources.get(name)?.last()?;
        let mut workloads = source.iter().filter(|one| one["kind"] == "Deployment");
        workloads.next().cloned()
    }

    /// What a set runs now is ill wherever it is.
    fn make_revision_ill(&mut self, name: &str) -> anyhow::Result<()> {
        self.note("revision ill");
        let workload = self.workload(name);
        let mark = workload.as_ref().and_then(mark).map(str::to_owned);
        self.with_sets(|sets| sets.ill_marks.extend(mark));
        self.run_workloads()
    }
}
