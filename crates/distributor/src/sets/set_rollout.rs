//! The rollout of one set: what is written of it, and the renderings that are in force.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_core::planted::{Bug, planted};
use fleetdex_crds::distribution::{HookStatus, KeptRevision, RolloutStatus};
use fleetdex_distribution::{
    hooks::{HookState, SetHook, reaches_all, target},
    rollout::{RolloutPhase, RolloutState, short},
    sets::{HookAdmission, SetContents, SetObjects, UnreachedContents},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize as _;
use serde_json::Value;
use tokio::time::Instant;

use super::{capabilities::ClusterCapabilities, set_rendering::SetRendering};

/// Kept revisions in a status, at most: three are needed, and the others are being deleted.
const MOST_LISTED: usize = 10;

/// The rollout of one set.
#[derive(Default)]
pub struct SetRollout {
    /// As the control plane has it; `None`: none has begun.
    state: Option<RolloutState>,
    /// How far its hooks are, as the control plane has it; `None`: it has none.
    hooks: Option<HookState>,
    /// The revisions that Secrets have, as the control plane has them.
    listed: Vec<KeptRevision>,
    /// The renderings that are known, by revision.
    renderings: BTreeMap<String, Arc<SetRendering>>,
    /// Since when plans are made by `state`: before that nothing is known of its clusters.
    planned_since: Option<Instant>,
}

/// The revisions that clusters have.
pub struct RevisionsInForce<'r> {
    /// That of clusters that are reached.
    rendering: &'r SetRendering,
    /// That of the others, and the clusters that are reached; `None`: all are.
    unreached: Option<(Option<&'r SetRendering>, &'r BTreeSet<String>)>,
}

impl RevisionsInForce<'_> {
    /// The objects of these clusters.
    pub fn contents(
        &self,
        clusters: &ClusterCapabilities,
    ) -> (SetContents, Option<UnreachedContents>) {
        let contents = self.rendering.for_clusters(clusters);
        let unreached = self.unreached.map(|(stable, reached)| UnreachedContents {
            objects: stable.map_or_else(SetObjects::default, |one| one.for_clusters(clusters)),
            reached: reached.clone(),
        });
        (SetContents::Known(contents), unreached)
    }
}

impl SetRollout {
    /// As the status of a `Distribution` has it.
    pub fn of(status: &Value) -> Self {
        if planted(Bug::SetForgetsRollout) {
            return Self::default();
        }
        let hooks = HookStatus::deserialize(&status["hooks"]).unwrap_or_default();
        let status = RolloutStatus::deserialize(&status["rollout"]).unwrap_or_default();
        let state = RolloutState::read(&status);
        Self {
            hooks: state.as_ref().and_then(|_| HookState::read(&hooks)),
            state,
            listed: status.revisions,
            ..Self::default()
        }
    }

    /// How far its hooks are; `None`: it has none.
    pub fn hooks(&self) -> Option<&HookState> {
        self.hooks.as_ref()
    }

    /// The hooks of the revision that clusters shall have by a state; `None`: they are not known.
    pub fn hooks_of(&self, state: &RolloutState) -> Option<&Arc<[SetHook]>> {
        let rendering = self.renderings.get(target(state))?;
        Some(&rendering.hooks)
    }

    /// Which clusters get its objects; `None`: all do.
    pub fn admission(&self) -> Option<HookAdmission> {
        let hooks = self.hooks.as_ref()?;
        let known = self.renderings.get(&hooks.revision);
        Some(HookAdmission {
            clusters: hooks.installed.clone(),
            namespaces: known
                .map(|known| hooks.namespaces(&known.hooks))
                .unwrap_or_default(),
        })
    }

    /// How far it is.
    pub fn state(&self) -> Option<&RolloutState> {
        self.state.as_ref()
    }

    /// The renderings that are known.
    pub fn renderings(&self) -> &BTreeMap<String, Arc<SetRendering>> {
        &self.renderings
    }

    /// The rendering of the revision that is rolled out.
    pub fn rendering(&self) -> Option<&Arc<SetRendering>> {
        self.renderings.get(&self.state.as_ref()?.revision)
    }

    /// The revisions that clusters have.
    pub fn in_force(&self) -> BTreeSet<String> {
        let Some(state) = &self.state else {
            return BTreeSet::new();
        };
        let is_undone = state.phase == RolloutPhase::Undone;
        // Hooks hold back the change in some clusters.
        let hooks = self.hooks.as_ref();
        let are_held = hooks.is_some_and(|hooks| !hooks.is_everywhere());
        let is_partial = |is_over: bool| are_held || !is_over;
        let stable = state.stable.iter();
        let stable = stable.filter(|_| is_undone || is_partial(reaches_all(state)));
        let own = Some(&state.revision).filter(|_| is_partial(is_undone));
        stable.chain(own).cloned().collect()
    }

