//! The next step of the hooks of each cluster.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{
    outcome::{HookOutcome, HookReport},
    state::{ClusterHook, HookPhase, HookState, MOST_UNDER_WAY},
    steps::{HookMoment, HookStep, ReleaseChange, SetHook, hooks_of},
};

/// How long a hook may take where no wave says it.
pub const LONGEST_HOOK: SignedDuration = SignedDuration::from_mins(10);

/// What decides about the hooks of a set.
#[derive(Clone, Copy, Debug)]
pub struct HookInputs<'a> {
    /// The hooks of the revision; `None`: they are not known.
    pub hooks: Option<&'a [SetHook]>,
    /// The clusters of the set.
    pub clusters: &'a BTreeSet<String>,
    /// Those that shall have the revision; `None`: that is not known yet.
    pub due: Option<&'a BTreeSet<String>>,
    /// Those that have all of its objects as they shall be.
    pub written: &'a BTreeSet<String>,
    /// What clusters say of their tasks.
    pub reports: &'a BTreeMap<String, HookReport>,
    /// How long a hook may take.
    pub deadline: SignedDuration,
    /// What asks for another run of what has failed.
    pub retried: &'a str,
    /// The present.
    pub now: Timestamp,
}

/// Whether hooks of a step begin in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepBegin {
    /// The step has none.
    NoHooks,
    /// The first one is next.
    Begun,
    /// Those of other clusters come first.
    Waits,
}

impl HookState {
    /// The state after one look at the clusters of a set.
    #[must_use]
    pub fn next(&self, inputs: &HookInputs<'_>) -> Self {
        let mut state = self.clone();
        let is_there = |cluster: &String| inputs.clusters.contains(cluster);
        state.installed.retain(is_there);
        state.prepared.retain(is_there);
        state.unfinished.retain(|cluster, _| is_there(cluster));
        state.under_way.retain(|cluster, _| is_there(cluster));
        let Some(hooks) = inputs.hooks else {
            return state;
        };
        let kinds = hooks.iter().map(|hook| hook.template.name.kind_name());
        state.kinds = kinds.collect();
        if state.retried != inputs.retried {
            state.retry(inputs, hooks);
        }
        for cluster in inputs.clusters {
            state.advance(cluster, self, hooks, inputs);
        }
        if let Some(due) = inputs.due {
            let has_begun = |cluster: &String| {
                state.prepared.contains(cluster) || state.under_way.contains_key(cluster)
            };
            state.waits = !due.iter().all(has_begun);
        }
        state
    }

    /// Runs the hooks of the steps again that have failed.
    fn retry(&mut self, inputs: &HookInputs<'_>, hooks: &[SetHook]) {
        let now = whole_seconds(inputs.now);
        let mut all = self.under_way.values();
        if all.any(|hook| hook.has_failed() && hook.began >= now) {
            // Runs are told from each other by when they began.
            return;
        }
        inputs.retried.clone_into(&mut self.retried);
        for hook in self.under_way.values_mut() {
            let of_step = hooks_of(hooks, hook.step);
            if let Some(first) = of_step.first().filter(|_| hook.has_failed()) {
                *hook = ClusterHook::first(hook.step, first, now);
            }
        }
    }

    fn advance(
        &mut self,
        cluster: &str,
        before: &Self,
        hooks: &[SetHook],
        inputs: &HookInputs<'_>,
    ) {
        if let Some(hook) = self.under_way.get(cluster) {
            let step = hook.step;
            let report = inputs.reports.get(cluster);
            if !self.proceed(cluster, hooks, report, inputs.deadline, inputs.now) {
                return;
            }
            match step.moment {
                HookMoment::Pre => self.prepare(cluster, step.change, hooks),
                HookMoment::Post => {
                    self.unfinished.remove(cluster);
                }
            }
            return;
        }
        if inputs.due.is_none_or(|due| !due.contains(cluster)) {
            return;
        }
        if !self.prepared.contains(cluster) {
            let change = match (self.installed.contains(cluster), self.is_rollback) {
                (false, _) => ReleaseChange::Install,
                (true, false) => ReleaseChange::Upgrade,
                (true, true) => ReleaseChange::Rollback,
            };
            let begun = self.begin_step(cluster, HookStep::pre(change), hooks, inputs.now);
            if begun == StepBegin::NoHooks {
                self.prepare(cluster, change, hooks);
            }
            return;
        }
        // What is known of objects was found out when the cluster had another revision.
        let is_written = before.prepared.contains(cluster) && inputs.written.contains(cluster);
        if let Some(change) = self.unfinished.get(cluster).copied().filter(|_| is_written) {
            let begun = self.begin_step(cluster, HookStep::post(change), hooks, inputs.now);
            if begun == StepBegin::NoHooks {
                self.unfinished.remove(cluster);
            }
        }
    }

