//! Runs simulations: many seeds as a test, or one seed to debug it.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::{Parser, Subcommand};
use parking_lot::Mutex;
use simulation::run::{Report, all_disruptions, run, run_distribution, run_sets};

/// As in the program itself: a fifth of the time of a seed is spent on allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Seeds that failed once; they run every time as regression tests.
const REGRESSIONS: &str = include_str!("../regressions.txt");

#[derive(Parser)]
#[command(
    version,
    about = "Fleetdex against an in-process apiserver and OpenSearch, with faults, from a seed"
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs the regression seeds and many others; exit code 1 if one fails or a fault never takes
    /// effect.
    Run {
        /// Number of random seeds.
        #[arg(long, default_value_t = 500)]
        seeds: u64,
        /// The first seed; random by default.
        #[arg(long)]
        from: Option<u64>,
        /// Number of seeds that run in parallel.
        #[arg(long, default_value_t = 2)]
        threads: usize,
        /// File for the statistics, as JSON.
        #[arg(long)]
        results: Option<PathBuf>,
        /// Only distribution, with each seed.
        #[arg(long)]
        distribution: bool,
        /// Only the distribution of sets, with each seed.
        #[arg(long, conflicts_with = "distribution")]
        sets: bool,
    },
    /// Plants each bug in turn and runs seeds until one fails, first the one that found it before;
    /// exit code 1 if a bug is not found.
    #[cfg(feature = "planted-bugs")]
    Mutants {
        /// Maximum number of seeds for each bug.
        #[arg(long, default_value_t = 500)]
        seeds: u64,
        /// Number of seeds that run in parallel.
        #[arg(long, default_value_t = 2)]
        threads: usize,
        /// Only bugs whose names have this prefix.
        #[arg(long, default_value = "")]
        only: String,
    },
    /// Runs one seed; `RUST_LOG=debug` logs each step.
    Seed {
        /// The seed.
        seed: u64,
        /// Only distribution.
        #[arg(long)]
        distribution: bool,
        /// Only the distribution of sets.
        #[arg(long, conflicts_with = "distribution")]
        sets: bool,
        /// The bug to plant, by its name.
        #[cfg(feature = "planted-bugs")]
        #[arg(long)]
        bug: Option<String>,
    },
}

fn main() -> anyhow::Result<()> {
    let filter =
        tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "off".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    match Arguments::parse().task {
        Task::Run {
            seeds,
            from,
            threads,
            results,
            distribution,
            sets,
        } => many(seeds, from, threads, results, only(distribution, sets)),
        #[cfg(feature = "planted-bugs")]
        Task::Mutants {
            seeds,
            threads,
            only,
        } => mutants::find_all(seeds, threads, &only),
        Task::Seed {
            seed,
            distribution,
            sets,
            #[cfg(feature = "planted-bugs")]
            bug,
        } => {
            #[cfg(feature = "planted-bugs")]
            bug.map_or(Ok(()), |name| mutants::plant_named(&name))?;
            one(seed, only(distribution, sets).unwrap_or(run))
        }
    }
}

/// Runs one seed.
type Scenario = fn(u64) -> Report;

/// What is run of a seed alone; `None`: all of it.
fn only(distribution: bool, sets: bool) -> Option<Scenario> {
    match (distribution, sets) {
        (true, _) => Some(run_distribution),
        (_, true) => Some(run_sets),
        _ => None,
    }
}

#[cfg(feature = "planted-bugs")]
mod mutants {
    use std::time::Instant;

    use anyhow::Context;
    use fleetdex_core::planted::{Bug, plant};
    use simulation::run::Report;

    /// By which seed each bug was found: that one is run first.
    const FOUND: &str = include_str!("../mutants.txt");

