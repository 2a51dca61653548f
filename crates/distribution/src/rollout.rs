//! The rollout of a set: in which order its clusters get a new revision, and when the next ones do.
//!
//! A revision is what a set was rendered to, by the digest of what it was rendered from. The stable
//! one is the last that was healthy in all clusters; a cluster that is not reached has it.
//!
//! Guarantees: a wave begins only when the ones before it are healthy, or when a user resumes a
//! wave that has failed. While one revision is rolled out, a cluster that was reached stays
//! reached, whatever joins or leaves. What an undo leaves in force is the revision that was stable
//! before.

mod stored;
mod waves;

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::planted::{Bug, planted};
use jiff::Timestamp;

pub use self::waves::{InvalidWaves, TemplateWaves, WaveRules, waves};
use crate::cluster::TargetCluster;

/// The annotation of a set or a binding that resumes a wave: `<revision>/<wave>`.
pub const RESUME: &str = "distribute.fleetdex.io/resume";
/// The annotation of a set that undoes a revision.
pub const UNDO: &str = "distribute.fleetdex.io/undo";

/// Clusters that a message names, at most.
const NAMED: usize = 3;
/// The digits of a revision in a message.
const SHORT_REVISION: usize = 19;

/// How far a rollout is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RolloutPhase {
    /// A wave has begun, and its clusters are not healthy yet.
    #[default]
    Progressing,
    /// The next wave waits for a user.
    Paused,
    /// A wave was not healthy in time.
    Failed,
    /// All clusters have the revision, and were healthy.
    Complete,
    /// All clusters have the stable revision, because a user has undone this one.
    Undone,
}

/// A rollout, as it is written to the control plane before a plan acts on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutState {
    /// How far it is.
    pub phase: RolloutPhase,
    /// The revision that is rolled out.
    pub revision: String,
    /// The last revision that was healthy in all clusters.
    pub stable: Option<String>,
    /// The stable one before that.
    pub previous: Option<String>,
    /// How many waves have begun.
    pub wave: usize,
    /// How many there are.
    pub waves: usize,
    /// The clusters that shall have the revision; without meaning when it is complete.
    pub reached: BTreeSet<String>,
    /// When the last wave began.
    pub began: Timestamp,
    /// Since when the clusters that are reached are healthy.
    pub healthy_since: Option<Timestamp>,
    /// What it waits for, and why it has failed.
    pub message: String,
}

/// How the objects of a set are in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetHealth {
    /// All are there as they shall be, and none is unhealthy.
    Healthy,
    /// Which object is not, and why.
    Unhealthy(String),
    /// The cluster has not said yet how they are.
    Unknown,
}

/// A wave that a user resumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumedWave {
    /// The revision.
    pub revision: String,
    /// The number of the wave, from 1 on.
    pub wave: usize,
}

/// What decides about a rollout.
#[derive(Clone, Copy, Debug)]
pub struct RolloutInputs<'a> {
    /// The revision that the source has now.
    pub revision: &'a str,
    /// The revisions that are kept: no other one can be in force again.
    pub kept: &'a BTreeSet<String>,
    /// The waves of the spec; none: all clusters at once.
    pub rules: &'a [WaveRules],
    /// The clusters of the set.
    pub clusters: &'a [&'a TargetCluster],
    /// How the objects are in clusters. A cluster without an entry has none, and is healthy.
    pub health: &'a BTreeMap<String, SetHealth>,
    /// Whether no further wave begins.
    pub is_paused: bool,
    /// The wave that a user resumes.
    pub resumed: Option<&'a ResumedWave>,
    /// The revision that a user undoes.
    pub undone: Option<&'a str>,
    /// The present.
    pub now: Timestamp,
}

impl ResumedWave {
    /// Reads `<revision>/<wave>`.
    pub fn parse(text: &str) -> Option<Self> {
        let (revision, wave) = text.rsplit_once('/')?;
        Some(Self {
            revision: revision.to_owned(),
            wave: wave.parse().ok()?,
        })
    }
}

impl RolloutState {
    /// A rollout that has not begun.
    pub fn new(revision: &str, now: Timestamp) -> Self {
        Self {
            phase: RolloutPhase::Progressing,
            revision: revision.to_owned(),
            stable: None,
            previous: None,
            wave: 0,
            waves: 0,
            reached: BTreeSet::new(),
            began: now,
            healthy_since: None,
            message: String::new(),
        }
    }

