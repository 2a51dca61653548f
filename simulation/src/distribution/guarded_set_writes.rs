//! Judges what operators write of sets.

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use fakes::apiserver::ClientWrite;
use fleetdex_crds::distribution::RolloutStatus;
use fleetdex_distribution::{
    template_name::{NamedTemplate, TemplateName},
    templates::RENDERING_SECRET,
};
use fleetdex_interpreter::value::{list, text};
use fleetdex_rendering::kept::StoredRendering;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    guard::{Guard, GuardState},
    servers::SETS,
    set_history::{SetHistory, by_name},
    set_sources::mark,
    set_waves::selected,
    timeline::Place,
};

const KEEP: &str = "helm.sh/resource-policy";

impl Guard {
    /// A user has changed a set. `source`: what it has now; `None`: nothing that can be rendered.
    pub fn set_changed(&self, set: &Value, source: Option<&[Value]>, is_denied: bool) {
        let uid = text(set, &["metadata", "uid"]).to_owned();
        let mut state = self.lock();
        let sets = &mut state.sets;
        for mark in source.into_iter().flatten().filter_map(mark) {
            let is_new = sets.owners.insert(mark.to_owned(), uid.clone()).is_none();
            if is_new && is_denied {
                sets.unlawful.insert(mark.to_owned());
            }
        }
        let history = sets.sets.entry(uid).or_default();
        if history.statuses.last().is_none() {
            history.statuses.push(RolloutStatus::default());
        }
        history.objects.push(set.clone());
        history.sources.push(source.map(by_name));
    }

    /// A user has deleted a set.
    pub fn set_ended(&self, uid: &str) {
        if let Some(history) = self.lock().sets.sets.get_mut(uid) {
            history.ended.get_or_insert_with(Instant::now);
        }
    }

    /// The account of a set has its rights again.
    pub fn rights_restored(&self, set: &str) {
        let mut state = self.lock();
        let unlawful = &mut state.sets.unlawful;
        unlawful.retain(|mark| !mark.starts_with(&format!("{set}-")));
    }

    /// How a workload is in a member from now on.
    pub fn workload_seen(&self, member: &str, name: &TemplateName, is_healthy: bool) {
        let place = (member.to_owned(), name.clone());
        self.lock().sets.health.set_health(&place, is_healthy);
    }

    /// The objects of a revision.
    pub fn revision(&self, uid: &str, revision: &str) -> Option<Arc<[NamedTemplate]>> {
        let state = self.lock();
        let objects = state.sets.sets.get(uid)?.revisions.get(revision)?;
        let objects = objects.values().cloned().map(NamedTemplate::from);
        Some(objects.collect())
    }
}