    /// The hooks that come first are over: the cluster gets the revision.
    fn prepare(&mut self, cluster: &str, change: ReleaseChange, hooks: &[SetHook]) {
        self.installed.insert(cluster.to_owned());
        self.prepared.insert(cluster.to_owned());
        if !hooks_of(hooks, HookStep::post(change)).is_empty() {
            self.unfinished.insert(cluster.to_owned(), change);
        }
    }

    /// Begins a step in a cluster.
    pub(super) fn begin_step(
        &mut self,
        cluster: &str,
        step: HookStep,
        hooks: &[SetHook],
        now: Timestamp,
    ) -> StepBegin {
        let of_step = hooks_of(hooks, step);
        let Some(first) = of_step.first() else {
            return StepBegin::NoHooks;
        };
        if self.under_way.len() >= MOST_UNDER_WAY {
            return StepBegin::Waits;
        }
        let hook = ClusterHook::first(step, first, whole_seconds(now));
        self.under_way.insert(cluster.to_owned(), hook);
        StepBegin::Begun
    }

    /// Takes over what a cluster says of its hook; returns whether the step is over, and its hooks
    /// have succeeded.
    pub(super) fn proceed(
        &mut self,
        cluster: &str,
        hooks: &[SetHook],
        report: Option<&HookReport>,
        deadline: SignedDuration,
        now: Timestamp,
    ) -> bool {
        let Some(mut hook) = self.under_way.remove(cluster) else {
            return false;
        };
        let key = self.key(&hook);
        let report = report.filter(|report| report.key == key);
        let outcome = report.map(|report| &report.outcome);
        let is_over = hook.look(&hooks_of(hooks, hook.step), outcome, deadline, now);
        if !is_over {
            self.under_way.insert(cluster.to_owned(), hook);
        }
        is_over
    }
}

impl ClusterHook {
    /// The first hook of a step.
    fn first(step: HookStep, hook: &SetHook, now: Timestamp) -> Self {
        Self {
            step,
            position: 0,
            phase: HookPhase::Running,
            hook: hook.template.name.to_string(),
            began: now,
            since: now,
            message: String::new(),
        }
    }

    /// Takes over what has become of it; returns whether the step is over.
    fn look(
        &mut self,
        hooks: &[&SetHook],
        outcome: Option<&HookOutcome>,
        deadline: SignedDuration,
        now: Timestamp,
    ) -> bool {
        // While nothing operates, a hook may end: the cluster is heard first.
        let is_late = outcome.is_some() && now.duration_since(self.since) >= deadline;
        let has_ended = is_late || outcome.is_some_and(|one| !matches!(one, HookOutcome::Waits(_)));
        match (self.phase, outcome) {
            (HookPhase::Running, Some(HookOutcome::Succeeded)) => {
                return self.succeeds(hooks, now);
            }
            (HookPhase::Running, Some(HookOutcome::Failed(reason))) => {
                self.fails(hooks, reason.clone(), now);
            }
            (HookPhase::Running, Some(HookOutcome::Waits(message))) if is_late => {
                let reason = format!("it has not ended within {deadline:#}: {message}");
                self.fails(hooks, reason, now);
            }
            (HookPhase::Running, Some(HookOutcome::Waits(message))) => {
                self.message.clone_from(message);
            }
            (HookPhase::CleaningUp, _) => return has_ended,
            (HookPhase::CleaningFailed, _) if has_ended => self.phase = HookPhase::Failed,
            (HookPhase::Running, None) | (HookPhase::CleaningFailed | HookPhase::Failed, _) => {}
        }
        false
    }

    fn succeeds(&mut self, hooks: &[&SetHook], now: Timestamp) -> bool {
        self.message.clear();
        self.since = whole_seconds(now);
        if let Some(next) = hooks.get(self.position + 1) {
            self.position += 1;
            self.hook = next.template.name.to_string();
            return false;
        }
        self.phase = HookPhase::CleaningUp;
        !hooks
            .iter()
            .any(|hook| hook.deletion.when_succeeded && !hook.is_never_deleted())
    }

    fn fails(&mut self, hooks: &[&SetHook], reason: String, now: Timestamp) {
        self.message = reason;
        self.since = whole_seconds(now);
        let mut known = hooks.iter().enumerate().take(self.position + 1);
        let goes = known.any(|(position, hook)| {
            let deletion = hook.deletion;
            let goes = if position == self.position {
                deletion.when_failed
            } else {
                deletion.when_succeeded
            };
            goes && !hook.is_never_deleted()
        });
        self.phase = if goes {
            HookPhase::CleaningFailed
        } else {
            HookPhase::Failed
        };
    }
}

/// A time as a status keeps it.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