    /// The rollout after one look at its clusters. At most one wave begins that has clusters.
    #[must_use]
    pub fn next(before: Option<&Self>, inputs: &RolloutInputs<'_>) -> Self {
        let mut state = match before {
            Some(before) if before.revision == inputs.revision => before.clone(),
            Some(before) => before.begun_again(inputs.revision, inputs.now),
            None => Self::new(inputs.revision, inputs.now),
        };
        let is_undone = inputs.undone == Some(inputs.revision);
        if is_undone && state.undo(inputs) {
            return state;
        }
        if state.phase == RolloutPhase::Undone {
            state = state.begun_again(inputs.revision, inputs.now);
        }
        state.proceed(inputs);
        if is_undone {
            let reason = "it cannot be undone: there is no other revision that was healthy in all \
                          clusters, and is kept";
            if state.message.is_empty() {
                reason.clone_into(&mut state.message);
            } else if !state.message.ends_with(reason) {
                state.message = format!("{}; {reason}", state.message);
            }
        }
        state
    }

    /// Whether a cluster shall have the revision that is rolled out.
    pub fn reaches(&self, cluster: &str) -> bool {
        match self.phase {
            RolloutPhase::Complete => true,
            RolloutPhase::Undone => false,
            _ => self.reached.contains(cluster),
        }
    }

    /// The revision that an undo would leave in force; `None`: there is none.
    pub fn undone_to(&self) -> Option<&str> {
        let is_stable = self.stable.as_ref() == Some(&self.revision);
        let target = match self.phase {
            RolloutPhase::Undone => &self.stable,
            _ if is_stable => &self.previous,
            _ => &self.stable,
        };
        target.as_deref()
    }

    /// The revisions that are in force, or may be again.
    pub fn needed(&self) -> BTreeSet<&str> {
        let older = [&self.stable, &self.previous].into_iter().flatten();
        let older = older.map(String::as_str);
        older.chain([self.revision.as_str()]).collect()
    }

    /// The same of another revision, before its first wave. Clusters have the stable one.
    fn begun_again(&self, revision: &str, now: Timestamp) -> Self {
        Self {
            stable: self.stable.clone(),
            previous: self.previous.clone(),
            ..Self::new(revision, now)
        }
    }

    /// Undoes the revision; returns whether there is another one to go back to.
    fn undo(&mut self, inputs: &RolloutInputs<'_>) -> bool {
        if self.phase == RolloutPhase::Undone {
            return true;
        }
        let Some(target) = self.undone_to().map(str::to_owned) else {
            return false;
        };
        if !inputs.kept.contains(&target) {
            return false;
        }
        if self.stable.as_ref() == Some(&self.revision) {
            self.previous = None;
        }
        let message = format!(
            "revision {} is undone: all clusters have {}",
            short(&self.revision),
            short(&target)
        );
        let mut reached = std::mem::take(&mut self.reached);
        *self = Self {
            phase: RolloutPhase::Undone,
            stable: Some(target),
            waves: self.waves,
            message,
            ..self.begun_again(&self.revision, inputs.now)
        };
        if planted(Bug::SetUndoForgetsCluster) {
            self.reached.extend(reached.pop_first());
        }
        true
    }

    fn proceed(&mut self, inputs: &RolloutInputs<'_>) {
        let waves = waves(inputs.rules, inputs.clusters, &self.reached);
        self.waves = waves.len();
        if self.phase == RolloutPhase::Complete {
            self.wave = waves.len();
            self.message.clear();
            return;
        }
        if self.stable.as_ref() == Some(&self.revision) && self.wave == 0 {
            // Clusters that are not reached have it already.
            self.wave = waves.len();
            self.began = inputs.now;
        }
        self.wave = self.wave.min(waves.len());
        let known = self.reached.len();
        for clusters in &waves[..self.wave] {
            // A cluster that joins a wave that has begun.
            self.reached.extend(clusters.iter().cloned());
        }
        if self.reached.len() > known {
            // How it is there is not known before it is planned.
            self.healthy_since = None;
            return;
        }
        loop {
            let may_begin = self.judge(inputs, waves.len());
            let Some(clusters) = waves.get(self.wave).filter(|_| may_begin) else {
                return;
            };
            self.phase = RolloutPhase::Progressing;
            self.wave += 1;
            self.began = inputs.now;
            self.healthy_since = None;
            let known = self.reached.len();
            self.reached.extend(clusters.iter().cloned());
            if self.reached.len() > known {
                self.message = format!("wave {} of {} begins", self.wave, self.waves);
                return;
            }
        }
    }

