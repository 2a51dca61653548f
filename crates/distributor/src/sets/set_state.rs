//! What is known of one set, from one rendering to the next.

use std::{sync::Arc, time::Duration};

use fleetdex_core::planted::{Bug, planted};
use fleetdex_distribution::{
    hooks::HookState,
    plan::DistributionPlan,
    sets::{ObjectSet, SetContents, SetObjects},
    template_name::TemplateName,
};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::{
    capabilities::ClusterCapabilities,
    failure::{REVISION_LOST, SetFailure},
    report::SetReport,
    set_rendering::{RenderOutcome, RenderedSource},
    set_rollout::{RevisionsInForce, SetRollout},
    set_spec::SetSpec,
};
use crate::control_plane::ControlPlaneObject;

/// How often is looked whether rights of a set have changed, and what it names.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// The pause after the first failure; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// What is known of one set.
pub struct SetState {
    /// The `Distribution` that `spec` was read from.
    object: Arc<Value>,
    pub(super) spec: SetSpec,
    pub(super) rendering: Option<RenderedSource>,
    pub(super) rollout: SetRollout,
    /// The objects that the last plan placed.
    pub(super) members: Vec<TemplateName>,
    /// Why the last plan did not place all of them: the first reason.
    pub(super) obstacle: Option<String>,
    failure: Option<SetFailure>,
    /// The generation of the last result.
    observed: Option<i64>,
    pub(super) running: Option<AbortOnDropHandle<()>>,
    failures: u32,
    pub(super) due: Instant,
    /// When the source was fetched.
    pub(super) fetched: Instant,
    /// Since when it is known that it is being deleted.
    ending_since: Option<Instant>,
}

impl SetState {
    /// Of a `Distribution` that is to be rendered.
    pub fn new(known: ControlPlaneObject) -> Self {
        let spec = SetSpec::of(&known.object);
        Self {
            ending_since: spec.is_ending.then(Instant::now),
            spec,
            object: known.object,
            rendering: None,
            rollout: SetRollout::of(&known.status),
            members: Vec::new(),
            obstacle: None,
            failure: None,
            observed: None,
            running: None,
            failures: 0,
            due: Instant::now(),
            fetched: Instant::now(),
        }
    }

    /// Takes over what the `Distribution` says now.
    pub fn take(&mut self, object: Arc<Value>) {
        if Arc::ptr_eq(&object, &self.object) {
            return;
        }
        let spec = SetSpec::of(&object);
        self.object = object;
        let is_other = spec.generation != self.spec.generation;
        if spec.undone != self.spec.undone && self.running.is_none() {
            // What is to be in force may have to be read.
            self.due = Instant::now();
        }
        self.spec = spec;
        if self.spec.is_ending {
            self.ending_since.get_or_insert_with(Instant::now);
        }
        if is_other {
            self.running = None;
            self.failures = 0;
            self.due = Instant::now();
            self.fetched = Instant::now();
        }
    }

    /// Takes over what has been rendered.
    pub fn finish(&mut self, generation: i64, outcome: RenderOutcome) {
        for rendering in &outcome.loaded {
            self.rollout.add(rendering);
        }
        self.rollout.forget(&outcome.forgotten);
        if self.rendering.is_none() {
            let before = self.rollout.rendering();
            self.rendering = before.map(|one| RenderedSource::of_before(Arc::clone(one)));
        }
        match outcome.result {
            Ok(source) => {
                self.rollout.add(&source.rendering);
                self.rendering = Some(source);
                self.failure = None;
                self.failures = 0;
                self.running = None;
                self.observed = Some(generation);
                self.due = Instant::now() + LOOK_AGAIN;
            }
            Err(failure) => self.fail(generation, failure),
        }
        let newest = self.rendering.as_ref().map(|source| &source.rendering);
        self.rollout.forget_unneeded(newest);
    }