    pub(super) fn find_all(seeds: u64, threads: usize, only: &str) -> anyhow::Result<()> {
        let mut missed = Vec::new();
        for bug in Bug::ALL
            .iter()
            .filter(|bug| format!("{bug:?}").starts_with(only))
        {
            let started = Instant::now();
            match find(*bug, seeds, threads) {
                Some(report) => {
                    let failure = report.failure.unwrap_or_default();
                    let first = failure
                        .lines()
                        .take(2)
                        .map(str::trim)
                        .collect::<Vec<_>>()
                        .join(" ");
                    println!(
                        "{bug:?}: found by seed {} in {:.0} s: {first}",
                        report.seed,
                        started.elapsed().as_secs_f64()
                    );
                }
                None => {
                    println!("{bug:?}: NOT FOUND by {seeds} seeds");
                    missed.push(format!("{bug:?}"));
                }
            }
        }
        anyhow::ensure!(missed.is_empty(), "not found: {}", missed.join(", "));
        Ok(())
    }

    pub(super) fn plant_named(name: &str) -> anyhow::Result<()> {
        let named = Bug::ALL.iter().find(|bug| format!("{bug:?}") == name);
        plant(Some(*named.with_context(|| {
            format!("unknown bug {name}; `mutants` lists them")
        })?));
        Ok(())
    }

    /// Returns the report of the first seed that fails with the bug.
    fn find(bug: Bug, seeds: u64, threads: usize) -> Option<Report> {
        let known: Vec<u64> = found_before(bug).into_iter().collect();
        let others: Vec<u64> = (1..=seeds).filter(|seed| !known.contains(seed)).collect();
        let batch = threads.max(1) * 4;
        let scenario = super::only(bug.is_of_distribution(), bug.is_of_sets());
        let scenario = scenario.unwrap_or(super::run);
        let mut batches = known.chunks(1).chain(others.chunks(batch));
        batches.find_map(|batch| {
            let reports = super::run_all(batch, threads, scenario, || plant(Some(bug)));
            reports.into_iter().find(|report| report.failure.is_some())
        })
    }

    fn found_before(bug: Bug) -> Option<u64> {
        let name = format!("{bug:?}");
        let mut lines = FOUND.lines().filter_map(|line| line.split_once(' '));
        let (_, seed) = lines.find(|(found, _)| *found == name)?;
        seed.trim().parse().ok()
    }
}

fn one(seed: u64, scenario: Scenario) -> anyhow::Result<()> {
    let report = scenario(seed);
    for (what, count) in &report.struck {
        println!("{count:6}  {what}");
    }
    match report.failure {
        None => {
            println!(
                "seed {seed}: passed, {} operations, converged after {} s",
                report.operations,
                report.convergence.as_secs()
            );
            Ok(())
        }
        Some(failure) => anyhow::bail!("seed {seed}: {failure}"),
    }
}

fn many(
    seeds: u64,
    from: Option<u64>,
    threads: usize,
    results: Option<PathBuf>,
    only: Option<Scenario>,
) -> anyhow::Result<()> {
    let scenario = only.unwrap_or(run);
    let from = from.unwrap_or_else(|| rand::random_range(0..1_000_000_000));
    let chosen: Vec<u64> = regressions()?
        .into_iter()
        .chain(from..from + seeds)
        .collect();
    println!(
        "{} seeds: the regression seeds, and {seeds} seeds from {from}",
        chosen.len()
    );
    let started = Instant::now();
    let reports = run_all(&chosen, threads, scenario, || {});
    check_replay(&reports, scenario)?;
    let summary = Summary::of(&reports);
    summary.print(started.elapsed());
    if let Some(path) = results {
        std::fs::write(&path, summary.json(started.elapsed()).to_string())
            .with_context(|| path.display().to_string())?;
    }
    let failed: Vec<&Report> = reports
        .iter()
        .filter(|report| report.failure.is_some())
        .collect();
    for report in &failed {
        let failure = report.failure.as_deref().unwrap_or_default();
        println!(
            "\nseed {} failed: {failure}\n  replay: cargo run -p simulation -- seed {}",
            report.seed, report.seed
        );
    }
    anyhow::ensure!(
        failed.is_empty(),
        "{} of {} seeds failed",
        failed.len(),
        reports.len()
    );
    let never: Vec<String> = all_disruptions()
        .into_iter()
        .filter(|what| !summary.struck.contains_key(what))
        .collect();
    anyhow::ensure!(
        never.is_empty() || seeds < 500 || only.is_some(),
        "these faults never took effect: {}",
        never.join(", ")
    );
    Ok(())
}

