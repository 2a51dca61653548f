//! A watch over the logs of several stores.
//!
//! The numbers of all logs are one sequence, so events are told in the order of their numbers: one of a log is told when no other log can
//! have an earlier one any more. So a watch that goes on from any of them misses nothing of any log.

use std::collections::VecDeque;

use fleetdex_core::model::FleetVersion;
use futures::{FutureExt as _, future::select_all};
use tokio::task::{unconstrained, yield_now};

use super::{Event, Sequence, Watch};
use crate::StoreError;

/// Follows the changes of what a query selects, in one log or in several.
pub struct MergedWatch {
    logs: Vec<Following>,
    sequence: Sequence,
    /// Everything up to this number has been told.
    position: u64,
}

/// One log.
struct Following {
    watch: Watch,
    /// What has not been told yet.
    events: VecDeque<Event>,
    /// No event up to this number is missing from `events`.
    reaches_to: u64,
}

impl MergedWatch {
    /// Watches that all begin after a number.
    pub fn new(watches: Vec<Watch>, sequence: Sequence, after: u64) -> Self {
        let following = |watch| Following {
            watch,
            events: VecDeque::new(),
            reaches_to: after,
        };
        Self {
            logs: watches.into_iter().map(following).collect(),
            sequence,
            position: after,
        }
    }

    /// The version of the fleet up to which everything has been told.
    pub fn version(&self) -> FleetVersion {
        match self.logs.as_slice() {
            [only] => only.watch.version(),
            _ => self.sequence.version(self.position),
        }
    }

    /// The next events; waits for them. May be dropped and called again without loss.
    pub async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        if let [only] = self.logs.as_mut_slice() {
            return only.watch.next().await;
        }
        loop {
            for log in &mut self.logs {
                log.look()?;
            }
            let events = self.take_settled();
            if !events.is_empty() {
                return Ok(events);
            }
            if self.logs.iter().any(|log| !log.events.is_empty()) {
                // A change came while another log was looked at.
                yield_now().await;
                continue;
            }
            let news = self.logs.iter_mut().map(|log| log.wait().boxed());
            let (waited, ..) = select_all(news).await;
            waited?;
        }
    }

    /// Events with numbers up to which all logs are known, in order.
    fn take_settled(&mut self) -> Vec<Event> {
        let settled = self
            .logs
            .iter()
            .map(|log| log.reaches_to)
            .min()
            .unwrap_or(self.position);
        let mut events: Vec<Event> = Vec::new();
        for log in &mut self.logs {
            let count = log
                .events
                .iter()
                .take_while(|event| event.sequence <= settled)
                .count();
            events.extend(log.events.drain(..count));
        }
        events.sort_by_key(|event| event.sequence);
        self.position = self.position.max(settled);
        events
    }
}

impl Following {
    /// Takes what there is, unless something is left of what was taken before.
    fn look(&mut self) -> Result<(), StoreError> {
        if !self.events.is_empty() {
            return Ok(());
        }
        // Not constrained: that nothing comes has to mean that everything has been looked at.
        if let Some(events) = unconstrained(self.watch.next()).now_or_never() {
            self.take(events?);
        } else {
            self.reaches_to = self.watch.reaches_to();
        }
        Ok(())
    }

    async fn wait(&mut self) -> Result<(), StoreError> {
        let events = self.watch.next().await?;
        self.take(events);
        Ok(())
    }

    fn take(&mut self, events: Vec<Event>) {
        self.events.extend(events);
        self.reaches_to = self.watch.sequence();
    }
}
