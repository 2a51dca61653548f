//! Compares ratios with those of the run before, and with a committed baseline.
//!
//! Ratios, and bytes of memory, are comparable between machines; seconds are not, and are not
//! compared.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The committed ratios of some runs.
const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/bench-baseline.json");
/// Runs that a baseline keeps; the oldest is dropped.
const KEPT_RUNS: usize = 5;
/// Runs that a baseline needs of a ratio before one can be worse: two say little about noise.
const NEEDED_RUNS: usize = 3;
/// The least noise of a ratio, as a share of it, whatever a few runs happened to show.
const LEAST_NOISE: f64 = 0.02;

/// Which of two values is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Lower,
    Higher,
}

/// What a figure is divided by.
#[derive(Clone, Copy)]
enum Divisor {
    /// Nothing: it is a ratio itself.
    One,
    /// The bytes of a megabyte.
    Megabyte,
    /// The sum of these figures.
    Sum(&'static [&'static str]),
}

/// A figure by another, or in megabytes.
struct Ratio {
    name: &'static str,
    of: &'static str,
    by: Divisor,
    better: Better,
}

const fn ratio(name: &'static str, of: &'static str, by: Divisor, better: Better) -> Ratio {
    Ratio {
        name,
        of,
        by,
        better,
    }
}

const RATIOS: &[Ratio] = &[
    ratio(
        "first sync / (LIST + raw _bulk)",
        "first_sync_seconds",
        Divisor::Sum(&["list_seconds", "raw_bulk_seconds"]),
        Better::Lower,
    ),
    ratio(
        "CPU of the first sync / (LIST + raw _bulk)",
        "first_sync_cpu_seconds",
        Divisor::Sum(&["list_seconds", "raw_bulk_seconds"]),
        Better::Lower,
    ),
    ratio(
        "peak memory with 20,000 objects, MB",
        "rss_20k_bytes",
        Divisor::Megabyte,
        Better::Lower,
    ),
    ratio(
        "peak memory with 200,000 objects, MB",
        "rss_200k_bytes",
        Divisor::Megabyte,
        Better::Lower,
    ),
    ratio(
        "churn / raw _bulk",
        "churn_ratio",
        Divisor::One,
        Better::Higher,
    ),
    ratio(
        "cost of the rules that say what objects mean",
        "encode_objects_per_s_core",
        Divisor::Sum(&["interpret_and_encode_objects_per_s_core"]),
        Better::Lower,
    ),
    ratio(
        "selector over 20,000 objects / bare search, p50",
        "query_opensearch_p50_ms",
        Divisor::Sum(&["query_bare_p50_ms"]),
        Better::Lower,
    ),
    ratio(
        "selector over 200,000 objects / bare search, p50",
        "query_200k_opensearch_p50_ms",
        Divisor::Sum(&["query_200k_bare_p50_ms"]),
        Better::Lower,
    ),
    ratio(
        "embedded store / bare search, 200,000 objects, p50",
        "query_200k_memory_p50_ms",
        Divisor::Sum(&["query_200k_bare_p50_ms"]),
        Better::Lower,
    ),
    ratio(
        "200,000 objects as one list / bare scan",
        "query_200k_scan_seconds",
        Divisor::Sum(&["query_200k_scan_bare_seconds"]),
        Better::Lower,
    ),
    ratio(
        "memory of a list of 200,000 objects, MB",
        "query_200k_scan_rss_bytes",
        Divisor::Megabyte,
        Better::Lower,
    ),
    ratio(
        "index size that the fields of searches add",
        "search_fields_index_cost",
        Divisor::One,
        Better::Lower,
    ),
];

/// The committed ratios of some runs on one machine, the oldest first.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Baseline {
    /// The machine of these runs.
    machine: String,
    /// The values of each ratio.
    ratios: BTreeMap<String, Vec<f64>>,
}

/// What a run has to be compared with.
#[derive(Debug)]
pub struct Comparison {
    before: Map<String, Value>,
    baseline: Baseline,
}

/// A ratio that is worse than all runs of the baseline, by more than these differ.
#[derive(Debug, PartialEq)]
struct Worse {
    name: &'static str,
    now: f64,
    bound: f64,
}

