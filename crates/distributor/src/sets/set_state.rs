//! What is known of one set, from one rendering to the next.

use std::{sync::Arc, time::Duration};

use fleetdex_distribution::{
    plan::DistributionPlan,
    sets::{ObjectSet, SetContents},
};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::{failure::SetFailure, rendering::SetRendering, report::SetReport, set_spec::SetSpec};

/// How often is looked whether rights of a set have changed, and what it names.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// The pause after the first failure; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// What became of a rendering.
pub type RenderResult = Result<Arc<SetRendering>, SetFailure>;

/// What is known of one set.
pub struct SetState {
    /// The `Distribution` that `spec` was read from.
    object: Arc<Value>,
    pub(super) spec: SetSpec,
    pub(super) rendering: Option<Arc<SetRendering>>,
    failure: Option<SetFailure>,
    /// The generation of the last result.
    observed: Option<i64>,
    pub(super) running: Option<AbortOnDropHandle<()>>,
    failures: u32,
    pub(super) due: Instant,
    /// When the source was fetched.
    pub(super) fetched: Instant,
}

impl SetState {
    /// Of a `Distribution` that is to be rendered.
    pub fn new(object: Arc<Value>) -> Self {
        Self {
            spec: SetSpec::of(&object),
            object,
            rendering: None,
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
        self.spec = spec;
        if is_other {
            self.running = None;
            self.failures = 0;
            self.due = Instant::now();
            self.fetched = Instant::now();
        }
    }

    /// Takes over what has been rendered.
    pub fn finish(&mut self, generation: i64, result: RenderResult) {
        self.running = None;
        self.observed = Some(generation);
        match result {
            Ok(rendering) => {
                self.rendering = Some(rendering);
                self.failure = None;
                self.failures = 0;
                self.due = Instant::now() + LOOK_AGAIN;
            }
            Err(failure) => {
                if self.failure.as_ref() != Some(&failure) {
                    tracing::warn!(set = %self.spec.name.shown(), reason = failure.reason, message = %failure.message, "a Distribution cannot be rendered");
                }
                self.failure = Some(failure);
                let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10));
                self.due = Instant::now() + pause.min(LONGEST_PAUSE);
                self.failures += 1;
            }
        }
    }

    /// Whether nothing is fetched or written.
    pub fn is_suspended(&self) -> bool {
        self.spec.spec.as_ref().is_ok_and(|spec| spec.suspend)
    }

    fn contents(&self) -> SetContents {
        if self.spec.is_ending {
            return SetContents::Known(Arc::default());
        }
        let unknown = |reason: &str| SetContents::Unknown(reason.to_owned());
        if self.is_suspended() {
            return unknown("it is suspended");
        }
        if let Err(failure) = &self.spec.spec {
            return unknown(&failure.message);
        }
        if !self.spec.has_finalizer {
            return unknown("its finalizer is not written yet");
        }
        match (&self.failure, &self.rendering) {
            (Some(failure), _) if failure.stops_writing => unknown(&failure.message),
            (_, Some(rendering)) => SetContents::Known(Arc::clone(&rendering.objects)),
            (Some(failure), None) => unknown(&failure.message),
            (None, None) => unknown("it has not been rendered yet"),
        }
    }

    /// The set for a plan.
    pub fn object_set(&self) -> ObjectSet {
        self.spec.object_set(self.contents())
    }

    /// What is to be reported after a plan.
    pub fn report(&self, plan: &DistributionPlan) -> SetReport {
        let refused = plan.refused.iter();
        let refused = refused.filter(|one| one.set == self.spec.name).cloned();
        let planned = plan.bindings.iter();
        let planned = planned.filter(|one| one.set.as_ref() == Some(&self.spec.name));
        let (mut members, mut not_placed) = (Vec::new(), None);
        for binding in planned {
            if let Some(reason) = &binding.unschedulable {
                not_placed.get_or_insert_with(|| format!("{}: {reason}", binding.resource));
            }
            members.push(binding.resource.clone());
        }
        let rests = self.is_suspended() || self.spec.is_ending;
        let now = Some(self.spec.generation).filter(|_| rests);
        SetReport {
            name: Arc::clone(&self.spec.name),
            generation: self.observed.filter(|_| !rests).or(now),
            is_current: self.observed == Some(self.spec.generation),
            is_ending: self.spec.is_ending,
            is_suspended: self.is_suspended(),
            rendering: self.rendering.clone(),
            failure: self.failure.clone(),
            refused: refused.collect(),
            members,
            not_placed,
        }
    }
}
