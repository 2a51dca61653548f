//! The faults of a soak, one after the other in random order. Each is healed before the next one begins.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Value, json};

use super::scene::MEMBERS;
use super::scene::Scene;
use crate::{
    fleet::{ApiServer, unique},
    objects::{Objects, service_account_path},
    oracle::revisions,
    poll::eventually,
    proxy::{Fault, FaultProxy},
    scenario::{PATIENCE, secret_path},
};

/// How long a fault lasts.
const SECONDS: std::ops::Range<f64> = 0.5..15.0;
/// How many connections are cut, and how far apart.
const CUTS: u32 = 5;
const BETWEEN_CUTS: Duration = Duration::from_millis(700);
const LATENCY: Duration = Duration::from_millis(50);
/// Of an answer, so much gets through.
const SOME_BYTES: std::ops::Range<u64> = 200..100_000;

/// What is done to the servers and the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ApiserverKilled,
    EtcdCompacted,
    StoreKilled,
    WritesBlocked,
    IndexDeleted,
    MemberCut,
    MemberSilent,
    MemberSlow,
    MemberResets,
    StoreCut,
    StoreSilent,
    StoreSlow,
    StoreResets,
    OperatorKilled,
    OperatorStopped,
    TokenRotated,
    StoreLongGone,
}

impl Kind {
    /// All that come in random order, and last for some seconds.
    pub const ALL: [Self; 16] = [
        Self::ApiserverKilled,
        Self::EtcdCompacted,
        Self::StoreKilled,
        Self::WritesBlocked,
        Self::IndexDeleted,
        Self::MemberCut,
        Self::MemberSilent,
        Self::MemberSlow,
        Self::MemberResets,
        Self::StoreCut,
        Self::StoreSilent,
        Self::StoreSlow,
        Self::StoreResets,
        Self::OperatorKilled,
        Self::OperatorStopped,
        Self::TokenRotated,
    ];
}

impl Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::ApiserverKilled => "apiserver killed",
            Self::EtcdCompacted => "etcd compacted",
            Self::StoreKilled => "OpenSearch killed",
            Self::WritesBlocked => "writes blocked",
            Self::IndexDeleted => "index deleted",
            Self::MemberCut => "member's connections cut",
            Self::MemberSilent => "member black-holed",
            Self::MemberSlow => "member slow",
            Self::MemberResets => "member's answers broken off",
            Self::StoreCut => "OpenSearch's connections cut",
            Self::StoreSilent => "OpenSearch black-holed",
            Self::StoreSlow => "OpenSearch slow",
            Self::StoreResets => "OpenSearch's answers broken off",
            Self::OperatorKilled => "operator killed",
            Self::OperatorStopped => "operator stopped",
            Self::TokenRotated => "token rotated",
            Self::StoreLongGone => "OpenSearch long gone",
        })
    }
}

/// One fault with all its random numbers.
#[derive(Debug)]
struct Hazard {
    kind: Kind,
    /// The member that is hit, from 0.
    member: usize,
    lasts: Duration,
    bytes: u64,
}

/// Makes faults from a seed and counts them.
#[derive(Debug)]
pub struct Hazards {
    started: Instant,
    random: StdRng,
    /// Every kind comes once before any comes again.
    next: Vec<Kind>,
    done: BTreeMap<Kind, u32>,
}

impl Hazards {
    pub fn new(seed: u64) -> Self {
        Self {
            started: Instant::now(),
            random: StdRng::seed_from_u64(seed),
            next: Vec::new(),
            done: BTreeMap::new(),
        }
    }

    /// When the first one could begin.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// OpenSearch is killed, and comes back after a time in which every member forgets its history: no watch can go on from what was stored before,
    /// and what was deleted meanwhile is known by new lists alone.
    pub async fn lose_store_for(&mut self, scene: &Scene, outage: Duration) -> Result<()> {
        println!(
            "{:>5} s  {} ({} s)",
            self.started.elapsed().as_secs(),
            Kind::StoreLongGone,
            outage.as_secs()
        );
        let server = scene.fleet.opensearch()?;
        server.kill();
        tokio::time::sleep(outage / 2).await;
        for (number, member) in (1..).zip(scene.fleet.members()) {
            scene.fleet.etcd_of(number).compact().await?;
            member.restart().await?;
        }
        tokio::time::sleep(outage / 2).await;
        server.restart().await?;
        *self.done.entry(Kind::StoreLongGone).or_default() += 1;
        Ok(())
    }

    /// How many faults of each kind there were.
    pub fn counts(&self) -> BTreeMap<Kind, u32> {
        self.done.clone()
    }

    /// One fault after the other, `every` so often, as long as there is time for one.
    pub async fn go_on(&mut self, scene: &Scene, every: Duration, until: Instant) -> Result<()> {
        let mut next = Instant::now();
        loop {
            tokio::time::sleep_until(next.into()).await;
            if Instant::now() + every > until {
                tokio::time::sleep_until(until.into()).await;
                return Ok(());
            }
            let hazard = self.draw();
            let seconds = self.started.elapsed().as_secs();
            println!(
                "{seconds:>5} s  {} (member{}, {:.1} s)",
                hazard.kind,
                hazard.member + 1,
                hazard.lasts.as_secs_f64()
            );
            hazard
                .strike(scene)
                .await
                .with_context(|| format!("fault: {}", hazard.kind))?;
            *self.done.entry(hazard.kind).or_default() += 1;
            // One that took longer than its time does not make the next ones hurry.
            next = (next + every).max(Instant::now());
        }
    }

