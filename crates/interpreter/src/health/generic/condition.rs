//! Judges lists of conditions. Their meaning follows from their types, after the conventions of
//! <https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#typical-status-properties>.

use fleetdex_core::model::JsonTree;

use super::evidence::{Basis, EvidenceSet, Indication};
use super::tone::{tokens, tone};
use super::words::{self, Classes};
use crate::value::{Tree, Trees, integer, text};

/// Conditions of a list after these are not read.
pub(super) const MAX_CONDITIONS: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Judgement<'v> {
    pub(super) evidence: EvidenceSet<'v>,
    /// The conditions that sum the object up are about an earlier generation.
    pub(super) stale: bool,
}

/// Judges a list of conditions of an object of this generation.
pub(super) fn judge(conditions: Trees<'_>, generation: Option<i64>) -> Judgement<'_> {
    let (stale, fresh): (Vec<_>, Vec<_>) = conditions
        .iter()
        .take(MAX_CONDITIONS)
        .filter_map(StatusCondition::read)
        .partition(|condition| condition.is_older_than(generation));
    let active = fresh.iter().any(StatusCondition::is_under_way);
    let positive = states(&fresh, active);
    let mut evidence = events(&fresh);

    let is_summed_up = positive.summaries.winner().is_some();
    evidence.extend(&positive.counted());
    if let Some(condition) = stale.first()
        && !is_summed_up
    {
        let name = condition.name;
        evidence.add(Indication::Progressing, Basis::Stale { name });
    }
    if let (None, Some(condition)) = (evidence.winner(), positive.unfamiliar) {
        evidence.add(Indication::Progressing, condition.basis());
    }
    Judgement {
        evidence,
        stale: !stale.is_empty() && !is_summed_up,
    }
}

/// The evidence of pauses, problems and activities.
fn events<'v>(conditions: &[StatusCondition<'v>]) -> EvidenceSet<'v> {
    let mut evidence = EvidenceSet::default();
    for condition in conditions {
        let indication = match condition.role {
            Role::Pause => condition.pause(),
            Role::Problem => condition.problem(),
            Role::Activity => condition.activity(),
            Role::Summary | Role::Other => None,
        };
        if let Some(indication) = indication {
            evidence.add(indication, condition.basis());
        }
    }
    evidence
}

/// The evidence of the conditions that are meant to be true.
#[derive(Default)]
struct States<'v> {
    summaries: EvidenceSet<'v>,
    others: EvidenceSet<'v>,
    unfamiliar: Option<StatusCondition<'v>>,
}

/// Judges the conditions that are meant to be true. `active`: an activity is under way, according
/// to another condition.
fn states<'v>(conditions: &[StatusCondition<'v>], active: bool) -> States<'v> {
    let mut states = States::default();
    for condition in conditions {
        let evidence = match condition.role {
            Role::Summary => &mut states.summaries,
            Role::Other => &mut states.others,
            _ => continue,
        };
        match condition.state(active) {
            Some(indication) => evidence.add(indication, condition.basis()),
            None => {
                states.unfamiliar.get_or_insert(*condition);
            }
        }
    }
    states
}

impl<'v> States<'v> {
    /// The summaries. Others only where there is no summary, and those that name the cause of what
    /// a summary says.
    fn counted(&self) -> EvidenceSet<'v> {
        let mut counted = self.summaries.clone();
        match self.summaries.winner().map(|evidence| evidence.indication) {
            None => counted.extend(&self.others),
            Some(Indication::Healthy) => {}
            Some(_) => {
                if let Some(cause) = self.others.of(Indication::Degraded) {
                    counted.add(cause.indication, cause.basis);
                }
            }
        }
        counted
    }
}

/// What a condition is about, by its type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// True: it rests on purpose.
    Pause,
    /// True: it is in trouble.
    Problem,
    /// True: something is under way.
    Activity,
    /// True: all is well.
    Summary,
    /// True: a part is well.
    Other,
}

impl Role {
    fn of(name: &str) -> Self {
        let mut last = Classes::default();
        let mut names_problem = false;
        for token in tokens(name) {
            last = words::classes(token);
            // A participle is a problem too if it is a bad one, such as Denied or Evicted.
            names_problem |= last.has(Classes::PROBLEM)
                || last.has(Classes::BAD) && words::ends_with(token, "ed");
        }
        if last.has(Classes::PAUSED) {
            return Self::Pause;
        }
        if names_problem {
            return Self::Problem;
        }
        if last.has(Classes::ACTIVITY) || ["Running", "InProgress"].contains(&name) {
            return Self::Activity;
        }
        if words::whole(name).has(Classes::SUMMARY) {
            return Self::Summary;
        }
        Self::Other
    }
}

