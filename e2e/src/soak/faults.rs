//! The faults of a soak, one after the other in random order. Each is healed before the next one
//! begins.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Value, json};

use super::fixture::{Fixture, MEMBERS};
use crate::{
    fleet::{ApiServer, unique},
    objects::{Objects, service_account_path},
    oracle::revisions,
    proxy::{Fault, FaultProxy},
    scenario::{secret_path, until},
};

/// How long a fault lasts.
const SECONDS: std::ops::Range<f64> = 0.5..15.0;
/// How often connections are cut, and the pause between two cuts.
const CUTS: u32 = 5;
const BETWEEN_CUTS: Duration = Duration::from_millis(700);
const LATENCY: Duration = Duration::from_millis(50);
/// How many bytes of a response pass.
const SOME_BYTES: std::ops::Range<u64> = 200..100_000;

/// The kinds of faults.
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
    /// Those that come in random order, and last for some seconds.
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

/// One fault with its random parameters.
#[derive(Debug)]
struct ScheduledFault {
    kind: Kind,
    /// The member that is hit, from 0.
    member: usize,
    lasts: Duration,
    bytes: u64,
}

/// Draws faults from a seed and counts them.
#[derive(Debug)]
pub struct FaultSchedule {
    started: Instant,
    random: StdRng,
    /// Kinds that are left of this round: every kind comes once before any comes again.
    next: Vec<Kind>,
    done: BTreeMap<Kind, u32>,
}

impl FaultSchedule {
    pub fn new(seed: u64) -> Self {
        Self {
            started: Instant::now(),
            random: StdRng::seed_from_u64(seed),
            next: Vec::new(),
            done: BTreeMap::new(),
        }
    }