impl Comparison {
    /// Reads the results of the run before, if there was one, and the baseline.
    pub fn read(results: &Path) -> Result<Self> {
        let before = match fs::read(results) {
            Ok(json) => serde_json::from_slice(&json)
                .with_context(|| format!("reading {}", results.display()))?,
            Err(_) => Map::new(),
        };
        let baseline = fs::read(BASELINE).context("reading the baseline of the benchmark")?;
        let baseline =
            serde_json::from_slice(&baseline).with_context(|| format!("reading {BASELINE}"))?;
        Ok(Self { before, baseline })
    }

    /// A table of the ratios of this run beside the others. Fails after it has been printed if one
    /// of them is worse than noise explains.
    pub fn print(&self, now: &Map<String, Value>) -> Result<()> {
        println!("{}", self.table(now));
        let worse = self.worse(now);
        let lines = worse.iter().map(|worse| {
            let Worse { name, now, bound } = worse;
            format!("{name}: {now:.3}, and the baseline with its noise allows {bound:.3}")
        });
        let lines: Vec<String> = lines.collect();
        ensure!(
            worse.is_empty(),
            "worse than the baseline by more than its noise:\n  {}\nRun it again on a quiet machine; if it stays, find the change, or record another baseline with --record and say why",
            lines.join("\n  ")
        );
        Ok(())
    }

    fn table(&self, now: &Map<String, Value>) -> String {
        let shown = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
        };
        let mut text = format!(
            "{:<52}{:>10}{:>10}{:>22}\n",
            "ratio", "now", "before", "baseline (noise)"
        );
        for ratio in RATIOS {
            let Some(value) = ratio.value(now) else {
                continue;
            };
            let baseline = self.runs(ratio).map(|runs| {
                let (median, noise) = (median(runs), noise(runs));
                format!("{median:.3} (± {noise:.3})")
            });
            // Writing to a text does not fail.
            let _ = writeln!(
                text,
                "{:<52}{:>10}{:>10}{:>22}",
                ratio.name,
                shown(Some(value)),
                shown(ratio.value(&self.before)),
                baseline.unwrap_or_else(|| "-".to_owned())
            );
        }
        let baseline = match &*self.baseline.machine {
            "" => "none yet: three quiet runs with --record make one",
            machine => machine,
        };
        let _ = writeln!(text, "baseline: {baseline}");
        text
    }

    fn runs(&self, ratio: &Ratio) -> Option<&Vec<f64>> {
        let runs = self.baseline.ratios.get(ratio.name);
        runs.filter(|runs| !runs.is_empty())
    }

    fn worse(&self, now: &Map<String, Value>) -> Vec<Worse> {
        let of = |ratio: &Ratio| {
            let now = ratio.value(now)?;
            let runs = self.runs(ratio).filter(|runs| runs.len() >= NEEDED_RUNS)?;
            let bound = ratio.better.bound(runs);
            let is_worse = match ratio.better {
                Better::Lower => now > bound,
                Better::Higher => now < bound,
            };
            is_worse.then_some(Worse {
                name: ratio.name,
                now,
                bound,
            })
        };
        RATIOS.iter().filter_map(of).collect()
    }

    /// Adds the ratios of a run to the baseline.
    pub fn record(mut self, now: &Map<String, Value>, machine: String) -> Result<()> {
        if self.baseline.machine != machine {
            self.baseline = Baseline {
                machine,
                ..Baseline::default()
            };
        }
        for ratio in RATIOS {
            let Some(value) = ratio.value(now) else {
                continue;
            };
            let runs = self
                .baseline
                .ratios
                .entry(ratio.name.to_owned())
                .or_default();
            runs.push((value * 1000.0).round() / 1000.0);
            runs.drain(..runs.len().saturating_sub(KEPT_RUNS));
        }
        let json = serde_json::to_string_pretty(&self.baseline)? + "\n";
        fs::write(BASELINE, json).context("writing the baseline of the benchmark")?;
        println!("recorded in {BASELINE}");
        Ok(())
    }
}