impl GuardState {
    /// Whether a write to the control plane is one of sets; then it is judged.
    pub(super) fn judge_set_object(&mut self, write: &ClientWrite) -> bool {
        if write.resource == "secrets" {
            self.judge_rendering(write);
            return true;
        }
        if write.resource != SETS {
            return false;
        }
        if write.subresource == "status" {
            self.judge_rollout(write);
            return true;
        }
        let without_finalizers = |object: &Value| {
            let mut object = object.clone();
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.retain(|name, _| {
                    !matches!(&**name, "finalizers" | "managedFields" | "resourceVersion")
                });
            }
            object
        };
        let before = write.before.as_ref().map(without_finalizers);
        match &write.after {
            None => self.judge_letting_go(write),
            Some(after) if before != Some(without_finalizers(after)) => {
                self.violated("an operator changes a Distribution", "it", write);
            }
            Some(_) => {}
        }
        true
    }

    /// A rendering is what the source was at some time.
    fn judge_rendering(&mut self, write: &ClientWrite) {
        let object = write.after.as_ref().or(write.before.as_ref());
        let null = Value::Null;
        let object = object.unwrap_or(&null);
        let owner = list(object, &["metadata", "ownerReferences"]).first();
        let uid = owner.map_or("", |owner| text(owner, &["uid"])).to_owned();
        let is_of_set = text(object, &["type"]) == RENDERING_SECRET;
        if !is_of_set || !self.sets.sets.contains_key(&uid) {
            self.violated("an operator writes a Secret of others", "it", write);
            return;
        }
        if write.after.is_none() || write.before.is_some() {
            return;
        }
        let packed = BASE64_STANDARD.decode(text(object, &["data", "rendering"]));
        let kept = packed.ok().map(|packed| StoredRendering::unpack(&packed));
        let Some(Ok(kept)) = kept else {
            self.violated("a rendering is kept that nobody can read", "it", write);
            return;
        };
        let objects = by_name(&kept.objects);
        let since = self.started;
        let Some(set) = self.sets.sets.get_mut(&uid) else {
            return;
        };
        let is_right = {
            let mut sources = set.sources.since(since).flatten();
            sources.any(|source| *source == objects)
        };
        set.revisions.insert(kept.digest.to_string(), objects);
        if !is_right {
            self.violated("a rendering is kept that no source was", "it", write);
        }
    }

    /// A `Distribution` goes when no member has anything of it.
    fn judge_letting_go(&mut self, write: &ClientWrite) {
        let Some(before) = &write.before else {
            return;
        };
        let uid = text(before, &["metadata", "uid"]);
        let sets = &self.sets;
        let left = self.made.keys().find(|place| {
            let mark = sets.health.mark(place);
            mark.and_then(|mark| sets.owners.get(mark))
                .is_some_and(|owner| owner == uid)
        });
        if let Some((member, name)) = left.cloned() {
            let what = format!("a Distribution goes, and {member} has its {name}");
            self.violated(&what, "it", write);
        }
    }

    /// Judges and notes what becomes of an object of a set in a member.
    pub(super) fn note_set_copy(&mut self, place: &Place, write: &ClientWrite, is_copy: bool) {
        let after = write.after.as_ref().filter(|_| is_copy);
        let after = after.and_then(mark).map(str::to_owned);
        let before = write.before.as_ref().and_then(mark);
        if let Some(mark) = &after
            && before != Some(mark)
            && let Some(problem) = self.write_problem(place, mark)
        {
            self.violated(&format!("{problem}: {mark} is written"), &place.0, write);
        }
        self.sets.health.set_mark(place, after.as_deref());
    }

    /// Why an object of this mark is not to be written there.
    fn write_problem(&self, place: &Place, mark: &str) -> Option<String> {
        let set = self.sets.owner(mark)?;
        if self.sets.unlawful.contains(mark) {
            return Some("the account of a set has no right to write".to_owned());
        }
        if set.ended.is_some_and(|at| at.elapsed() > self.stale) {
            return Some("an object is written of a set that is being deleted".to_owned());
        }
        let (member, name) = place;
        let statuses: Vec<&RolloutStatus> = set.statuses.since(self.known_since()).collect();
        let mut marks = statuses
            .iter()
            .map(|status| set.mark_in(status, member, name));
        if marks.any(|known| known == Some(mark)) {
            return None;
        }
        let now = statuses.first().map_or(String::new(), |status| {
            format!(
                "wave {}, {}, {:?}, {:?} there",
                status.progress,
                status.phase,
                status.reached,
                set.mark_in(status, member, name)
            )
        });
        Some(format!("a rollout has not come to it ({now})"))
    }

    /// The earliest time of which an operator may still act.
    pub(super) fn known_since(&self) -> Instant {
        let since = Instant::now().checked_sub(self.stale);
        since.unwrap_or(self.started)
    }

    /// Whether a rollout, a user or a placement takes an object of a set from a member. `None`: it
    /// is no object of a set. `releases`: it is left to the member.
    pub(super) fn leaves_set(&self, place: &Place, releases: bool) -> Option<bool> {
        let mark = self.sets.health.mark(place)?;
        let set = self.sets.owner(mark)?;
        let (member, name) = place;
        let since = self.known_since();
        let (mut may_prune, mut may_release, mut is_moved) = (false, false, false);
        for object in set.objects.since(since) {
            let prunes = object["spec"]["prune"] != false;
            let is_kept = is_kept(set, mark, name);
            may_prune |= prunes && !is_kept;
            may_release |= !prunes || is_kept;
            is_moved |= !selected(object).contains(member);
        }
        let is_gone = set.ended.is_some()
            || set.statuses.since(since).any(|status| {
                match set.objects_in(status, member) {
                    Some(objects) => !objects.contains_key(name),
                    // Without a stable revision, what the new one has stays.
                    None => {
                        let new = set.revisions.get(&status.revision);
                        new.is_some_and(|new| !new.contains_key(name))
                    }
                }
            });
        Some(if releases {
            (is_gone || is_moved) && may_release
        } else {
            is_moved || (is_gone && may_prune)
        })
    }
}

/// Whether an object says of itself that it stays when it leaves the set.
fn is_kept(set: &SetHistory, mark_of_it: &str, name: &TemplateName) -> bool {
    let mut revisions = set.revisions.values();
    revisions.any(|objects| {
        let object = objects.get(name);
        let object = object.filter(|object| mark(object) == Some(mark_of_it));
        object.is_some_and(|object| object["metadata"]["annotations"][KEEP] == "keep")
    })
}
