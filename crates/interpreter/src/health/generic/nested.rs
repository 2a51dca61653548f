//! Looks for evidence below the fields of a status.

use fleetdex_core::model::JsonTree;

use super::condition::{self, MAX_CONDITIONS};
use super::evidence::{Basis, Evidence, EvidenceSet, Indication};
use super::field::{Fields, Reading};
use super::tone::tone;
use super::words::Classes;
use crate::value::{Tree, TreeObject, integer, list, map, text};

/// Levels below the status that are visited. A list and its items are one level.
const MAX_DEPTH: usize = 4;

/// Fields, items and conditions after these are not visited.
const MAX_NODES: usize = 2_000;

/// Fields whose names begin with these are about the past.
const PAST: [&str; 3] = ["history", "previous", "past"];

/// What lies below the fields of a status.
#[derive(Debug, Default)]
pub(super) struct Nested<'v> {
    reading: Reading<'v>,
    stale: EvidenceSet<'v>,
    /// Whether there is a list of conditions without any.
    pub(super) has_empty_conditions: bool,
    nodes: usize,
    generation: Option<i64>,
    runs_to_completion: bool,
}

impl<'v> Nested<'v> {
    pub(super) fn below(fields: Fields<'v>, generation: Option<i64>) -> Self {
        let mut nested = Self {
            generation,
            runs_to_completion: fields.runs_to_completion,
            ..Self::default()
        };
        for (name, value) in fields.map.iter() {
            if name == "conditions" {
                nested.note_if_empty(value);
            } else {
                nested.visit(name, value, MAX_DEPTH);
            }
        }
        nested
    }

    /// The evidence that wins. What is about an earlier generation counts only if there is nothing
    /// else.
    pub(super) fn winner(&self) -> Option<Evidence<'v>> {
        self.counted().winner()
    }

    /// The evidence that something below has failed.
    pub(super) fn degraded(&self) -> Option<Evidence<'v>> {
        self.counted().of(Indication::Degraded)
    }

    fn counted(&self) -> &EvidenceSet<'v> {
        match self.reading.evidence.winner() {
            Some(_) => &self.reading.evidence,
            None => &self.stale,
        }
    }

    fn visit(&mut self, name: &str, value: Tree<'v>, depth: usize) {
        if depth == 0 || is_past(name) {
            return;
        }
        match value {
            JsonTree::Object(map) => self.visit_map(map, depth),
            JsonTree::Array(items) => {
                for item in items {
                    if let JsonTree::Object(map) = item
                        && self.may_go_on()
                    {
                        self.visit_map(map, depth);
                    }
                }
            }
            _ => {}
        }
    }

    fn visit_map(&mut self, map: TreeObject<'v>, depth: usize) {
        let fields = Fields {
            map,
            spec: None,
            runs_to_completion: self.runs_to_completion,
        };
        for (name, value) in map.iter() {
            if !self.may_go_on() {
                return;
            }
            if name == "conditions" {
                self.judge_conditions(value);
                continue;
            }
            judge_container_state(name, value, &mut self.reading.evidence);
            fields.judge(name, value, &mut self.reading);
            self.visit(name, value, depth - 1);
        }
    }

    fn judge_conditions(&mut self, value: Tree<'v>) {
        self.note_if_empty(value);
        let conditions = list(value, &[]);
        self.nodes += conditions.len().min(MAX_CONDITIONS);
        let judgement = condition::judge(conditions, self.generation);
        let evidence = if judgement.stale {
            &mut self.stale
        } else {
            &mut self.reading.evidence
        };
        evidence.extend(&judgement.evidence);
    }

    fn note_if_empty(&mut self, conditions: Tree<'_>) {
        self.has_empty_conditions |= conditions.as_array().is_some_and(<[_]>::is_empty);
    }

    fn may_go_on(&mut self) -> bool {
        self.nodes += 1;
        self.nodes <= MAX_NODES
    }
}

fn is_past(name: &str) -> bool {
    name == "lastState"
        || PAST.iter().any(|past| {
            name.get(..past.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(past))
        })
}

/// Judges the state of a container, as core/v1 writes it.
fn judge_container_state<'v>(name: &'v str, state: Tree<'v>, evidence: &mut EvidenceSet<'v>) {
    let (reason, message) = (text(state, &["reason"]), text(state, &["message"]));
    let indication = match name {
        "waiting" if map(state, &[]).is_none() => return,
        "waiting" if tone(reason).has(Classes::BAD) => Indication::Degraded,
        "waiting" => Indication::Progressing,
        "terminated" if integer(state, &["exitCode"]).is_some_and(|code| code != 0) => {
            Indication::Degraded
        }
        _ => return,
    };
    let basis = Basis::Condition {
        name,
        status: "True",
        reason,
        message,
    };
    evidence.add(indication, basis);
}
