//! Judges the steps of rollouts when they are written.

use std::{collections::BTreeSet, ops::RangeInclusive, time::Duration};

use fakes::apiserver::ClientWrite;
use fleetdex_crds::distribution::RolloutStatus;
use fleetdex_distribution::rollout::{RESUME, UNDO};
use fleetdex_interpreter::value::text;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize as _;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    clock,
    guard::GuardState,
    set_health::MemberHealth,
    set_history::SetHistory,
    set_sources::mark,
    set_waves::{Names, WaveTerms, fleets, selected, terms, waves},
};

/// Times in a status may be rounded to seconds.
const ROUNDING: SignedDuration = SignedDuration::from_secs(1);
/// How long faults keep an operator from seeing how objects are, besides.
const LONGEST_FAULT: Duration = Duration::from_mins(1);

/// What a step of a rollout is judged by.
struct RolloutJudge<'g> {
    set: &'g SetHistory,
    health: &'g MemberHealth,
    /// The set as users have written it, at any time of which an operator may know.
    specs: Vec<&'g Value>,
    stale: Duration,
}

/// A step of a rollout.
struct Step<'s> {
    before: &'s RolloutStatus,
    after: &'s RolloutStatus,
    /// Whether another revision begins, or the same again.
    is_new: bool,
}

impl GuardState {
    /// Judges the step that a write of a status is.
    pub(super) fn judge_rollout(&mut self, write: &ClientWrite) {
        let rollout = |object: &Option<Value>| -> RolloutStatus {
            let object = object.as_ref();
            let rollout = object.map(|object| &object["status"]["rollout"]);
            let rollout = rollout.map(RolloutStatus::deserialize);
            rollout.and_then(Result::ok).unwrap_or_default()
        };
        let (before, after) = (rollout(&write.before), rollout(&write.after));
        if before == after {
            return;
        }
        let object = write.after.as_ref();
        let uid = object.map_or("", |object| text(object, &["metadata", "uid"]));
        let since = self.known_since();
        let stale = self.stale;
        let Some(set) = self.sets.sets.get(uid) else {
            return;
        };
        let judge = RolloutJudge {
            set,
            health: &self.sets.health,
            specs: set.objects.since(since).collect(),
            stale,
        };
        // An operator does not know a step whose answer was lost, and goes on from the one before.
        let befores = set.statuses.since(since);
        let mut problems = befores.filter_map(|before| judge.problem(before, &after).err());
        let problem = problems.next();
        let known = set.statuses.since(since).count();
        let are_all = problems.count() + 1 == known;
        if let Some(problem) = problem.filter(|_| are_all) {
            let shown = |one: &RolloutStatus| {
                let short = |revision: &str| revision.get(7..13).unwrap_or_default().to_owned();
                format!(
                    "{} {} {} of {} after {}",
                    one.phase,
                    one.progress,
                    short(&one.revision),
                    one.reached.join("+"),
                    short(&one.stable)
                )
            };
            let what = format!("{problem}: {} -> {}", shown(&before), shown(&after));
            self.violated(&what, "the control plane", write);
        }
        let uid = uid.to_owned();
        if let Some(set) = self.sets.sets.get_mut(&uid) {
            note_reached(set, &after);
            set.statuses.push(after);
        }
    }
}

/// Keeps since when clusters are reached.
fn note_reached(set: &mut SetHistory, after: &RolloutStatus) {
    let now = Instant::now();
    let is_same = set
        .statuses
        .last()
        .is_some_and(|before| before.revision == after.revision && before.phase != "Undone");
    let reached: BTreeSet<&String> = after.reached.iter().collect();
    set.reached
        .retain(|cluster, _| is_same && reached.contains(cluster));
    for cluster in reached {
        set.reached.entry(cluster.clone()).or_insert(now);
    }
}

