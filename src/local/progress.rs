//! How far each context is, in a line whenever that changes, and on a terminal also as a bar while the first sync runs.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use fleetdex_core::{model::ClusterName, terminal::escaped_line};
use indicatif::{ProgressBar, ProgressStyle};

/// How often the bar moves while nothing happens.
const TICK: Duration = Duration::from_millis(120);
/// Names that are spelt out in a line.
const NAMES: usize = 5;

/// How far a context is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Why nothing of it can be read, if that is so.
    pub trouble: Option<String>,
    /// Whether it is known what it serves.
    pub discovered: bool,
    /// Kinds to read, as far as they are known.
    pub kinds: usize,
    /// Those of them that are read and followed.
    pub synced: usize,
    /// Objects of these.
    pub objects: u64,
    /// Kinds that cannot be read, with the reason.
    pub failing: Vec<String>,
    /// Whether queries are answered from it.
    pub live: bool,
}

/// What there is to say of a context.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    Unread(String),
    Reading,
    /// With the kinds that cannot be read.
    InSync(Vec<String>),
}

impl Context {
    fn stage(&self) -> Stage {
        if let Some(trouble) = &self.trouble {
            return Stage::Unread(trouble.clone());
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
            Stage::Unread(trouble) => Some(format!("{name}: {trouble}")),
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

/// What was told last.
#[derive(Default)]
pub struct Progress {
    told: BTreeMap<ClusterName, Stage>,
    unknown: Vec<String>,
    is_complete: bool,
}

/// What is to be told now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// One line each.
    pub lines: Vec<String>,
    /// Whether every context is in sync or has failed, for the first time.
    pub completed: bool,
}

impl Progress {
    /// What is new. `unknown`: resources that nobody serves.
    pub fn news(&mut self, contexts: &BTreeMap<ClusterName, Context>, unknown: &[String]) -> News {
        let mut news = News::default();
        for (name, context) in contexts {
            let stage = context.stage();
            if self.told.get(name) != Some(&stage) {
                news.lines.extend(context.line(name));
                self.told.insert(name.clone(), stage);
            }
        }
        let has_settled =
            |context: &Context| matches!(context.stage(), Stage::Unread(_) | Stage::InSync(_));
        let are_settled = contexts.values().all(has_settled);
        if are_settled && self.unknown != unknown {
            news.lines.extend(
                unknown
                    .iter()
                    .map(|name| format!("no context serves a resource {name:?}")),
            );
            self.unknown = unknown.to_vec();
        }
        news.completed = are_settled && !self.is_complete;
        self.is_complete |= are_settled;
        news
    }
}

/// Where it is told: standard error.
pub struct Display {
    bar: Option<ProgressBar>,
}

impl Display {
    /// With a bar if standard error is a terminal.
    pub fn new() -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            let style = ProgressStyle::with_template("{spinner} {bar:30} {pos}/{len} kinds, {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(TICK);
            bar
        });
        Self { bar }
    }

    /// Moves the bar.
    pub fn show(&self, contexts: &BTreeMap<ClusterName, Context>) {
        let Some(bar) = &self.bar else { return };
        let sum = |part: fn(&Context) -> usize| contexts.values().map(part).sum::<usize>() as u64;
        bar.set_length(sum(|context| context.kinds));
        bar.set_position(sum(|context| context.synced));
        let objects: u64 = contexts.values().map(|context| context.objects).sum();
        bar.set_message(format!("{objects} objects of {} contexts", contexts.len()));
    }

    /// Prints a line.
    pub fn say(&self, line: &str) {
        let line = escaped_line(line);
        match &self.bar {
            Some(bar) => bar.println(line),
            // Whoever closed standard error does not want to know.
            None => drop(writeln!(io::stderr(), "{line}")),
        }
    }

    /// Takes the bar away.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Default for Display {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_context_is_told_of_once_and_the_end_of_the_first_sync_too() {
        let mut progress = Progress::default();
        let names: [ClusterName; 2] = ["prod", "test"].map(|name| name.parse().unwrap());
        let reading = Context {
            discovered: true,
            kinds: 3,
            synced: 1,
            objects: 7,
            ..Context::default()
        };
        let synced = Context {
            synced: 3,
            live: true,
            objects: 9,
            ..reading.clone()
        };
        let broken = Context {
            trouble: Some("not reachable: connection refused".to_owned()),
            ..Context::default()
        };
        let of = |first: &Context, second: &Context| {
            names
                .iter()
                .cloned()
                .zip([first.clone(), second.clone()])
                .collect()
        };
        assert_eq!(
            progress.news(&of(&Context::default(), &reading), &[]),
            News::default()
        );
        let unknown = ["widgets".to_owned()];
        assert_eq!(
            progress.news(&of(&synced, &reading), &unknown).lines,
            ["prod: in sync, 3 kinds, 9 objects"]
        );
        let last = progress.news(&of(&synced, &broken), &unknown);
        assert_eq!(
            last.lines,
            [
                "test: not reachable: connection refused",
                "no context serves a resource \"widgets\""
            ]
        );
        assert!(last.completed);
        assert_eq!(
            progress.news(&of(&synced, &broken), &unknown),
            News::default()
        );
        let some = Context {
            synced: 2,
            failing: vec!["Node (Forbidden)".to_owned()],
            ..synced.clone()
        };
        let news = progress.news(&of(&synced, &some), &unknown);
        assert_eq!(
            news.lines,
            ["test: in sync, 2 kinds, 9 objects, but without Node (Forbidden)"]
        );
        assert!(!news.completed);
    }
}
