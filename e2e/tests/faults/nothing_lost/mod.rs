//! No change is lost: real faults during writes, after which the index must equal the objects of
//! the clusters.
//!
//! Concurrent tests have a fleet each. None asserts durations.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod connections;
mod credentials;
mod history;
mod nodes;
mod operator;
mod packing;
mod registry;
mod snapshots;
mod store;

use e2e::{
    churn::{Churn, Running, Tally},
    fleet::unique,
    oracle::Oracle,
    scenario::{Registry, Stage, until_equal},
    test_result::Tested,
};
use serde_json::{Value, json};

const BOTH: [&str; 2] = ["member1", "member2"];
const COLLECTIONS: [&str; 2] = ["api/v1/configmaps", "api/v1/secrets"];
/// Object names per member.
const NAMES: usize = 200;
/// Writes per second, per member.
const RATE: u32 = 60;

/// The kinds that are written and indexed.
fn kinds() -> Value {
    json!([{ "apiVersion": "v1", "kind": "ConfigMap" }, { "apiVersion": "v1", "kind": "Secret" }])
}

/// Members by number and registered name, a synced registry of them, and writes to them.
struct Fixture<'s> {
    stage: &'s Stage,
    registry: Registry,
    clusters: Vec<(usize, String)>,
    churns: Vec<Churn>,
}

impl<'s> Fixture<'s> {
    /// Both members under their own names.
    async fn both_members(stage: &'s Stage, name: &str) -> Self {
        let clusters = (1..).zip(BOTH.map(str::to_owned)).collect();
        Self::new(stage, name, clusters, |_| ()).await
    }

    /// These members, in a registry whose spec `change` edits.
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
            let member = stage.fleet.member(*number);
            let churn = Churn::new(member, &namespace, NAMES, RATE)
                .await
                .unwrap()
                .seeded(*number as u64);
            churn.begin().await.unwrap();
            churns.push(churn);
        }
        let fixture = Self {
            stage,
            registry,
            clusters,
            churns,
        };
        fixture.registry.apply_until_ready().await.unwrap();
        fixture.until_equal().await;
        fixture
    }

    fn oracle(&self) -> Oracle {
        let clusters = self.clusters.iter();
        let clusters = clusters.map(|(number, name)| (&**name, self.stage.fleet.member(*number)));
        self.registry.oracle().expects_all(clusters, &COLLECTIONS)
    }

    async fn compare(&self) -> anyhow::Result<()> {
        self.oracle().compare().await.map(drop)
    }

    /// Waits until the documents equal the members' objects.
    async fn until_equal(&self) -> usize {
        until_equal(&self.oracle()).await.unwrap()
    }

    /// The end of every test: everything is stored, the registry is ready, and its removal leaves
    /// nothing behind.
    async fn check_and_remove(&self) -> Tested {
        self.until_equal().await;
        self.registry.until_ready().await?;
        self.registry.remove().await?;
        Ok(())
    }

    fn start_churn(&self) -> Vec<Running> {
        self.churns.iter().map(Churn::start).collect()
    }

    /// The pattern of all its indices, complete or not.
    fn indices(&self) -> String {
        format!("{}-*.g*", self.registry.prefix)
    }
}

/// Waits until every churn has made this many more writes.
async fn until_written(churns: &[Running], writes: u64) {
    for churn in churns {
        churn.goes_on_for(writes).await;
    }
}

async fn stop(churns: Vec<Running>) -> Tested<Tally> {
    let mut all = Tally::default();
    for churn in churns {
        all = all + churn.stop().await?;
    }
    eprintln!("{all:?}");
    assert!(
        all.writes.created > 0 && all.writes.updated > 0 && all.writes.deleted > 0,
        "{all:?}"
    );
    Ok(all)
}