impl RolloutJudge<'_> {
    /// Fails if a rollout must not go on from `before` to `after`.
    fn problem(&self, before: &RolloutStatus, after: &RolloutStatus) -> Result<(), String> {
        let is_again = before.phase == "Undone" && after.phase != "Undone";
        let step = Step {
            before,
            after,
            is_new: before.revision != after.revision || is_again,
        };
        if !self.set.revisions.contains_key(&after.revision) {
            return Err("a revision is rolled out that is not kept".to_owned());
        }
        if after.phase == "Undone" {
            return self.undo_problem(&step);
        }
        stable_problem(&step)?;
        self.reached_problem(&step)?;
        self.failure_problem(&step)?;
        if after.healthy_since.is_some() && after.healthy_since != before.healthy_since {
            self.health_problem(after, before.wave.min(after.wave)..=after.wave)?;
        }
        if after.phase != "Complete" || (before.phase == "Complete" && !step.is_new) {
            return Ok(());
        }
        if step.is_new {
            return Err("a rollout is complete before it has begun".to_owned());
        }
        let reached: BTreeSet<&String> = before.reached.iter().collect();
        let selected: Vec<Names> = self.specs.iter().map(|set| selected(set)).collect();
        let is_complete = |fleet: &Names| fleet.iter().all(|name| reached.contains(name));
        if !selected.iter().any(is_complete) {
            return Err("a rollout is complete before all clusters are reached".to_owned());
        }
        self.health_problem(before, before.wave.min(after.wave)..=after.wave)
    }

    /// An undo leaves what was stable before.
    fn undo_problem(&self, step: &Step<'_>) -> Result<(), String> {
        let (before, after) = (step.before, step.after);
        let is_asked = |set: &&Value| set["metadata"]["annotations"][UNDO] == *after.revision;
        if !self.specs.iter().any(is_asked) {
            return Err("a revision is undone, and nobody has asked for that".to_owned());
        }
        let is_again = before.phase == "Undone" && !step.is_new;
        let target = if before.stable == after.revision && !is_again {
            &before.previous
        } else {
            &before.stable
        };
        if after.stable != *target || target.is_empty() {
            return Err("an undo does not lead to the revision that was stable".to_owned());
        }
        Ok(())
    }

    /// A rollout fails only when its time is over.
    fn failure_problem(&self, step: &Step<'_>) -> Result<(), String> {
        let after = step.after;
        let is_failure = after.phase == "Failed";
        if !is_failure || (step.before.phase == "Failed" && !step.is_new) {
            return Ok(());
        }
        let began = after.wave_began_at.as_ref().map(|time| time.0);
        let lasts = clock::now().duration_since(began.unwrap_or_default());
        let mut terms = self.terms(after.wave).map(|terms| terms.deadline);
        if !terms.any(|deadline| lasts + ROUNDING >= deadline) {
            return Err(format!("a wave has failed after {lasts:#}"));
        }
        if after.message.is_empty() {
            return Err("a wave has failed, and nothing says why".to_owned());
        }
        Ok(())
    }

    fn terms(&self, wave: i64) -> impl Iterator<Item = WaveTerms> {
        self.specs.iter().map(move |set| terms(set, wave))
    }

    /// Clusters are reached when their wave begins, and stay reached.
    fn reached_problem(&self, step: &Step<'_>) -> Result<(), String> {
        let (before, after) = (step.before, step.after);
        if after.phase == "Complete" {
            return Ok(());
        }
        let now: Names = after.reached.iter().cloned().collect();
        let mut then: Names = before.reached.iter().cloned().collect();
        if step.is_new {
            then.clear();
        }
        if !now.is_superset(&then) || (before.phase == "Complete" && !step.is_new) {
            return Err("a cluster is not reached any more".to_owned());
        }
        let from = if step.is_new { 0 } else { before.wave };
        let gained: Names = &now - &then;
        if gained.is_empty() {
            return Ok(());
        }
        let goes_back = after.stable == after.revision;
        let is_member = |set: &&Value| {
            let fleets = fleets(set).into_iter();
            let mut waves = fleets.map(|fleet| waves(set, &fleet, &then));
            waves.any(|waves| is_reached_by(&waves, &gained, from, after.wave))
        };
        if !goes_back && !self.specs.iter().any(is_member) {
            return Err("a cluster is reached that is in a later wave".to_owned());
        }
        // Otherwise a cluster has joined a wave that has begun.
        let begins = after.wave > from;
        if !begins || goes_back {
            return Ok(());
        }
        let is_paused = |set: &&Value| set["spec"]["rollout"]["paused"] == true;
        if self.specs.iter().all(is_paused) {
            return Err("a wave begins while the rollout is paused".to_owned());
        }
        match from {
            0 => Ok(()),
            _ => self.turn_problem(before),
        }
    }

    /// The next wave begins when the last one was healthy for long enough, or is resumed.
    fn turn_problem(&self, before: &RolloutStatus) -> Result<(), String> {
        let resumed = format!("{}/{}", before.revision, before.wave);
        let is_resumed = |set: &&Value| set["metadata"]["annotations"][RESUME] == *resumed;
        if self.specs.iter().any(is_resumed) {
            return Ok(());
        }
        if self.terms(before.wave).all(|terms| terms.pauses) {
            return Err("a wave begins that was to be resumed".to_owned());
        }
        self.health_problem(before, before.wave..=before.wave)?;
        let healthy_for = self.terms(before.wave).map(|terms| terms.healthy_for).min();
        let healthy_for = healthy_for.unwrap_or_default();
        let since = before.healthy_since.as_ref().map(|time| time.0);
        let healthy = since.map_or(SignedDuration::ZERO, |since: Timestamp| {
            clock::now().duration_since(since) + ROUNDING
        });
        if healthy < healthy_for {
            return Err(format!(
                "a wave begins when the last one was healthy for {healthy:#} of {healthy_for:#}"
            ));
        }
        Ok(())
    }

    /// Objects are in order in all clusters that are reached but in so many.
    fn health_problem(
        &self,
        status: &RolloutStatus,
        waves: RangeInclusive<i64>,
    ) -> Result<(), String> {
        let Some(objects) = self.set.revisions.get(&status.revision) else {
            return Ok(());
        };
        let is_there = |name: &&String| {
            let mut specs = self.specs.iter();
            specs.all(|set| selected(set).contains(*name))
        };
        let mut ill = Vec::new();
        for cluster in status.reached.iter().filter(is_there) {
            let since = self.set.reached.get(cluster).copied();
            let since = since.unwrap_or_else(Instant::now);
            let since = since.checked_sub(self.stale).unwrap_or(since);
            let problem = objects.iter().find_map(|(name, object)| {
                let place = (cluster.clone(), name.clone());
                let mark = mark(object)?;
                let stale = self.stale + LONGEST_FAULT;
                let problem = self.health.problem(&place, mark, since, stale)?;
                Some(format!("{name} in {cluster} {problem}"))
            });
            ill.extend(problem);
        }
        let terms = waves.flat_map(|wave| self.terms(wave));
        let most = terms.map(|terms| terms.most_ill).max();
        if ill.len() <= most.unwrap_or(0) {
            return Ok(());
        }
        Err(format!("clusters count as healthy, and {}", ill.join(", ")))
    }
}

/// What is stable was healthy everywhere.
fn stable_problem(step: &Step<'_>) -> Result<(), String> {
    let (before, after) = (step.before, step.after);
    if after.phase == "Complete" {
        let is_same = before.stable == after.revision || after.previous == before.stable;
        if after.stable != after.revision || !is_same {
            return Err("a rollout is complete, and its revision is not stable".to_owned());
        }
    } else if after.stable != before.stable {
        return Err("another revision is stable, and no rollout is complete".to_owned());
    }
    Ok(())
}

/// Whether these clusters are reached when waves begin after `from` until `until`: all but the last
/// of them have nobody else.
fn is_reached_by(waves: &[Names], gained: &Names, from: i64, until: i64) -> bool {
    let number = |wave: i64| usize::try_from(wave).unwrap_or(0).min(waves.len());
    let (from, until) = (number(from), number(until));
    let skipped = until.saturating_sub(1).max(from);
    let begun: Names = waves[..until].iter().flatten().cloned().collect();
    gained.is_subset(&begun) && waves[from..skipped].iter().all(Names::is_empty)
}
