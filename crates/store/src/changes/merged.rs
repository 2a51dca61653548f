//! A watch over the logs of several stores.
//!
//! The numbers of all logs are one sequence, so events are sent in the order of their numbers: an
//! event is sent once no other log can have an earlier one. A watch that continues from any of them
//! therefore misses nothing of any log.

use std::{collections::VecDeque, sync::Arc};

use fleetdex_core::{model::FleetVersion, query::Query};
use futures::{FutureExt as _, future::select_all};
use tokio::task::{unconstrained, yield_now};

use super::{Event, Log, Sequence, Watch, WatchError};
use crate::StoreError;

/// Follows the changes of the objects of queries, in one log or in several.
pub struct MergedWatch {
    logs: Vec<WatchedLog>,
    sequence: Sequence,
    /// Everything up to this number has been returned.
    position: u64,
}

/// The watch of one log.
struct WatchedLog {
    watch: Watch,
    /// Events that have not been returned yet.
    events: VecDeque<Event>,
    /// No event up to this number is missing from `events`.
    reaches_to: u64,
}

impl MergedWatch {
    /// Follows in each log the changes of the objects of some queries, each of another resource,
    /// after `after` and the writes in flight whose objects a list may already have shown.
    pub async fn begin(logs: &[(Arc<Log>, Vec<Query>)], after: u64) -> Result<Self, WatchError> {
        let mut watches = Vec::with_capacity(logs.len());
        for (log, queries) in logs {
            watches.push(if logs.len() == 1 {
                log.watch_settled(queries, after).await?
            } else {
                log.watch_behind(queries, after).await?
            });
        }
        let sequence = logs.first().map(|(log, _)| log.sequence().clone());
        let watched = |watch| WatchedLog {
            watch,
            events: VecDeque::new(),
            reaches_to: after,
        };
        Ok(Self {
            logs: watches.into_iter().map(watched).collect(),
            sequence: sequence.unwrap_or_default(),
            position: after,
        })
    }

    /// The fleet version up to which everything has been returned.
    pub fn version(&self) -> FleetVersion {
        match self.logs.as_slice() {
            [only] => only.watch.version(),
            _ => self.sequence.version(self.position),
        }
    }

    /// Waits for the next events. Cancel safe.
    pub async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        if let [only] = self.logs.as_mut_slice() {
            return only.watch.next().await;
        }
        loop {
            for log in &mut self.logs {
                log.poll()?;
            }
            let events = self.take_complete();
            if !events.is_empty() {
                return Ok(events);
            }
            if self.logs.iter().any(|log| !log.events.is_empty()) {
                // A change came while another log was read.
                yield_now().await;
                continue;
            }
            let waits = self.logs.iter_mut().map(|log| log.wait().boxed());
            let (waited, ..) = select_all(waits).await;
            waited?;
        }
    }

    /// Events up to the number that all logs have reached, in order.
    fn take_complete(&mut self) -> Vec<Event> {
        let complete = self
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
                .take_while(|event| event.sequence <= complete)
                .count();
            events.extend(log.events.drain(..count));
        }
        events.sort_by_key(|event| event.sequence);
        self.position = self.position.max(complete);
        events
    }
}

impl WatchedLog {
    /// Takes the available events, unless earlier ones are left.
    fn poll(&mut self) -> Result<(), StoreError> {
        if !self.events.is_empty() {
            return Ok(());
        }
        // `unconstrained`: otherwise tokio's cooperative budget could return Pending although
        // events are ready, and everything available has to be read.
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
