//! The points in time of the cluster: their views and keep-alives.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::index::View;

/// All points in time that were ever opened.
#[derive(Debug, Default)]
pub(super) struct PointsInTime {
    /// By number. Closed ones stay without their views, because the error for them depends on their
    /// indices.
    pub points: BTreeMap<u64, PointInTime>,
    opened: u64,
}

/// A point in time.
#[derive(Debug)]
pub(super) struct PointInTime {
    /// Name and uuid of each index.
    pub indices: Vec<(String, String)>,
    /// `None` if closed.
    pub views: Option<Vec<View>>,
    pub keep_alive: Duration,
    pub used: Instant,
}

impl PointsInTime {
    /// Opens a point in time. Returns its number.
    pub fn add(&mut self, views: Vec<View>, keep_alive: Duration, now: Instant) -> u64 {
        self.opened += 1;
        let indices = views
            .iter()
            .map(|view| (view.index.clone(), view.uuid.clone()))
            .collect();
        self.points.insert(
            self.opened,
            PointInTime {
                indices,
                views: Some(views),
                keep_alive,
                used: now,
            },
        );
        self.opened
    }

    /// Closes points in time whose keep-alive has expired.
    pub fn expire(&mut self, now: Instant) {
        for point in self.points.values_mut() {
            if now.duration_since(point.used) > point.keep_alive {
                point.views = None;
            }
        }
    }

    /// Returns the number of open contexts: one per shard of each point in time.
    pub fn open(&mut self, now: Instant) -> u64 {
        self.expire(now);
        self.points
            .values()
            .filter_map(|point| point.views.as_ref())
            .flatten()
            .map(|view| view.shards)
            .sum()
    }

    /// Closes all points in time.
    pub fn close_all(&mut self) {
        self.points
            .values_mut()
            .for_each(|point| point.views = None);
    }
}