    /// The revisions that clusters have, and that are not known.
    pub fn wanted(&self) -> Vec<String> {
        let wanted = self.in_force().into_iter();
        wanted
            .filter(|revision| !self.renderings.contains_key(revision))
            .collect()
    }

    /// The revisions that Secrets have, and that are not needed.
    pub fn unneeded(&self) -> Vec<String> {
        let Some(state) = &self.state else {
            return Vec::new();
        };
        let needed = state.needed();
        let listed = self.listed.iter().map(|one| &one.revision);
        let unneeded = listed.filter(|revision| !needed.contains(revision.as_str()));
        unneeded.cloned().collect()
    }

    /// The revisions that Secrets have.
    pub fn kept(&self) -> BTreeSet<String> {
        let listed = self.listed.iter();
        listed.map(|one| one.revision.clone()).collect()
    }

    /// Takes over a rendering.
    pub fn add(&mut self, rendering: &Arc<SetRendering>) {
        let revision = rendering.digest.to_string();
        self.renderings.insert(revision, Arc::clone(rendering));
    }

    /// Takes over which Secrets were deleted.
    pub fn forget(&mut self, forgotten: &[String]) {
        self.listed.retain(|one| !forgotten.contains(&one.revision));
    }

    /// Forgets the renderings that clusters do not have. `newest`: that of the source.
    pub fn forget_unneeded(&mut self, newest: Option<&Arc<SetRendering>>) {
        let in_force = self.in_force();
        let newest = newest.map(|one| one.digest.as_str());
        self.renderings
            .retain(|revision, _| in_force.contains(revision) || Some(revision.as_str()) == newest);
    }

    /// The revisions that clusters have; an error: that is not known.
    pub fn revisions(&self) -> Result<RevisionsInForce<'_>, String> {
        let Some(state) = &self.state else {
            return Err("its rollout has not begun".to_owned());
        };
        let known = |revision: &str| {
            let rendering = self.renderings.get(revision).ok_or_else(|| {
                format!(
                    "revision {}, which clusters have, is not kept: without spec.rollout all \
                     clusters get what the source has",
                    short(revision)
                )
            })?;
            Ok::<_, String>(&**rendering)
        };
        let (revision, other) = (target(state), other(state));
        let is_forgotten = planted(Bug::SetUndoForgetsCluster)
            && state.phase == RolloutPhase::Undone
            && !state.reached.is_empty();
        if is_forgotten {
            return Ok(RevisionsInForce {
                rendering: known(&state.revision)?,
                unreached: Some((
                    state.stable.as_deref().map(known).transpose()?,
                    &state.reached,
                )),
            });
        }
        let rendering = known(revision)?;
        let is_everywhere = reaches_all(state);
        let reached = match &self.hooks {
            Some(hooks) if hooks.revision != revision => {
                return Err("its hooks are those of another revision".to_owned());
            }
            Some(hooks) if is_everywhere && hooks.is_everywhere() => None,
            Some(hooks) => Some(&hooks.prepared),
            None if is_everywhere => None,
            None => Some(&state.reached),
        };
        let unreached = match reached {
            Some(reached) => Some((other.map(known).transpose()?, reached)),
            None => None,
        };
        Ok(RevisionsInForce {
            rendering,
            unreached,
        })
    }

    /// How long plans are made by the state; `None`: none was made.
    pub fn planned_for(&self) -> Option<Duration> {
        self.planned_since.map(|since| since.elapsed())
    }

    /// A plan is made. `is_known`: what clusters have is known.
    pub fn planned(&mut self, is_known: bool) {
        if is_known {
            self.planned_since.get_or_insert_with(Instant::now);
        } else {
            self.planned_since = None;
        }
    }

    /// The status of a next state.
    pub fn status(&self, next: &RolloutState) -> RolloutStatus {
        let needed = next.needed();
        let mut listed: Vec<KeptRevision> = Vec::new();
        let is_listed = |revision: &str, listed: &[KeptRevision]| {
            listed.iter().any(|one| one.revision == revision)
        };
        if let Some(rendering) = self.renderings.get(&next.revision)
            && rendering.is_kept
            && !is_listed(&next.revision, &self.listed)
        {
            listed.push(KeptRevision {
                revision: next.revision.clone(),
                version: rendering.version.clone(),
                objects: i64::try_from(rendering.number).unwrap_or(i64::MAX),
                began_at: Some(Time(next.began)),
            });
        }
        listed.extend(self.listed.iter().cloned());
        // Those that are needed are not crowded out by those that cannot be deleted.
        listed.sort_by_key(|one| !needed.contains(one.revision.as_str()));
        listed.truncate(MOST_LISTED);
        next.status(listed)
    }

    /// Takes over what was written.
    pub fn written(&mut self, next: RolloutState, status: RolloutStatus, hooks: Option<HookState>) {
        let of = |state: &RolloutState| (state.revision.clone(), state.phase, state.wave);
        let is_same = self
            .state
            .as_ref()
            .is_some_and(|before| of(before) == of(&next) && before.reached == next.reached);
        let prepared = |hooks: &HookState| {
            (
                hooks.prepared.clone(),
                hooks.installed.clone(),
                hooks.ending,
            )
        };
        if !is_same || self.hooks.as_ref().map(prepared) != hooks.as_ref().map(prepared) {
            self.planned_since = None;
        }
        self.listed = status.revisions;
        self.state = Some(next);
        self.hooks = hooks;
    }
}