    /// Sets the phase by how the clusters are; returns whether the next wave begins.
    fn judge(&mut self, inputs: &RolloutInputs<'_>, waves: usize) -> bool {
        let (number, is_last) = (self.wave, self.wave == waves);
        if waves == 0 {
            self.wait("the placement selects no cluster".to_owned());
            return false;
        }
        if number == 0 {
            return !self.pauses(inputs, "no wave has begun");
        }
        let of_rest = WaveRules::default();
        let rules = inputs.rules.get(number - 1).unwrap_or(&of_rest);
        let name = format!("wave {number} of {waves}");
        let found = ClusterFindings::of(&self.reached, inputs);
        let is_resumed = inputs
            .resumed
            .is_some_and(|one| self.is_named_by(one) && one.wave == number);
        let may_be_ill = planted(Bug::SetIgnoresHealth);
        if found.number() > rules.max_unhealthy && !may_be_ill {
            self.healthy_since = None;
            let has_ended = inputs.now.duration_since(self.began) >= rules.deadline;
            let has_failed = found.unhealthy.len() > rules.max_unhealthy && has_ended;
            let message = format!("{name}: {}", found.shown());
            if !has_failed && self.phase != RolloutPhase::Failed {
                self.wait(message);
                return false;
            }
            if found.unhealthy.len() > rules.max_unhealthy {
                self.message = message;
            }
            self.phase = RolloutPhase::Failed;
            if planted(Bug::SetFailureBecomesStable) {
                self.stable = Some(self.revision.clone());
            }
            return is_resumed && !is_last && !inputs.is_paused;
        }
        let since = *self.healthy_since.get_or_insert(inputs.now);
        let is_early = inputs.now.duration_since(since) < rules.healthy_for;
        if is_early && !planted(Bug::SetIgnoresHealthyFor) {
            self.wait(format!(
                "{name} is healthy, and has to stay so for some time"
            ));
            return false;
        }
        if is_last {
            self.complete();
            return false;
        }
        if self.pauses(inputs, &format!("{name} is healthy")) {
            return false;
        }
        if rules.pause && !is_resumed {
            self.phase = RolloutPhase::Paused;
            self.message = format!("{name} is healthy, and waits to be resumed");
            return false;
        }
        true
    }

    fn wait(&mut self, message: String) {
        self.phase = RolloutPhase::Progressing;
        self.message = message;
    }

    fn is_named_by(&self, resumed: &ResumedWave) -> bool {
        resumed.revision == self.revision
    }

    fn pauses(&mut self, inputs: &RolloutInputs<'_>, what: &str) -> bool {
        if planted(Bug::SetIgnoresPause) {
            return false;
        }
        if inputs.is_paused {
            self.phase = RolloutPhase::Paused;
            self.message = format!("{what}, and spec.rollout.paused is true");
        }
        inputs.is_paused
    }

    fn complete(&mut self) {
        let is_new = self.stable.as_ref() != Some(&self.revision);
        if is_new {
            self.previous = self.stable.replace(self.revision.clone());
        }
        self.phase = RolloutPhase::Complete;
        self.reached.clear();
        self.healthy_since = None;
        self.message.clear();
    }
}

/// The clusters that are not healthy.
struct ClusterFindings<'a> {
    unhealthy: Vec<(&'a str, &'a str)>,
    unknown: Vec<&'a str>,
}

impl<'a> ClusterFindings<'a> {
    /// Of the clusters that were reached and are there.
    fn of(reached: &BTreeSet<String>, inputs: &RolloutInputs<'a>) -> Self {
        let mut found = Self {
            unhealthy: Vec::new(),
            unknown: Vec::new(),
        };
        let clusters = inputs.clusters.iter().map(|cluster| cluster.name.as_str());
        for cluster in clusters.filter(|cluster| reached.contains(*cluster)) {
            match inputs.health.get(cluster) {
                None | Some(SetHealth::Healthy) => {}
                Some(SetHealth::Unhealthy(reason)) => found.unhealthy.push((cluster, reason)),
                Some(SetHealth::Unknown) => found.unknown.push(cluster),
            }
        }
        found
    }

    fn number(&self) -> usize {
        self.unhealthy.len() + self.unknown.len()
    }

    fn shown(&self) -> String {
        let unhealthy = self.unhealthy.iter();
        let unhealthy = unhealthy.map(|(cluster, reason)| format!("{cluster}: {reason}"));
        let unknown = self.unknown.iter();
        let unknown = unknown.map(|cluster| format!("{cluster}: not known yet"));
        let first: Vec<String> = unhealthy.chain(unknown).take(NAMED).collect();
        match self.number().saturating_sub(NAMED) {
            0 => first.join("; "),
            more => format!("{}; and {more} more clusters", first.join("; ")),
        }
    }
}

/// The beginning of a revision, which tells it from others.
pub fn short(revision: &str) -> &str {
    revision.get(..SHORT_REVISION).unwrap_or(revision)
}

#[cfg(test)]
mod tests;
