//! The task of one unit: lists and watches it, and writes every change to the store.
//!
//! A unit is one kind of one cluster, in one namespace or in all: what one list and watch stream
//! serves.

mod end;
mod line;
mod list;
mod listing;
mod other_rules;
mod runner;
mod task;

use std::sync::Arc;

use end::{Interruption, UnitEnd};
use fleetdex_clusters::watch::ListWatchMachine;
use fleetdex_core::model::Version;
use futures::future::OptionFuture;
use listing::Listing;
use runner::{MAX_STREAM_DELAY, SkipLog, UnitRunner, stream_backoff};

pub use self::{other_rules::WITH_STATUS, task::UnitTask};
use super::{enrichment::EnrichmentGuard, progress::FailureCause};

/// Concurrent lists of one member. Each holds up to two pages in memory.
pub const LISTS_PER_CLUSTER: usize = 2;

impl UnitTask {
    /// Runs until it is stopped, or has to be started again: with another index revision, or by
    /// other rules.
    pub async fn run(self) {
        let (stop, unit) = (self.stop.clone(), self.unit.clone());
        let (audit, interval) = (Arc::clone(&self.audit), self.audit_interval);
        let audits = interval.map(async |interval| audit.repeat(interval).await);
        let _guard = self.enrichment.clone().map(EnrichmentGuard);
        let (enrichment, source) = (self.enrichment.clone(), self.source.clone());
        let passes = enrichment.map(async |enrichment| enrichment.run_passes(&source).await);
        let parts = async {
            tokio::select! {
                biased;
                end = self.run_stream() => tracing::debug!(%unit, ?end, "a stream starts again"),
                Some(never) = OptionFuture::from(audits) => match never {},
                Some(never) = OptionFuture::from(passes) => match never {},
            }
        };
        stop.run_until_cancelled(Box::pin(parts)).await;
    }

    async fn run_stream(self) -> UnitEnd {
        let mut backoff = stream_backoff();
        let revision = loop {
            // Boxed, as all that a stream does besides watching: most of the time it only watches.
            match Box::pin(self.open()).await {
                Ok(revision) => break revision,
                Err(Interruption::End(end)) => return end,
                Err(Interruption::Fault(error)) => {
                    self.progress
                        .failing(FailureCause::Store, error.reason(), error.to_string());
                    tokio::time::sleep(backoff.next().unwrap_or(MAX_STREAM_DELAY)).await;
                }
            }
        };
        self.progress.recovered();
        let resume = self.resume(&revision);
        if let Some(enrichment) = &self.enrichment {
            enrichment.opened(&revision.target, resume.is_some());
        }
        tracing::info!(unit = %self.unit, revision = revision.number, from = resume.map(Version::get), "starting a stream");
        let machine = ListWatchMachine::new(resume);
        let writes_again = resume.is_none();
        let mut runner = UnitRunner {
            task: self,
            revision,
            machine,
            backoff,
            list: Listing::default(),
            relist: None,
            writes_again,
            skips: SkipLog::default(),
            trace: None,
        };
        runner.run().await
    }
}

#[cfg(test)]
mod tests;
