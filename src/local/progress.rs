//! The progress of each context: a line whenever it changes, and on a terminal also a bar while the
//! first sync runs.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use fleetdex_core::{model::ClusterName, terminal::escaped_line};
use indicatif::{ProgressBar, ProgressStyle};

/// How often the spinner moves.
const TICK: Duration = Duration::from_millis(120);
/// How many names a line lists.
const NAMES: usize = 5;

/// The progress of a context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextProgress {
    /// Why nothing of it can be read; `None` if it can.
    pub failure: Option<String>,
    /// Whether its API discovery has completed.
    pub discovered: bool,
    /// How many kinds to read, as far as they are known.
    pub kinds: usize,
    /// How many of them are in sync.
    pub synced: usize,
    /// How many objects these have.
    pub objects: u64,
    /// The kinds that cannot be read, with the reason.
    pub failing: Vec<String>,
    /// Whether queries are answered from it.
    pub live: bool,
}

/// What the line of a context states.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    Unread(String),
    Reading,
    /// In sync, except for these kinds.
    InSync(Vec<String>),
}

impl ContextProgress {
    fn stage(&self) -> Stage {
        if let Some(failure) = &self.failure {
            return Stage::Unread(failure.clone());
        }
        let is_answered = self.live || self.kinds == 0;
        match self.discovered {
            false => Stage::Connecting,
            true if is_answered && self.synced + self.failing.len() >= self.kinds => {
                Stage::InSync(self.failing.clone())
            }
            true => Stage::Reading,
        }
    }

    fn line(&self, name: &ClusterName) -> Option<String> {
        match self.stage() {
            Stage::Connecting | Stage::Reading => None,
            Stage::Unread(failure) => Some(format!("{name}: {failure}")),
            Stage::InSync(failing) if failing.is_empty() => Some(format!(
                "{name}: in sync, {} kinds, {} objects",
                self.synced, self.objects
            )),
            Stage::InSync(failing) => {
                let (count, shown) = (
                    failing.len(),
                    failing
                        .iter()
                        .take(NAMES)
                        .cloned()
                        .collect::<Vec<_>>()
                        .join("; "),
                );
                let more = if count > NAMES {
                    format!(" and {} more", count - NAMES)
                } else {
                    String::new()
                };
                Some(format!(
                    "{name}: in sync, {} kinds, {} objects, but without {shown}{more}",
                    self.synced, self.objects
                ))
            }
        }
    }
}

/// Remembers which lines were printed, so that each is printed once.
#[derive(Default)]
pub struct ProgressReporter {
    reported: BTreeMap<ClusterName, Stage>,
    unknown: Vec<String>,
    is_complete: bool,
}

/// What to print now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgressUpdate {
    /// The lines.
    pub lines: Vec<String>,
    /// Whether every context is in sync or has failed, for the first time.
    pub completed: bool,
}

impl ProgressReporter {
    /// Returns what has changed. `unknown`: resources that no context serves.
    pub fn update(
        &mut self,
        contexts: &BTreeMap<ClusterName, ContextProgress>,
        unknown: &[String],
    ) -> ProgressUpdate {
        let mut update = ProgressUpdate::default();
        for (name, context) in contexts {
            let stage = context.stage();
            if self.reported.get(name) != Some(&stage) {
                update.lines.extend(context.line(name));
                self.reported.insert(name.clone(), stage);
            }
        }
        let is_final = |context: &ContextProgress| {
            matches!(context.stage(), Stage::Unread(_) | Stage::InSync(_))
        };
        let are_final = contexts.values().all(is_final);
        if are_final && self.unknown != unknown {
            update.lines.extend(
                unknown
                    .iter()
                    .map(|name| format!("no context serves a resource {name:?}")),
            );
            self.unknown = unknown.to_vec();
        }
        update.completed = are_final && !self.is_complete;
        self.is_complete |= are_final;
        update
    }
}

/// Prints progress to standard error.
pub struct Display {
    bar: Option<ProgressBar>,
}

impl Default for Display {
    /// With a bar if standard error is a terminal.
    fn default() -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            let style = ProgressStyle::with_template("{spinner} {bar:30} {pos}/{len} kinds, {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(TICK);
            bar
        });
        Self { bar }
    }
}

impl Display {
    /// Updates the bar.
    pub fn show(&self, contexts: &BTreeMap<ClusterName, ContextProgress>) {
        let Some(bar) = &self.bar else { return };
        let sum =
            |part: fn(&ContextProgress) -> usize| contexts.values().map(part).sum::<usize>() as u64;
        bar.set_length(sum(|context| context.kinds));
        bar.set_position(sum(|context| context.synced));
        let objects: u64 = contexts.values().map(|context| context.objects).sum();
        bar.set_message(format!("{objects} objects of {} contexts", contexts.len()));
    }

    /// Prints a line.
    pub fn print(&self, line: &str) {
        let line = escaped_line(line);
        match &self.bar {
            Some(bar) => bar.println(line),
            // An error means that standard error is closed.
            None => drop(writeln!(io::stderr(), "{line}")),
        }
    }

    /// Removes the bar.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_context_and_the_end_of_the_first_sync_are_reported_once() {
        let mut progress = ProgressReporter::default();
        let names: [ClusterName; 2] = ["prod", "test"].map(|name| name.parse().unwrap());
        let reading = ContextProgress {
            discovered: true,
            kinds: 3,
            synced: 1,
            objects: 7,
            ..ContextProgress::default()
        };
        let synced = ContextProgress {
            synced: 3,
            live: true,
            objects: 9,
            ..reading.clone()
        };
        let broken = ContextProgress {
            failure: Some("not reachable: connection refused".to_owned()),
            ..ContextProgress::default()
        };
        let of = |first: &ContextProgress, second: &ContextProgress| {
            names
                .iter()
                .cloned()
                .zip([first.clone(), second.clone()])
                .collect()
        };
        assert_eq!(
            progress.update(&of(&ContextProgress::default(), &reading), &[]),
            ProgressUpdate::default()
        );
        let unknown = ["widgets".to_owned()];
        assert_eq!(
            progress.update(&of(&synced, &reading), &unknown).lines,
            ["prod: in sync, 3 kinds, 9 objects"]
        );
        let last = progress.update(&of(&synced, &broken), &unknown);
        assert_eq!(
            last.lines,
            [
                "test: not reachable: connection refused",
                "no context serves a resource \"widgets\""
            ]
        );
        assert!(last.completed);
        assert_eq!(
            progress.update(&of(&synced, &broken), &unknown),
            ProgressUpdate::default()
        );
        let some = ContextProgress {
            synced: 2,
            failing: vec!["Node (Forbidden)".to_owned()],
            ..synced.clone()
        };
        let update = progress.update(&of(&synced, &some), &unknown);
        assert_eq!(
            update.lines,
            ["test: in sync, 2 kinds, 9 objects, but without Node (Forbidden)"]
        );
        assert!(!update.completed);
    }
}