/// Runs some seeds again: a seed is useful only if it reproduces the same run.
fn check_replay(reports: &[Report], scenario: Scenario) -> anyhow::Result<()> {
    for report in reports.iter().take(3) {
        let again = scenario(report.seed);
        let same = again == *report;
        anyhow::ensure!(
            same,
            "seed {} did not reproduce the same run: {report:?} and {again:?}",
            report.seed
        );
    }
    Ok(())
}

fn regressions() -> anyhow::Result<Vec<u64>> {
    let lines = REGRESSIONS
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    lines
        .filter(|line| !line.is_empty())
        .map(|line| {
            line.parse()
                .with_context(|| format!("regressions.txt: {line:?}"))
        })
        .collect()
}

/// Runs seeds on several threads; each thread calls `prepare` first.
fn run_all(
    seeds: &[u64],
    threads: usize,
    scenario: Scenario,
    prepare: impl Fn() + Sync,
) -> Vec<Report> {
    let next = AtomicU64::new(0);
    let reports = Mutex::new(Vec::with_capacity(seeds.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                prepare();
                let take = || {
                    usize::try_from(next.fetch_add(1, Ordering::Relaxed))
                        .ok()
                        .and_then(|at| seeds.get(at))
                };
                while let Some(seed) = take() {
                    let report =
                        std::panic::catch_unwind(|| scenario(*seed)).unwrap_or_else(|_| Report {
                            seed: *seed,
                            failure: Some("panicked".to_owned()),
                            ..Report::default()
                        });
                    reports.lock().push(report);
                }
            });
        }
    });
    let mut reports = reports.into_inner();
    reports.sort_by_key(|report| report.seed);
    reports
}

struct Summary {
    seeds: usize,
    failed: usize,
    operations: u64,
    most_requests: u64,
    slowest: Duration,
    struck: BTreeMap<String, u64>,
}

impl Summary {
    fn of(reports: &[Report]) -> Self {
        let mut struck: BTreeMap<String, u64> = BTreeMap::new();
        for (what, count) in reports.iter().flat_map(|report| &report.struck) {
            *struck.entry(what.clone()).or_default() += count;
        }
        Self {
            seeds: reports.len(),
            failed: reports
                .iter()
                .filter(|report| report.failure.is_some())
                .count(),
            operations: reports.iter().map(|report| report.operations).sum(),
            most_requests: reports
                .iter()
                .map(|report| report.requests)
                .max()
                .unwrap_or_default(),
            slowest: reports
                .iter()
                .map(|report| report.convergence)
                .max()
                .unwrap_or_default(),
            struck,
        }
    }

    fn print(&self, took: Duration) {
        for (what, count) in &self.struck {
            println!("{count:8}  {what}");
        }
        println!(
            "{} seeds in {:.1} s: {} failed, {} operations, {} faults of {} kinds, at most {} requests of a \
             seed to OpenSearch, slowest convergence {} s of simulated time",
            self.seeds,
            took.as_secs_f64(),
            self.failed,
            self.operations,
            self.struck.values().sum::<u64>(),
            self.struck.len(),
            self.most_requests,
            self.slowest.as_secs(),
        );
    }

    fn json(&self, took: Duration) -> serde_json::Value {
        serde_json::json!({
            "seeds": self.seeds,
            "failed": self.failed,
            "operations": self.operations,
            "seconds": took.as_secs_f64(),
            "slowest_convergence_seconds": self.slowest.as_secs(),
            "faults": self.struck,
        })
    }
}