    fn draw(&mut self) -> Hazard {
        if self.next.is_empty() {
            self.next = Kind::ALL.to_vec();
            self.next.shuffle(&mut self.random);
        }
        Hazard {
            kind: self.next.pop().unwrap_or(Kind::OperatorKilled),
            member: self.random.random_range(0..MEMBERS),
            lasts: Duration::from_secs_f64(self.random.random_range(SECONDS)),
            bytes: self.random.random_range(SOME_BYTES),
        }
    }
}

impl Hazard {
    /// Begins the fault, waits, and heals it.
    async fn strike(&self, scene: &Scene) -> Result<()> {
        let server = scene.fleet.member(self.member + 1)?;
        let member = &scene.members[self.member];
        let store = &scene.store;
        match self.kind {
            Kind::ApiserverKilled => self.kill_apiserver(server).await,
            Kind::EtcdCompacted => self.compact(scene, server).await,
            Kind::StoreKilled => self.kill_store(scene).await,
            Kind::WritesBlocked => self.block_writes(scene).await,
            Kind::IndexDeleted => delete_index(scene, server.name()).await,
            Kind::MemberCut => cut(member).await,
            Kind::MemberSilent => self.disturb(member, Fault::BlackHole).await,
            Kind::MemberSlow => self.disturb(member, Fault::Delay(LATENCY)).await,
            Kind::MemberResets => self.disturb(member, Fault::ResetAfter(self.bytes)).await,
            Kind::StoreCut => cut(store).await,
            Kind::StoreSilent => self.disturb(store, Fault::BlackHole).await,
            Kind::StoreSlow => self.disturb(store, Fault::Delay(LATENCY)).await,
            Kind::StoreResets => self.disturb(store, Fault::ResetAfter(self.bytes)).await,
            Kind::OperatorKilled => self.kill_operator(scene).await,
            Kind::OperatorStopped => self.stop_operator(scene).await,
            Kind::TokenRotated => rotate_token(scene, self.member, server).await,
            // It is no hazard that is drawn.
            Kind::StoreLongGone => Ok(()),
        }
    }

    async fn last(&self) {
        tokio::time::sleep(self.lasts).await;
    }

    async fn disturb(&self, proxy: &FaultProxy, fault: Fault) -> Result<()> {
        proxy.set(fault);
        self.last().await;
        proxy.set(Fault::None);
        Ok(())
    }

    async fn kill_apiserver(&self, server: &ApiServer) -> Result<()> {
        server.kill();
        self.last().await;
        server.restart().await
    }

    /// What the operator has not seen yet cannot be watched any more.
    async fn compact(&self, scene: &Scene, server: &ApiServer) -> Result<()> {
        let proxy = &scene.members[self.member];
        proxy.set(Fault::Refuse);
        self.last().await;
        scene.fleet.etcd_of(self.member + 1).compact().await?;
        server.restart().await?;
        proxy.set(Fault::None);
        Ok(())
    }

    async fn kill_store(&self, scene: &Scene) -> Result<()> {
        let server = scene.fleet.opensearch()?;
        server.kill();
        self.last().await;
        server.restart().await
    }

    async fn block_writes(&self, scene: &Scene) -> Result<()> {
        let client = scene.fleet.opensearch()?.client()?;
        let path = format!("{}-*.g*/_settings", scene.registry.prefix);
        client
            .put(&path, &json!({ "index.blocks.write": true }))
            .await?;
        self.last().await;
        let lifted = json!({ "index.blocks.write": null });
        let lift = || client.put(&path, &lifted);
        eventually("the write block is lifted", PATIENCE, lift)
            .await
            .map(drop)
    }

    async fn kill_operator(&self, scene: &Scene) -> Result<()> {
        scene.operator.kill();
        self.last().await;
        scene.operator.restart()
    }

    async fn stop_operator(&self, scene: &Scene) -> Result<()> {
        scene.operator.process().pause()?;
        self.last().await;
        scene.operator.process().resume()
    }
}

async fn cut(proxy: &FaultProxy) -> Result<()> {
    for _ in 0..CUTS {
        proxy.cut();
        tokio::time::sleep(BETWEEN_CUTS).await;
    }
    Ok(())
}

async fn delete_index(scene: &Scene, cluster: &str) -> Result<()> {
    let client = scene.fleet.opensearch()?.client()?;
    for index in revisions(&client, &scene.registry.prefix, cluster).await? {
        client.delete(&index).await?;
    }
    Ok(())
}

/// A new account and its token; the old account goes, so that its token is worth nothing.
async fn rotate_token(scene: &Scene, member: usize, server: &ApiServer) -> Result<()> {
    let objects = Objects::of(server)?;
    let accounts = objects
        .get("api/v1/namespaces/default/serviceaccounts")
        .await?;
    let old: Vec<String> = names(&accounts)
        .filter(|name| name.starts_with(ACCOUNT))
        .collect();
    let token = objects.service_account_token(&unique(ACCOUNT)).await?;
    for name in old {
        objects.delete(&service_account_path(&name)).await?;
    }
    // Connections that go on were let in with the old one.
    scene.members[member].cut();
    let secret = json!({ "data": { "token": STANDARD.encode(token) } });
    let hub = Objects::of(scene.fleet.control_plane())?;
    hub.merge(&secret_path(server.name()), &secret)
        .await
        .map(drop)
}

/// What the operator's accounts at the members are called.
pub const ACCOUNT: &str = "operator";

fn names(list: &Value) -> impl Iterator<Item = String> {
    let items = list["items"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    items
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned))
}