    /// When the schedule started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Kills OpenSearch and restarts it after a time in which every member compacts its history: no
    /// watch can resume from a stored checkpoint, and only new lists reveal what was deleted
    /// meanwhile.
    pub async fn long_store_outage(&mut self, fixture: &Fixture, outage: Duration) -> Result<()> {
        println!(
            "{:>5} s  {} ({} s)",
            self.started.elapsed().as_secs(),
            Kind::StoreLongGone,
            outage.as_secs()
        );
        let server = fixture.fleet.opensearch()?;
        server.kill();
        tokio::time::sleep(outage / 2).await;
        for (number, member) in (1..).zip(fixture.fleet.members()) {
            fixture.fleet.etcd_of(number).compact().await?;
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

    /// Injects one fault after the other, one per `every`, until there is no time for another one.
    pub async fn run_until(
        &mut self,
        fixture: &Fixture,
        every: Duration,
        until: Instant,
    ) -> Result<()> {
        let mut next = Instant::now();
        loop {
            tokio::time::sleep_until(next.into()).await;
            if Instant::now() + every > until {
                tokio::time::sleep_until(until.into()).await;
                return Ok(());
            }
            let fault = self.draw();
            let seconds = self.started.elapsed().as_secs();
            println!(
                "{seconds:>5} s  {} (member{}, {:.1} s)",
                fault.kind,
                fault.member + 1,
                fault.lasts.as_secs_f64()
            );
            fault
                .inject(fixture)
                .await
                .with_context(|| format!("fault: {}", fault.kind))?;
            *self.done.entry(fault.kind).or_default() += 1;
            // A fault that took longer than `every` does not shorten the following ones.
            next = (next + every).max(Instant::now());
        }
    }

    fn draw(&mut self) -> ScheduledFault {
        if self.next.is_empty() {
            self.next = Kind::ALL.to_vec();
            self.next.shuffle(&mut self.random);
        }
        ScheduledFault {
            kind: self.next.pop().unwrap_or(Kind::OperatorKilled),
            member: self.random.random_range(0..MEMBERS),
            lasts: Duration::from_secs_f64(self.random.random_range(SECONDS)),
            bytes: self.random.random_range(SOME_BYTES),
        }
    }
}

impl ScheduledFault {
    /// Starts the fault, waits, and ends it.
    async fn inject(&self, fixture: &Fixture) -> Result<()> {
        let server = fixture.fleet.member(self.member + 1);
        let member = &fixture.members[self.member];
        let store = &fixture.store;
        match self.kind {
            Kind::ApiserverKilled => self.kill_apiserver(server).await,
            Kind::EtcdCompacted => self.compact(fixture, server).await,
            Kind::StoreKilled => self.kill_store(fixture).await,
            Kind::WritesBlocked => self.block_writes(fixture).await,
            Kind::IndexDeleted => delete_index(fixture, server.name()).await,
            Kind::MemberCut => cut(member).await,
            Kind::MemberSilent => self.set_on(member, Fault::BlackHole).await,
            Kind::MemberSlow => self.set_on(member, Fault::Delay(LATENCY)).await,
            Kind::MemberResets => self.set_on(member, Fault::ResetAfter(self.bytes)).await,
            Kind::StoreCut => cut(store).await,
            Kind::StoreSilent => self.set_on(store, Fault::BlackHole).await,
            Kind::StoreSlow => self.set_on(store, Fault::Delay(LATENCY)).await,
            Kind::StoreResets => self.set_on(store, Fault::ResetAfter(self.bytes)).await,
            Kind::OperatorKilled => self.kill_operator(fixture).await,
            Kind::OperatorStopped => self.stop_operator(fixture).await,
            Kind::TokenRotated => rotate_token(fixture, self.member, server).await,
            // It is never drawn.
            Kind::StoreLongGone => Ok(()),
        }
    }

    async fn hold(&self) {
        tokio::time::sleep(self.lasts).await;
    }

    async fn set_on(&self, proxy: &FaultProxy, fault: Fault) -> Result<()> {
        proxy.set(fault);
        self.hold().await;
        proxy.set(Fault::None);
        Ok(())
    }

    async fn kill_apiserver(&self, server: &ApiServer) -> Result<()> {
        server.kill();
        self.hold().await;
        server.restart().await
    }

    /// Events that the operator has not received can no longer be watched.
    async fn compact(&self, fixture: &Fixture, server: &ApiServer) -> Result<()> {
        let proxy = &fixture.members[self.member];
        proxy.set(Fault::Refuse);
        self.hold().await;
        fixture.fleet.etcd_of(self.member + 1).compact().await?;
        server.restart().await?;
        proxy.set(Fault::None);
        Ok(())
    }

    async fn kill_store(&self, fixture: &Fixture) -> Result<()> {
        let server = fixture.fleet.opensearch()?;
        server.kill();
        self.hold().await;
        server.restart().await
    }

    async fn block_writes(&self, fixture: &Fixture) -> Result<()> {
        let client = fixture.fleet.opensearch()?.client()?;
        let path = format!("{}-*.g*/_settings", fixture.registry.prefix);
        client
            .put(&path, &json!({ "index.blocks.write": true }))
            .await?;
        self.hold().await;
        let lifted = json!({ "index.blocks.write": null });
        let lift = || client.put(&path, &lifted);
        until("the write block is lifted", lift).await.map(drop)
    }

    async fn kill_operator(&self, fixture: &Fixture) -> Result<()> {
        fixture.operator.kill();
        self.hold().await;
        fixture.operator.restart()
    }

    async fn stop_operator(&self, fixture: &Fixture) -> Result<()> {
        fixture.operator.process().pause()?;
        self.hold().await;
        fixture.operator.process().resume()
    }
}

async fn cut(proxy: &FaultProxy) -> Result<()> {
    for _ in 0..CUTS {
        proxy.cut();
        tokio::time::sleep(BETWEEN_CUTS).await;
    }
    Ok(())
}

async fn delete_index(fixture: &Fixture, cluster: &str) -> Result<()> {
    let client = fixture.fleet.opensearch()?.client()?;
    for index in revisions(&client, &fixture.registry.prefix, cluster).await? {
        client.delete(&index).await?;
    }
    Ok(())
}

/// Creates a new account with a token and deletes the old account, which invalidates its token.
async fn rotate_token(fixture: &Fixture, member: usize, server: &ApiServer) -> Result<()> {
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
    // Open connections were authenticated with the old one.
    fixture.members[member].cut();
    let secret = json!({ "data": { "token": STANDARD.encode(token) } });
    let hub = Objects::of(fixture.fleet.control_plane())?;
    hub.merge(&secret_path(server.name()), &secret)
        .await
        .map(drop)
}

/// The name prefix of the operator's accounts at the members.
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
