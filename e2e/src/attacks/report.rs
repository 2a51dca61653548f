//! What an attack did, as a row of a table, and whether that is allowed.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    time::Duration,
};

use super::{
    volley::Tally,
    watchdog::{Sighting, Sightings},
};

/// `/healthz` has to answer within this time during all attacks: the kubelet kills a container that
/// does not. Like the next one, this is measured with the program as it is shipped.
pub const HEALTH_LIMIT: Duration = Duration::from_secs(1);
/// A small list of another user has to be complete within this time during all attacks.
pub const LIST_LIMIT: Duration = Duration::from_secs(5);

/// How many characters of a problem are shown.
const PROBLEM: usize = 260;
const MIB: u64 = 1 << 20;

/// The outcome of one attack, or of all at once.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The name of the attack.
    pub name: String,
    /// What it does.
    pub what: String,
    /// Its requests.
    pub tally: Tally,
    /// The most resident memory in bytes.
    pub peak: u64,
    /// The limit in bytes.
    pub limit: u64,
    /// What the kubelet and the other user saw.
    pub seen: Sightings,
    /// How the process ended, with the end of its log.
    pub end: Option<String>,
    /// Why the operator does not answer right afterwards.
    pub wrong_afterwards: Option<String>,
    /// Why the objects of the attack were not found before its requests were sent.
    pub not_found: Option<String>,
}

/// The outcomes of several attacks.
#[derive(Clone, Debug, Default)]
pub struct AttackReport {
    /// In the order in which they were run.
    pub outcomes: Vec<Outcome>,
    /// What limited the memory.
    pub limited_by: &'static str,
    /// The samples of the longest steps of tasks at the end.
    pub longest_polls: Vec<String>,
    /// Whether examples of good answers are shown, too.
    pub shows_all: bool,
}

impl Outcome {
    /// Everything that must not be.
    pub fn problems(&self) -> Vec<String> {
        self.problems_beyond([HEALTH_LIMIT, LIST_LIMIT])
    }

    /// The same, but for times: what fails, however busy the machine is.
    pub fn failures(&self) -> Vec<String> {
        self.problems_beyond([Duration::MAX; 2])
    }

    fn problems_beyond(&self, [health_limit, list_limit]: [Duration; 2]) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(end) = &self.end {
            problems.push(format!("the process ended: {end}"));
        }
        if self.peak > self.limit {
            problems.push(format!("{} MiB were resident", self.peak / MIB));
        }
        let late = beyond(&self.seen.health, health_limit);
        if late > 0 {
            let problems_seen = kinds_of_problems(&self.seen.health);
            problems.push(format!(
                "{late} of {} /healthz took more than {} s or failed{problems_seen}",
                self.seen.health.len(),
                HEALTH_LIMIT.as_secs()
            ));
        }
        let late = beyond(&self.seen.lists, list_limit);
        if late > 0 {
            let problems_seen = kinds_of_problems(&self.seen.lists);
            problems.push(format!(
                "{late} of {} lists of another user took more than {} s or failed{problems_seen}",
                self.seen.lists.len(),
                LIST_LIMIT.as_secs()
            ));
        }
        if let Some(error) = &self.wrong_afterwards {
            problems.push(format!("afterwards: {error}"));
        }
        for status in [500, 502] {
            if let Some(text) = self.tally.samples.get(&status) {
                problems.push(format!("answers of {status}: {text}"));
            }
        }
        problems
            .into_iter()
            .map(|problem| format!("{}: {problem}", self.name))
            .collect()
    }
}

impl AttackReport {
    /// Everything that must not be.
    pub fn problems(&self) -> Vec<String> {
        self.outcomes.iter().flat_map(Outcome::problems).collect()
    }

    /// The same, but for times.
    pub fn failures(&self) -> Vec<String> {
        self.outcomes.iter().flat_map(Outcome::failures).collect()
    }
}

