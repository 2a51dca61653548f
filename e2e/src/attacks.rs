//! Attacks that must not stop the operator: each by itself, and all at once, with limited memory.
//!
//! An [`Attack`] is data: objects that hostile members have, and requests of many users. [`all`]
//! has those of the second security review and others of their kinds; a test runs them briefly, and
//! `e2e attacks` as long as one likes, against any build (`FLEETDEX_BIN`).

mod attack;
mod bodies;
mod clients;
mod control_group;
mod front;
mod interpretation;
mod member;
mod memory;
mod names;
mod objects;
mod relations;
mod report;
mod scene;
mod searches;
mod tables;
mod texts;
mod volley;
mod watchdog;

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::future::try_join_all;
use tokio::time::{Instant, sleep};

pub use self::{
    attack::{Attack, AttackSize},
    report::{AttackReport, HEALTH_LIMIT, LIST_LIMIT, Outcome},
    scene::Scene,
};
use self::{interpretation::HostileWebhook, volley::Tally, watchdog::Watchdog};

/// The limit of memory of all attacks: that of the chart.
pub const LIMIT_MIB: u64 = 1_024;
/// How long the operator has to be right again after an attack.
const RECOVERY: Duration = Duration::from_secs(40);
/// How often objects change that change.
const CHANGE_INTERVAL: Duration = Duration::from_secs(1);
/// What tells how long one step of a task has kept a thread that serves.
const LONGEST_POLL: &str = "fleetdex_longest_poll_seconds{";
/// The name of all attacks at once.
const ALL: &str = "all";

/// What `e2e attacks` takes.
#[derive(clap::Args, Debug)]
pub struct AttackArgs {
    /// Only these, by name: h1,h2. `all` stands for all of them at once.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// How long each of them takes, and four times as long all at once.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// The limit of the operator's memory.
    #[arg(long, default_value_t = LIMIT_MIB)]
    limit_mib: u64,
    /// As large as in the test, and not as in the table of the review.
    #[arg(long)]
    brief: bool,
    /// Also show how good answers begin.
    #[arg(long)]
    verbose: bool,
}

/// Runs the command.
pub async fn run(args: AttackArgs) -> Result<()> {
    let size = if args.brief {
        AttackSize::Brief
    } else {
        AttackSize::Full
    };
    let seconds = Duration::from_secs(args.seconds);
    let plan = Plan {
        size,
        limit: args.limit_mib << 20,
        each: seconds,
        together: seconds * 4,
        only: args.only,
        shows_all: args.verbose,
    };
    let report = plan.run().await?;
    print!("{report}");
    let problems = report.problems();
    ensure!(problems.is_empty(), "\n{}", problems.join("\n"));
    Ok(())
}

/// Which attacks are run, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How large they are.
    pub size: AttackSize,
    /// The operator's memory in bytes.
    pub limit: u64,
    /// How long each of them takes.
    pub each: Duration,
    /// How long all of them take together.
    pub together: Duration,
    /// Names; empty: each, and all at once.
    pub only: Vec<String>,
    /// Whether the report shows how good answers begin.
    pub shows_all: bool,
}

impl Plan {
    /// Runs one attack after the other, and then all of them at once.
    pub async fn run(&self) -> Result<AttackReport> {
        let scene = Scene::start(self.limit, searches::kinds(self.size)).await?;
        let _webhook = HostileWebhook::start(&scene.hub).await?;
        let attacks = all(&scene, self.size).await?;
        let names: Vec<&str> = attacks.iter().map(|attack| attack.name).collect();
        for name in &self.only {
            if name != ALL && !names.contains(&name.as_str()) {
                bail!(
                    "there is no attack {name}; there are {}, {ALL}",
                    names.join(", ")
                );
            }
        }
        let is_wanted =
            |name: &str| self.only.is_empty() || self.only.iter().any(|one| one == name);
        let mut report = AttackReport {
            limited_by: scene.group.name(),
            outcomes: Vec::new(),
            longest_polls: Vec::new(),
            shows_all: self.shows_all,
        };
        for attack in attacks.iter().filter(|attack| is_wanted(attack.name)) {
            let one = std::slice::from_ref(attack);
            let outcome = self.attack(&scene, one, attack.name, attack.what, self.each);
            report.outcomes.push(shown(outcome.await?));
        }
        if is_wanted(ALL) {
            let mut at_once = attacks.clone();
            if self.only.len() > 1 {
                at_once.retain(|attack| is_wanted(attack.name));
            }
            let outcome = self.attack(&scene, &at_once, ALL, "all at once", self.together);
            report.outcomes.push(shown(outcome.await?));
        }
        report.longest_polls = match scene.operator.metrics().await {
            Ok(metrics) => {
                let lines = metrics.lines().map(str::to_owned);
                lines
                    .filter(|line| line.starts_with(LONGEST_POLL))
                    .collect()
            }
            // The outcomes say why.
            Err(error) => vec![format!("no longest polls: {error:#}")],
        };
        Ok(report)
    }