impl Ratio {
    /// `None` if a figure was not measured.
    fn value(&self, figures: &Map<String, Value>) -> Option<f64> {
        let figure = |name: &str| figures.get(name)?.as_f64();
        let divisor = match self.by {
            Divisor::One => 1.0,
            Divisor::Megabyte => 1e6,
            Divisor::Sum(names) => names.iter().map(|name| figure(name)).sum::<Option<f64>>()?,
        };
        let value = figure(self.of)? / divisor;
        value.is_finite().then_some(value)
    }
}

impl Better {
    /// The worst value that noise explains: the worst of the runs, and as much more as they differ.
    fn bound(self, runs: &[f64]) -> f64 {
        let noise = noise(runs);
        match self {
            Self::Lower => greatest(runs) + noise,
            Self::Higher => least(runs) - noise,
        }
    }
}

fn greatest(runs: &[f64]) -> f64 {
    runs.iter().copied().fold(f64::MIN, f64::max)
}

fn least(runs: &[f64]) -> f64 {
    runs.iter().copied().fold(f64::MAX, f64::min)
}

fn median(runs: &[f64]) -> f64 {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// How much runs differ.
fn noise(runs: &[f64]) -> f64 {
    (greatest(runs) - least(runs)).max(LEAST_NOISE * median(runs))
}

/// The processors and the memory of this machine, without its name.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let after = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_once(':'))
            .map_or_else(String::new, |(_, value)| value.trim().to_owned())
    };
    let memory = after(&read("/proc/meminfo"), "MemTotal");
    let kibibytes: f64 = memory
        .split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default();
    let model = after(&read("/proc/cpuinfo"), "model name");
    format!(
        "{cores} cores of {model}, {:.0} GiB",
        kibibytes / f64::from(1 << 20)
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn comparison(ratio: &str, runs: &[f64]) -> Comparison {
        Comparison {
            before: Map::new(),
            baseline: Baseline {
                machine: "a machine".to_owned(),
                ratios: [(ratio.to_owned(), runs.to_vec())].into(),
            },
        }
    }

    fn figures(values: &[(&str, f64)]) -> Map<String, Value> {
        let values = values.iter();
        values
            .map(|(name, value)| ((*name).to_owned(), Value::from(*value)))
            .collect()
    }

    fn sync(seconds: f64) -> Map<String, Value> {
        figures(&[
            ("first_sync_seconds", seconds),
            ("list_seconds", 2.0),
            ("raw_bulk_seconds", 1.0),
        ])
    }

    #[test]
    fn what_noise_explains_is_not_worse() {
        let compared = comparison(RATIOS[0].name, &[1.1, 1.2, 1.15]);
        assert_eq!(compared.worse(&sync(3.0 * 1.29)), []);
        let worse = compared.worse(&sync(3.0 * 1.31));
        assert_eq!(worse.len(), 1, "{worse:?}");
        assert!(
            compared
                .print(&sync(3.0 * 1.31))
                .unwrap_err()
                .to_string()
                .contains("first sync")
        );
    }

    #[test]
    fn more_is_better_for_churn() {
        let name = "churn / raw _bulk";
        let churn = |ratio| figures(&[("churn_ratio", ratio)]);
        let compared = comparison(name, &[0.9, 0.9, 0.9]);
        assert_eq!(compared.worse(&churn(0.95)), []);
        assert_eq!(compared.worse(&churn(0.885)), []);
        assert_eq!(compared.worse(&churn(0.88)).len(), 1);
    }

    #[test]
    fn neither_few_runs_nor_a_ratio_that_was_not_measured_can_be_worse() {
        let compared = comparison(RATIOS[0].name, &[1.1, 1.1]);
        assert_eq!(compared.worse(&sync(30.0)), []);
        let compared = comparison(RATIOS[0].name, &[1.1, 1.1, 1.1]);
        assert_eq!(compared.worse(&figures(&[("list_seconds", 2.0)])), []);
    }

    #[test]
    fn the_committed_baseline_has_known_ratios() {
        let known = |name: &String| RATIOS.iter().any(|ratio| ratio.name == name);
        let read = Comparison::read(Path::new("/nonexistent")).unwrap();
        assert!(read.baseline.ratios.keys().all(known), "{read:?}");
    }
}