/// How many took longer, or had another outcome than they should.
fn beyond(sightings: &[Sighting], limit: Duration) -> usize {
    sightings
        .iter()
        .filter(|sighting| sighting.took > limit || sighting.problem.is_some())
        .count()
}

/// The different problems, in brackets.
fn kinds_of_problems(sightings: &[Sighting]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for problem in sightings
        .iter()
        .filter_map(|sighting| sighting.problem.as_ref())
    {
        let start = problem.chars().take(PROBLEM).collect();
        *counts.entry(start).or_default() += 1;
    }
    let counted: Vec<String> = counts
        .iter()
        .map(|(problem, count)| format!("\n      {count} × {problem}"))
        .collect();
    counted.concat()
}

/// A quantile of the times in seconds.
fn quantile(sightings: &[Sighting], of_hundred: usize) -> f64 {
    let mut times: Vec<Duration> = sightings.iter().map(|sighting| sighting.took).collect();
    times.sort();
    let index = (times.len() * of_hundred).div_ceil(100).max(1) - 1;
    times.get(index).map_or(0.0, Duration::as_secs_f64)
}

fn times(sightings: &[Sighting]) -> String {
    let at = |of_hundred| quantile(sightings, of_hundred);
    format!("{:.3} / {:.2} / {:.2}", at(50), at(99), at(100))
}

impl fmt::Display for AttackReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "memory limited by: {}", self.limited_by)?;
        writeln!(
            out,
            "| attack | what | sent | answers | VmHWM MiB | /healthz s p50 / p99 / max (late of asked) | list s p50 / p99 / max (late of asked) | process |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|---|")?;
        for outcome in &self.outcomes {
            let Outcome {
                name,
                what,
                tally,
                peak,
                seen,
                end,
                ..
            } = outcome;
            let process = if end.is_some() { "ENDED" } else { "lives" };
            writeln!(
                out,
                "| {name} | {what} | {} | {tally} | {} | {} ({} of {}) | {} ({} of {}) | {process} |",
                tally.sent,
                peak / MIB,
                times(&seen.health),
                beyond(&seen.health, HEALTH_LIMIT),
                seen.health.len(),
                times(&seen.lists),
                beyond(&seen.lists, LIST_LIMIT),
                seen.lists.len(),
            )?;
        }
        let mut notes = String::new();
        for outcome in &self.outcomes {
            if let Some(error) = &outcome.not_found {
                writeln!(notes, "- {}: {error}", outcome.name)?;
            }
            let samples = outcome.tally.samples.iter();
            for (status, text) in samples.filter(|(status, _)| self.shows_all || **status >= 300) {
                writeln!(notes, "- {}: a {status}: {}", outcome.name, text.trim())?;
            }
        }
        for sample in &self.longest_polls {
            writeln!(notes, "- {sample}")?;
        }
        out.write_str(&notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(millis: u64, problem: Option<&str>) -> Sighting {
        Sighting {
            took: Duration::from_millis(millis),
            problem: problem.map(str::to_owned),
        }
    }

    #[test]
    fn late_and_wrong_answers_memory_and_ends_are_problems() {
        let mut outcome = Outcome {
            name: "h0".to_owned(),
            what: String::new(),
            tally: Tally::default(),
            peak: MIB,
            limit: 2 * MIB,
            seen: Sightings {
                health: vec![sighting(10, None), sighting(999, None)],
                lists: vec![sighting(4_999, None)],
            },
            end: None,
            wrong_afterwards: None,
            not_found: None,
        };
        assert!(outcome.problems().is_empty());
        outcome.seen.health.push(sighting(1_001, None));
        outcome.seen.lists.push(sighting(1, Some("429")));
        outcome.peak = 3 * MIB;
        outcome.end = Some("killed".to_owned());
        outcome.tally.samples.insert(500, "x".to_owned());
        outcome.tally.samples.insert(503, "x".to_owned());
        assert_eq!(outcome.problems().len(), 5, "{:?}", outcome.problems());
        assert!((quantile(&outcome.seen.health, 50) - 0.999).abs() < 1e-9);
    }
}
