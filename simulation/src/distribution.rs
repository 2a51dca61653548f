//! Distribution: while users change templates and policies, objects of members are changed by hand,
//! and servers and operators fail, members converge to what the pure plan says; nothing is deleted
//! that the control plane has not deleted or moved, and nothing is touched that Fleetdex did not
//! make.
//!
//! - [`servers`], [`operator`]: the fake servers, and the distributor as a process; [`clock`] is
//!   the time of day.
//! - [`objects`], [`operations`], [`member_operations`]: random templates and policies, and what
//!   happens to them and to their copies.
//! - [`guard`], [`guarded_replicas`], [`guarded_evictions`], [`timeline`], [`eviction_timeline`]:
//!   judge each write of an operator when it is done.
//! - [`expected`], [`oracle`]: what the pure plan says, and how servers differ from it;
//!   [`differences`] says where.
//! - [`brake`]: many deletions at once.
//!
//! Sets of objects, which go to clusters in waves, are part of some runs. Users change
//! `Distribution`s, and workloads in members are ill and recover: waves begin only when they may,
//! an undo ends where it was, and what left a set is gone.
//!
//! - [`set_sources`], [`set_specs`]: random sources and specs. Each object has a mark that says
//!   when it was changed last, so that a write shows the revision that it is of.
//! - [`set_operations`], [`set_settling`], [`set_users`], [`workloads`]: what happens to sets, and
//!   to what they run.
//! - [`set_history`], [`set_health`], [`guarded_sets`]: what is known of sets over time.
//! - [`guarded_set_writes`], [`guarded_rollouts`], [`set_waves`]: judge each write of an operator.
//! - [`set_contents`], [`set_oracle`]: what clusters shall have, and how rollouts have to end.

mod brake;
mod clock;
mod differences;
mod eviction_timeline;
mod expected;
mod guard;
mod guarded_evictions;
mod guarded_replicas;
mod guarded_rollouts;
mod guarded_set_writes;
mod guarded_sets;
mod member_operations;
mod objects;
mod operations;
mod operator;
mod oracle;
mod servers;
mod set_contents;
mod set_health;
mod set_history;
mod set_operations;
mod set_oracle;
mod set_settling;
mod set_sources;
mod set_specs;
mod set_users;
mod set_waves;
mod timeline;
mod workloads;
mod world;

use std::{collections::BTreeMap, time::Duration};

use rand::RngExt;
use tokio::time::{Instant, sleep};

use world::World;

/// How many steps one round has; operations happen in a step.
const STEPS: std::ops::Range<usize> = 10..50;
/// Rounds: random operations, and then healing.
const ROUNDS: std::ops::RangeInclusive<usize> = 1..=2;
/// How long members may take to converge after healing: the longest silence of a watch (five
/// minutes), a reconnect, and the longest pauses of retries.
const DEADLINE: Duration = Duration::from_mins(20);
/// How long nothing may be written until members count as converged: one that is not connected is
/// tried again within 36 s.
const STABLE: Duration = Duration::from_mins(1);
/// How long nothing may be written when everything is as it shall be.
const QUIET: Duration = Duration::from_mins(1);
/// How long a new operator may take to connect and to read everything.
const START: Duration = Duration::from_secs(90);

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How often each fault of a server took effect, by name.
    pub struck: BTreeMap<String, u64>,
    /// Number of operations.
    pub operations: u64,
    /// The longest simulated time from healing until members are as they shall be.
    pub convergence: Duration,
}

/// The operations and faults that have to take place in a sufficient number of runs.
pub fn all_operations() -> Vec<String> {
    let operations = operations::OPERATIONS.iter();
    let operations = operations.chain(&set_operations::SET_OPERATIONS);
    operations
        .map(|name| format!("distribution: {name}"))
        .collect()
}

/// Runs one seed. `has_sets`: whether users have sets besides.
pub async fn simulate(seed: u64, has_sets: bool) -> anyhow::Result<Outcome> {
    let mut world = World::new(seed, has_sets)?;
    let result = world.run().await;
    let mut outcome = world.outcome();
    outcome.convergence = result?;
    Ok(outcome)
}

impl World {
    async fn run(&mut self) -> anyhow::Result<Duration> {
        let mut longest = Duration::ZERO;
        for round in 0..self.random.random_range(ROUNDS) {
            for step in 0..self.random.random_range(STEPS) {
                tracing::info!(round, step, "step");
                for _ in 0..self.random.random_range(0..3) {
                    self.evaluate()?;
                    self.operate().await?;
                }
                self.evaluate()?;
                let pause = self.random.random_range(0..4_000);
                sleep(Duration::from_millis(pause)).await;
                self.run_workloads()?;
                self.check()?;
            }
            tracing::info!("healing");
            self.heal();
            self.settle_sets()?;
            let healed = Instant::now();
            self.converge("after the healing").await?;
            longest = longest.max(healed.elapsed());
            self.guard.forget_allowances();
            self.evaluate()?;
            self.stay_quiet("when everything is as it shall be").await?;
        }
        self.restart_operators().await;
        self.stay_quiet("after a restart").await?;
        self.brake().await?;
        for operator in std::mem::take(&mut self.operators) {
            operator.stop().await?;
        }
        Ok(longest)
    }

    /// Waits until everything is as it shall be, and stays so.
    async fn converge(&mut self, when: &str) -> anyhow::Result<()> {
        let started = Instant::now();
        let mut right_since: Option<Instant> = None;
        let mut writes = 0;
        loop {
            self.check()?;
            self.let_go()?;
            self.run_workloads()?;
            self.attend_sets()?;
            let differences = self.differences()?;
            let written = std::mem::replace(&mut writes, self.guard.writes().0);
            if differences.is_empty() && written == writes {
                let since = *right_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= STABLE {
                    return Ok(());
                }
            } else {
                anyhow::ensure!(
                    started.elapsed() < DEADLINE,
                    "{when}, {} min later:\n  {}",
                    DEADLINE.as_secs() / 60,
                    differences.join("\n  ")
                );
                right_since = None;
            }
            sleep(Duration::from_secs(5)).await;
        }
    }

    /// Fails if anything is written.
    async fn stay_quiet(&mut self, when: &str) -> anyhow::Result<()> {
        let time = if when.contains("restart") {
            START + QUIET
        } else {
            QUIET
        };
        let (before, _) = self.guard.writes();
        sleep(time).await;
        self.check()?;
        let (after, last) = self.guard.writes();
        anyhow::ensure!(
            before == after,
            "{when}, {} writes were sent within {} s, the last one {last}",
            after - before,
            time.as_secs()
        );
        let differences = self.differences()?;
        anyhow::ensure!(
            differences.is_empty(),
            "{when}, nothing was written, and\n  {}",
            differences.join("\n  ")
        );
        Ok(())
    }

    fn outcome(&self) -> Outcome {
        let mut struck: BTreeMap<String, u64> = BTreeMap::new();
        for server in self.members.values().chain([&self.control_plane]) {
            for (kind, count) in server.strikes() {
                *struck.entry(format!("apiserver: {kind:?}")).or_default() += count;
            }
        }
        for (operation, count) in &self.operations {
            struck.insert(format!("distribution: {operation}"), *count);
        }
        Outcome {
            struck,
            operations: self.operations.values().sum(),
            convergence: Duration::ZERO,
        }
    }
}
