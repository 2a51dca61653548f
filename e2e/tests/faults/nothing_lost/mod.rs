//! Nothing is lost: real faults, each under changes, and in the end the index holds exactly the objects of the clusters.
//!
//! Scenarios that run at a time have a fleet each. None asserts how long anything takes.

#![allow(clippy::unwrap_used, reason = "a test")]

mod connections;
mod credentials;
mod history;
mod operator;
mod registry;
mod store;

use e2e::{
    churn::{Churn, Running, Tally},
    fleet::unique,
    oracle::Oracle,
    scenario::{Registry, Stage, until_equal},
};
use serde_json::{Value, json};

const BOTH: [&str; 2] = ["member1", "member2"];
/// Objects that are written to, per member.
const NAMES: usize = 200;
/// Writes per second, per member.
const RATE: u32 = 60;

/// A fleet of two members, each with a history of its own.
async fn enter() -> Stage {
    Stage::enter().await.unwrap()
}

/// What is written, and indexed.
fn kinds() -> Value {
    json!([{ "apiVersion": "v1", "kind": "ConfigMap" }, { "apiVersion": "v1", "kind": "Secret" }])
}

/// Members by number with the names that they are registered under; a registry of them in sync; and writes to them.
struct Scene<'s> {
    stage: &'s Stage,
    registry: Registry,
    clusters: Vec<(usize, String)>,
    churns: Vec<Churn>,
}

impl<'s> Scene<'s> {
    /// Both members under their own names.
    async fn of_both(stage: &'s Stage, name: &str) -> Self {
        let clusters = (1..).zip(BOTH.map(str::to_owned)).collect();
        Self::new(stage, name, clusters, |_| ()).await
    }

    /// These members, in a registry with something else in its spec.
    async fn new(
        stage: &'s Stage,
        name: &str,
        clusters: Vec<(usize, String)>,
        change: impl FnOnce(&mut Registry),
    ) -> Self {
        let names: Vec<&str> = clusters.iter().map(|(_, name)| name.as_str()).collect();
        let mut registry = Registry::new(stage, name, &names, &kinds()).unwrap();
        change(&mut registry);
        let namespace = unique(name);
        let mut churns = Vec::new();
        for (number, _) in &clusters {
            let member = stage.fleet.member(*number).unwrap();
            let churn = Churn::new(member, &namespace, NAMES, RATE)
                .await
                .unwrap()
                .seeded(*number as u64);
            churn.begin().await.unwrap();
            churns.push(churn);
        }
        let scene = Self {
            stage,
            registry,
            clusters,
            churns,
        };
        scene.registry.apply().await.unwrap();
        scene.registry.until_ready().await.unwrap();
        scene.until_equal().await;
        scene
    }

    fn oracle(&self) -> Oracle {
        let mut oracle = self.registry.oracle();
        for (number, name) in &self.clusters {
            let member = self.stage.fleet.member(*number).unwrap();
            for collection in ["api/v1/configmaps", "api/v1/secrets"] {
                oracle = oracle.expects(name, member, collection).unwrap();
            }
        }
        oracle
    }

    async fn compare(&self) -> anyhow::Result<()> {
        self.oracle().compare().await.map(drop)
    }

    /// Whatever happened, what is stored is what there is.
    async fn until_equal(&self) -> usize {
        until_equal(&self.oracle()).await.unwrap()
    }

    /// The end of every scenario: everything is stored, the status says so, and nothing is left behind.
    async fn ends_well(&self) {
        self.until_equal().await;
        self.registry.until_ready().await.unwrap();
        self.registry.remove().await.unwrap();
    }

    fn start_churn(&self) -> Vec<Running> {
        self.churns.iter().map(Churn::start).collect()
    }

    /// The pattern of all its indices, finished or not.
    fn indices(&self) -> String {
        format!("{}-*.g*", self.registry.prefix)
    }
}

/// Waits until every churn has written that much more.
async fn go_on_for(churns: &[Running], writes: u64) {
    for churn in churns {
        churn.goes_on_for(writes).await;
    }
}

async fn stop(churns: Vec<Running>) -> Tally {
    let mut all = Tally::default();
    for churn in churns {
        all = all + churn.stop().await.unwrap();
    }
    eprintln!("{all:?}");
    assert!(
        all.created > 0 && all.updated > 0 && all.deleted > 0,
        "{all:?}"
    );
    all
}