/// What clusters have that do not have the [`target`]; `None`: nothing.
fn other(state: &RolloutState) -> Option<&str> {
    match state.phase {
        RolloutPhase::Undone if state.stable.is_some() => Some(&state.revision),
        _ => state.stable.as_deref(),
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_rendering::{
        digest::Sha256Digest,
        kept::{StoredRendering, StoredVariant},
    };
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::copy_memory::CopyMemory;

    fn rendering(name: &str) -> Arc<SetRendering> {
        let objects = vec![json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "shop"}})];
        let digest = Sha256Digest::of(name.as_bytes());
        let kept = StoredRendering {
            digest: digest.clone(),
            source: digest.clone(),
            version: name.to_owned(),
            notes: String::new(),
            warnings: Vec::new(),
            objects,
            variants: vec![StoredVariant {
                digest,
                objects: vec![0],
                ..StoredVariant::default()
            }],
            hooks: Vec::new(),
        };
        let memory = CopyMemory::limited_to(1 << 20);
        Arc::new(SetRendering::new(kept, &[], true, &memory).unwrap())
    }

    fn state(
        phase: RolloutPhase,
        new: &SetRendering,
        stable: Option<&SetRendering>,
    ) -> RolloutState {
        RolloutState {
            phase,
            stable: stable.map(|one| one.digest.to_string()),
            wave: 1,
            waves: 2,
            reached: ["m1".to_owned()].into(),
            ..RolloutState::new(new.digest.as_str(), Timestamp::UNIX_EPOCH)
        }
    }

    /// The first object of the set, and that of clusters that are not reached.
    fn shown(rollout: &SetRollout) -> Result<(String, Option<String>), String> {
        let first = |objects: &SetObjects| {
            let first = objects.all().first();
            first.map_or("none".to_owned(), |one| one.name.name.clone())
        };
        let revisions = rollout.revisions()?;
        let (contents, unreached) = revisions.contents(&ClusterCapabilities::default());
        let SetContents::Known(objects) = contents else {
            return Err("unknown".to_owned());
        };
        Ok((first(&objects), unreached.map(|one| first(&one.objects))))
    }

    #[test]
    fn what_clusters_have_follows_from_the_phase() {
        let (new, old) = (rendering("new"), rendering("old"));
        let both = [&new, &old];
        for (state, known, expected) in [
            (
                state(RolloutPhase::Progressing, &new, Some(&old)),
                &both[..],
                Ok(("new", Some("old"))),
            ),
            (
                state(RolloutPhase::Failed, &new, None),
                &both[..],
                Ok(("new", Some("none"))),
            ),
            (
                state(RolloutPhase::Complete, &new, Some(&new)),
                &both[..1],
                Ok(("new", None)),
            ),
            (
                state(RolloutPhase::Undone, &new, Some(&old)),
                &both[1..],
                Ok(("old", None)),
            ),
            (
                RolloutState {
                    wave: 2,
                    ..state(RolloutPhase::Progressing, &new, Some(&old))
                },
                &both[..1],
                Ok(("new", None)),
            ),
            // What is missing is not guessed.
            (
                state(RolloutPhase::Progressing, &new, Some(&old)),
                &both[..1],
                Err(()),
            ),
            (
                state(RolloutPhase::Undone, &new, Some(&old)),
                &both[..1],
                Err(()),
            ),
        ] {
            let mut rollout = SetRollout {
                state: Some(state),
                ..SetRollout::default()
            };
            for rendering in known {
                rollout.add(rendering);
            }
            let expected =
                expected.map(|(set, unreached)| (set.to_owned(), unreached.map(str::to_owned)));
            assert_eq!(shown(&rollout).map_err(drop), expected);
            assert_eq!(rollout.wanted().is_empty(), expected.is_ok());
        }
    }

    #[test]
    fn clusters_have_the_other_revision_until_their_hooks_have_succeeded() {
        let (new, old) = (rendering("new"), rendering("old"));
        let hooks = |revision: &SetRendering, prepared: &[&str]| HookState {
            revision: revision.digest.to_string(),
            installed: ["m1".to_owned(), "m2".to_owned()].into(),
            prepared: prepared.iter().map(|name| (*name).to_owned()).collect(),
            ..HookState::default()
        };
        let everywhere = RolloutState {
            wave: 2,
            ..state(RolloutPhase::Progressing, &new, Some(&old))
        };
        let undone = state(RolloutPhase::Undone, &new, Some(&old));
        for (state, hooks, expected) in [
            (&everywhere, hooks(&new, &["m1"]), Ok(("new", Some("old")))),
            (&everywhere, hooks(&new, &["m1", "m2"]), Ok(("new", None))),
            (&undone, hooks(&old, &["m1"]), Ok(("old", Some("new")))),
            (&undone, hooks(&old, &["m1", "m2"]), Ok(("old", None))),
            (&undone, hooks(&new, &[]), Err(())),
        ] {
            let mut rollout = SetRollout {
                state: Some(state.clone()),
                hooks: Some(hooks),
                ..SetRollout::default()
            };
            // What clusters have is read, and nothing else.
            assert_eq!(rollout.wanted().len(), rollout.in_force().len());
            let expected = expected.map(|(set, other)| (set.to_owned(), other.map(str::to_owned)));
            let has_both = matches!(&expected, Ok((_, Some(_))));
            assert_eq!(rollout.in_force().len() == 2, has_both || expected.is_err());
            for rendering in [&new, &old] {
                rollout.add(rendering);
            }
            assert_eq!(shown(&rollout).map_err(drop), expected);
            let admission = rollout.admission().unwrap();
            assert_eq!(admission.clusters.len(), 2);
        }
    }

    #[test]
    fn revisions_are_listed_until_their_secrets_are_deleted() {
        let (new, old, older) = (rendering("new"), rendering("old"), rendering("older"));
        let mut rollout = SetRollout::default();
        for one in [&older, &old, &new] {
            rollout.add(one);
            let mut next = state(RolloutPhase::Progressing, one, None);
            next.stable = rollout.state().map(|before| before.revision.clone());
            let status = rollout.status(&next);
            rollout.written(next, status, None);
        }
        let listed: Vec<&str> = rollout.listed.iter().map(|one| &*one.version).collect();
        assert_eq!(listed, ["new", "old", "older"]);
        let unneeded = rollout.unneeded();
        assert_eq!(unneeded, [older.digest.to_string()]);
        rollout.forget(&unneeded);
        rollout.forget_unneeded(None);
        assert_eq!(rollout.kept().len(), 2);
        assert_eq!(rollout.renderings().len(), 2);
        // Another process reads the same.
        let status = rollout.status(rollout.state().unwrap());
        let read = SetRollout::of(&json!({"rollout": status}));
        assert_eq!(read.state(), rollout.state());
        assert_eq!(read.kept(), rollout.kept());
        assert_eq!(read.wanted().len(), 2);
    }

    #[test]
    fn a_plan_counts_from_the_state_that_it_was_made_by() {
        let (new, old) = (rendering("new"), rendering("old"));
        let mut rollout = SetRollout::default();
        let first = state(RolloutPhase::Progressing, &new, Some(&old));
        let status = rollout.status(&first);
        rollout.written(first.clone(), status, None);
        assert_eq!(rollout.planned_for(), None);
        rollout.planned(true);
        let other_message = RolloutState {
            message: "m1: sick".to_owned(),
            ..first.clone()
        };
        let next_wave = RolloutState { wave: 2, ..first };
        for (next, is_planned) in [(other_message, true), (next_wave, false)] {
            let status = rollout.status(&next);
            rollout.written(next, status, None);
            assert_eq!(rollout.planned_for().is_some(), is_planned);
        }
        rollout.planned(true);
        rollout.planned(false);
        assert_eq!(rollout.planned_for(), None);
    }
}