const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// The status of a condition as a word. Authors of schemas without types write it as a boolean.
fn status_word(condition: Tree<'_>) -> &str {
    match condition.get("status") {
        Some(JsonTree::Bool(true)) => "True",
        Some(JsonTree::Bool(false)) => "False",
        _ => text(condition, &["status"]),
    }
}

/// A condition that can be judged: it has a type and one of the three statuses.
#[derive(Clone, Copy)]
struct StatusCondition<'v> {
    /// The type without the domain before it.
    name: &'v str,
    role: Role,
    status: &'static str,
    reason: &'v str,
    message: &'v str,
    severity: &'v str,
    observed_generation: Option<i64>,
}

impl<'v> StatusCondition<'v> {
    fn read(value: Tree<'v>) -> Option<Self> {
        let word = status_word(value);
        let kind = text(value, &["type"]);
        let name = kind.rsplit_once('/').map_or(kind, |(_, name)| name);
        if name.is_empty() {
            return None;
        }
        Some(Self {
            name,
            role: Role::of(name),
            status: STATUSES
                .into_iter()
                .find(|status| status.eq_ignore_ascii_case(word))?,
            reason: text(value, &["reason"]),
            message: text(value, &["message"]),
            severity: text(value, &["severity"]),
            observed_generation: integer(value, &["observedGeneration"]),
        })
    }

    fn is_older_than(&self, generation: Option<i64>) -> bool {
        self.observed_generation.is_some() && self.observed_generation < generation
    }

    fn basis(&self) -> Basis<'v> {
        Basis::Condition {
            name: self.name,
            status: self.status,
            reason: self.reason,
            message: self.message,
        }
    }

    fn pause(&self) -> Option<Indication> {
        (self.status == "True").then_some(Indication::Suspended)
    }

    fn problem(&self) -> Option<Indication> {
        if self.status != "True" {
            return None;
        }
        let reason = tone(self.reason);
        if reason.has(Classes::UNFINISHED) && !reason.has(Classes::BAD | Classes::ABSENT) {
            return Some(Indication::Progressing);
        }
        Some(Indication::Degraded)
    }

    /// Whether it is an activity that goes on.
    fn is_under_way(&self) -> bool {
        self.role == Role::Activity && self.activity() == Some(Indication::Progressing)
    }

    fn activity(&self) -> Option<Indication> {
        let reason = tone(self.reason);
        match self.status {
            "True" | "False" if reason.has(Classes::BAD) => Some(Indication::Degraded),
            "True" => (!reason.has(Classes::DONE)).then_some(Indication::Progressing),
            "False" => None,
            _ => {
                let is_busy = self.said().has(Classes::UNFINISHED);
                is_busy.then_some(Indication::Progressing)
            }
        }
    }

    /// Judges a condition that is meant to be true; `None` if it says nothing that is understood.
    fn state(&self, active: bool) -> Option<Indication> {
        let reason = tone(self.reason);
        match self.status {
            "True" if reason.has(Classes::BAD) => Some(Indication::Degraded),
            "True" => self.is_familiar().then_some(Indication::Healthy),
            _ if reason.has(Classes::PAUSED) => Some(Indication::Suspended),
            "False" => Some(self.not_met(active)),
            _ if reason.has(Classes::BAD) => Some(Indication::Degraded),
            _ => Some(Indication::Progressing),
        }
    }

    /// Judges a condition that is meant to be true and is false.
    fn not_met(&self, active: bool) -> Indication {
        let said = self.said();
        let is_verdict = words::whole(self.name).has(Classes::VERDICT);
        let busy = if is_verdict {
            Classes::BUSY
        } else {
            Classes::UNFINISHED
        };
        if said.has(Classes::BAD) || self.severity.eq_ignore_ascii_case("Error") {
            return Indication::Degraded;
        }
        if said.has(Classes::ABSENT) && !active {
            return Indication::Degraded;
        }
        if said.has(Classes::ABSENT | busy) || self.severity.eq_ignore_ascii_case("Info") {
            return Indication::Progressing;
        }
        if is_verdict {
            return Indication::Degraded;
        }
        if self.reason.is_empty() && self.message.is_empty() {
            return Indication::Progressing;
        }
        Indication::NotOk
    }

    /// Whether it is good news that the condition is true.
    fn is_familiar(&self) -> bool {
        self.role == Role::Summary
            || tokens(self.name).any(|token| {
                words::classes(token).has(Classes::GOOD) || words::ends_with(token, "ed")
            })
    }

    fn said(&self) -> Classes {
        tone(self.reason) | tone(self.message)
    }
}