    /// Takes over why nothing was rendered.
    pub fn fail(&mut self, generation: i64, failure: SetFailure) {
        self.running = None;
        self.observed = Some(generation);
        if self.failure.as_ref() != Some(&failure) {
            tracing::warn!(set = %self.spec.name.shown(), reason = failure.reason, message = %failure.message, "a Distribution cannot be rendered");
        }
        self.failure = Some(failure);
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10));
        self.due = Instant::now() + pause.min(LONGEST_PAUSE);
        self.failures += 1;
    }

    /// Whether what was rendered may be written.
    pub fn is_writable(&self) -> bool {
        !self.spec.is_ending
            && !self.is_suspended()
            && self.spec.spec.is_ok()
            && self.spec.has_finalizer
            && !self.failure.as_ref().is_some_and(stops)
    }

    /// Whether its clusters get changes one after the other.
    pub fn has_waves(&self) -> bool {
        let spec = self.spec.spec.as_ref();
        spec.is_ok_and(|spec| spec.rollout.is_some())
    }

    /// Whether nothing is fetched or written.
    pub fn is_suspended(&self) -> bool {
        self.spec.spec.as_ref().is_ok_and(|spec| spec.suspend)
    }

    /// The revisions that clusters have; `None`: it is being deleted. An error: they are not known.
    fn revisions(&self) -> Result<Option<RevisionsInForce<'_>>, String> {
        if self.spec.is_ending {
            if self.rollout.hooks().is_some_and(HookState::keeps_objects) {
                return Err("its pre-delete hooks come first".to_owned());
            }
            return Ok(None);
        }
        if self.is_suspended() {
            return Err("it is suspended".to_owned());
        }
        if let Err(failure) = &self.spec.spec {
            return Err(failure.message.clone());
        }
        if !self.spec.has_finalizer {
            return Err("its finalizer is not written yet".to_owned());
        }
        match (&self.failure, &self.rendering) {
            (Some(failure), _) if stops(failure) => Err(failure.message.clone()),
            (Some(_), _) if planted(Bug::SetFailureEmptiesSet) => Ok(None),
            (_, Some(_)) => self.rollout.revisions().map(Some),
            (Some(failure), None) => Err(failure.message.clone()),
            (None, None) => Err("it has not been rendered yet".to_owned()),
        }
    }

    /// The revision that the source has, or that is rolled out.
    pub fn current_revision(&self) -> Option<String> {
        let made = self.rendering.as_ref();
        let made = made.map(|source| source.rendering.digest.to_string());
        made.or_else(|| Some(self.rollout.state()?.revision.clone()))
    }

    /// The set for a plan.
    pub fn object_set(&self, clusters: &ClusterCapabilities) -> ObjectSet {
        let (contents, unreached) = match self.revisions() {
            Ok(Some(revisions)) => revisions.contents(clusters),
            Ok(None) => (SetContents::Known(SetObjects::default()), None),
            Err(reason) => (SetContents::Unknown(reason), None),
        };
        ObjectSet {
            admission: self.rollout.admission(),
            ..self.spec.object_set(contents, unreached)
        }
    }

    /// Whether it is being deleted, and no hook is left to run.
    pub fn is_over(&self) -> bool {
        let hooks = self.rollout.hooks();
        self.spec.is_ending && hooks.is_none_or(HookState::is_ended)
    }

    /// The revision whose hooks run when it is deleted, if that has to be read.
    pub fn unread_ending(&self) -> Option<String> {
        let hooks = self.rollout.hooks().filter(|_| self.spec.is_ending)?;
        let is_known = self.rollout.renderings().contains_key(&hooks.revision);
        (!is_known && !hooks.is_ended()).then(|| hooks.revision.clone())
    }

    /// Whether the hooks that run when it is deleted cannot be known any more: they are not kept,
    /// or could not be read for so long.
    pub fn ending_hooks_are_lost(&self, after: Duration) -> bool {
        let failure = self.failure.as_ref();
        failure.is_some_and(|failure| failure.reason == REVISION_LOST)
            || self
                .ending_since
                .is_some_and(|since| since.elapsed() > after)
    }

    /// Where its objects go, whatever they are.
    pub fn placement(&self) -> ObjectSet {
        let nothing = SetContents::Known(SetObjects::default());
        self.spec.object_set(nothing, None)
    }

    /// Notes what a plan says of it.
    pub fn planned(&mut self, plan: &DistributionPlan) {
        let is_known = self.revisions().is_ok();
        self.rollout.planned(is_known);
        let planned = plan.bindings.iter();
        let planned = planned.filter(|one| one.set.as_ref() == Some(&self.spec.name));
        let mut refused = plan.refused.iter();
        let refused = refused.find(|one| one.set == self.spec.name);
        self.obstacle = refused.map(|one| format!("{}: {}", one.resource, one.reason));
        self.members.clear();
        for binding in planned {
            if let Some(reason) = &binding.unschedulable {
                let obstacle = || format!("{}: {reason}", binding.resource);
                self.obstacle.get_or_insert_with(obstacle);
            }
            self.members.push(binding.resource.clone());
        }
    }

    /// What is to be reported after a plan.
    pub fn report(&self, plan: &DistributionPlan) -> SetReport {
        let refused = plan.refused.iter();
        let refused = refused.filter(|one| one.set == self.spec.name).cloned();
        let rests = self.is_suspended() || self.spec.is_ending;
        let now = Some(self.spec.generation).filter(|_| rests);
        SetReport {
            name: Arc::clone(&self.spec.name),
            generation: self.observed.filter(|_| !rests).or(now),
            is_current: self.observed == Some(self.spec.generation),
            is_ending: self.spec.is_ending,
            is_suspended: self.is_suspended(),
            rendering: self
                .rendering
                .as_ref()
                .map(|one| Arc::clone(&one.rendering)),
            failure: self.failure.clone(),
            refused: refused.collect(),
            members: self.members.clone(),
            not_placed: self.obstacle.clone(),
            not_known: self.revisions().err(),
            rollout: self.rollout.state().cloned(),
            has_waves: self.has_waves(),
            hooks: self.rollout.hooks().and_then(HookState::summary),
        }
    }
}

/// Whether nothing is written of a set because of a failure.
fn stops(failure: &SetFailure) -> bool {
    failure.stops_writing
}
