//! Raw `_bulk` that updates random documents of an index of its own, without Fleetdex.

use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use fleetdex_store::bulk::{self, Write};
use futures::{StreamExt, TryStreamExt, stream};
use rand::{SeedableRng, rngs::StdRng};

use super::raw::{self, Target};
use crate::fleet::Fleet;

/// Bytes of a batch, as Fleetdex sends them.
pub(super) const BATCH_BYTES: usize = 2 << 20;

/// Raw updates of the documents of an index.
pub(super) struct RawUpdates {
    target: Target,
    writes: Vec<Write>,
    /// Documents per batch.
    batch: usize,
    version: u64,
    random: StdRng,
}

impl RawUpdates {
    /// Fills an index with the documents of these lines of a watch.
    pub(super) async fn open(fleet: &Fleet, lines: &[Vec<u8>]) -> Result<Self> {
        let target = Target::open(fleet, "rawupdates").await?;
        let writes = target.writes(lines)?;
        let batches = raw::batches(&writes, BATCH_BYTES);
        for batch in &batches {
            target
                .send(bulk::encode(&writes[batch.clone()]).body, batch.len())
                .await?;
        }
        target.activate().await?;
        let version = writes
            .iter()
            .map(|write| write.document.version.get())
            .max()
            .unwrap_or_default();
        Ok(Self {
            batch: writes.len() / batches.len(),
            target,
            writes,
            version,
            random: StdRng::seed_from_u64(1),
        })
    }

    /// An encoded batch of new versions of random documents.
    fn next_batch(&mut self) -> Result<Bytes> {
        let chosen = rand::seq::index::sample(&mut self.random, self.writes.len(), self.batch);
        let mut writes: Vec<Write> = chosen
            .iter()
            .map(|position| self.writes[position].clone())
            .collect();
        for write in &mut writes {
            self.version += 1;
            write.document.version = self.version.to_string().parse()?;
        }
        Ok(bulk::encode(&writes).body)
    }

    /// Writes for `duration`. Returns the documents per second.
    pub(super) async fn update_for(
        &mut self,
        connections: usize,
        duration: Duration,
    ) -> Result<f64> {
        let started = Instant::now();
        let sent = self
            .update_while(connections, |_| started.elapsed() < duration)
            .await?;
        Ok(sent as f64 / started.elapsed().as_secs_f64())
    }

    /// Writes `documents` documents, rounded up to whole batches. Returns how long that took.
    pub(super) async fn update_documents(
        &mut self,
        connections: usize,
        documents: f64,
    ) -> Result<Duration> {
        let started = Instant::now();
        self.update_while(connections, |begun| (begun as f64) < documents)
            .await?;
        Ok(started.elapsed())
    }

    /// Writes while `goes_on`, given the number of documents whose writing has begun. Returns that
    /// number at the end.
    async fn update_while(
        &mut self,
        connections: usize,
        goes_on: impl Fn(usize) -> bool,
    ) -> Result<usize> {
        let (target, count) = (self.target.clone(), self.batch);
        let mut begun = 0;
        let bodies = std::iter::from_fn(|| {
            goes_on(begun).then(|| {
                begun += count;
                self.next_batch()
            })
        });
        let send = async |body: Result<Bytes>| target.send(body?, count).await;
        let answers = stream::iter(bodies).map(send).buffer_unordered(connections);
        answers.try_collect::<()>().await?;
        Ok(begun)
    }

    /// Deletes the index.
    pub(super) async fn remove(self) -> Result<()> {
        self.target.remove().await
    }
}