    /// Runs attacks at once.
    async fn attack(
        &self,
        scene: &Scene,
        attacks: &[Attack],
        name: &str,
        what: &str,
        time: Duration,
    ) -> Result<Outcome> {
        let pid = scene.running().await?;
        let watchdog = Watchdog::start(scene.watched(pid))?;
        for attack in attacks {
            scene.plant(&attack.planted)?;
        }
        let mut not_found = Vec::new();
        for attack in attacks {
            if let Some(probe) = &attack.probe
                && let Err(error) = scene.until_found(probe).await
            {
                not_found.push(format!("{}: {error:#}", attack.name));
            }
        }
        let deadline = Instant::now() + time;
        let tally = tokio::select! {
            tally = volleys(scene, attacks, deadline) => tally?,
            changed = change(scene, attacks) => { changed?; Tally::default() }
        };
        // Also the answers that are still being made when the clients have left.
        let seen = tokio::task::spawn_blocking(|| watchdog.stop())
            .await
            .context("the watchdog")??;
        let peak = memory::peak(pid);
        let end = match scene.operator.process().check_running() {
            Ok(()) => None,
            Err(error) => Some(format!("{error:#}")),
        };
        for attack in attacks {
            scene.remove(&attack.planted)?;
        }
        let is_same = scene.operator.process().pid() == Some(pid);
        let wrong_afterwards = match (is_same, scene.until_right(RECOVERY).await) {
            (false, _) => Some("there is no process".to_owned()),
            (true, Err(error)) => Some(format!("{error:#}")),
            (true, Ok(())) => None,
        };
        Ok(Outcome {
            name: name.to_owned(),
            what: what.to_owned(),
            tally,
            peak,
            limit: self.limit,
            seen,
            end,
            wrong_afterwards,
            not_found: (!not_found.is_empty()).then(|| not_found.join("; ")),
        })
    }
}

/// All attacks in the order of the table, each followed by others of its kind.
pub async fn all(scene: &Scene, size: AttackSize) -> Result<Vec<Attack>> {
    Ok(vec![
        interpretation::nested_bodies(),
        interpretation::aggregated_items(),
        relations::references(size),
        relations::monitors(size),
        tables::columns(size),
        tables::containers(size),
        searches::watched_words(size),
        relations::policies(size),
        objects::redacted_chains(size),
        objects::maps(size),
        interpretation::long_patch(),
        searches::typing(size),
        objects::merged(size),
        clients::links(&scene.hub).await?,
        bodies::json_patches(),
        bodies::other_patches(),
        clients::unread_lists(size),
        clients::unread_watches(size),
        searches::long_queries(size),
        searches::completions(size),
    ])
}

async fn volleys(scene: &Scene, attacks: &[Attack], deadline: Instant) -> Result<Tally> {
    let volleys = attacks.iter().flat_map(|attack| {
        attack
            .volleys
            .iter()
            .map(move |volley| (attack.name, volley))
    });
    let tallies =
        try_join_all(volleys.map(|(family, volley)| volley.run(&scene.front, family, deadline)));
    let mut sum = Tally::default();
    for tally in tallies.await? {
        sum.add(&tally);
    }
    Ok(sum)
}

/// Changes objects until the volleys are over.
async fn change(scene: &Scene, attacks: &[Attack]) -> Result<()> {
    for round in 0.. {
        sleep(CHANGE_INTERVAL).await;
        for attack in attacks {
            scene.change(&attack.planted, round)?;
        }
    }
    Ok(())
}

/// Tells at once what an attack did: a run takes minutes.
fn shown(outcome: Outcome) -> Outcome {
    let problems = outcome.problems();
    let one = AttackReport {
        outcomes: vec![outcome.clone()],
        ..AttackReport::default()
    };
    let text = one.to_string();
    let rows = text.lines().skip(3);
    for line in rows {
        println!("{line}");
    }
    for problem in problems {
        println!("  PROBLEM {problem}");
    }
    outcome
}
