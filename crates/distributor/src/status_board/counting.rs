//! What clusters have of several objects, in numbers.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::planted::{Bug, planted};
use fleetdex_distribution::{rollout::SetHealth, template_name::TemplateName};

use super::{CopyReport, StatusBoard};
use crate::published::PublishedPlan;

/// Bytes of a message of a cluster.
const LONGEST_MESSAGE: usize = 512;

/// What a cluster has of several objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterCount {
    /// How many it shall have.
    pub objects: i64,
    /// How many it has as they shall be.
    pub applied: i64,
    /// How many of these are not unhealthy.
    pub healthy: i64,
    /// Of how many it has not said yet how they are.
    pub unknown: i64,
    /// Why one is missing: the first.
    pub message: String,
    /// Why one is unhealthy: the first.
    pub cause: String,
}

impl ClusterCount {
    /// Whether it has all of them, and none is unhealthy.
    pub fn is_ready(&self) -> bool {
        self.healthy == self.objects
    }

    /// How the objects are, for a rollout.
    pub fn health(&self) -> SetHealth {
        let failed = [&self.message, &self.cause];
        let failed = failed.into_iter().find(|text| !text.is_empty());
        match failed {
            _ if self.is_ready() => SetHealth::Healthy,
            Some(reason) => SetHealth::Unhealthy(reason.clone()),
            None => SetHealth::Unknown,
        }
    }

    fn add(&mut self, name: &TemplateName, copy: &CopyReport) {
        self.applied += i64::from(copy.is_applied);
        let is_sick = copy.health == "Unhealthy";
        self.healthy += i64::from(copy.is_applied && !is_sick);
        if !copy.is_applied && self.message.is_empty() {
            self.message = shown(name, &copy.message);
        }
        if copy.is_applied && is_sick && self.cause.is_empty() {
            let cause = match copy.cause.as_str() {
                "" => "it is not healthy",
                cause => cause,
            };
            self.cause = shown(name, cause);
        }
    }
}

impl StatusBoard {
    /// Where the last plan places these objects, also where they wait for something.
    pub fn clusters_of(&self, names: &[TemplateName]) -> BTreeSet<String> {
        let state = self.state.lock();
        let planned = names.iter().filter_map(|name| state.bindings.get(name));
        let targets = planned.flat_map(|(planned, _)| &planned.clusters);
        targets.map(|target| target.name.clone()).collect()
    }

    /// What clusters have of these objects by a plan. What a cluster has said of another plan's
    /// object counts as not known.
    pub fn count(
        &self,
        names: &[TemplateName],
        published: &PublishedPlan,
    ) -> BTreeMap<String, ClusterCount> {
        let state = self.state.lock();
        let mut counts: BTreeMap<String, ClusterCount> = BTreeMap::new();
        for name in names {
            let Some((planned, _)) = state.bindings.get(name) else {
                continue;
            };
            let reports = state.reports.get(name);
            let targets = planned.clusters.iter();
            for cluster in targets.filter(|one| !planned.awaiting.contains(&one.name)) {
                let count = counts.entry(cluster.name.clone()).or_default();
                count.objects += 1;
                let copy = reports.and_then(|reports| reports.get(&cluster.name));
                let copy = copy.map(|copy| &copy.report);
                let desired = published.desired(name, &cluster.name);
                let desired = desired.map(|desired| &desired.object);
                let is_current = |copy: &&CopyReport| {
                    let is_any = planted(Bug::SetCountsFormerReports);
                    !copy.is_applied || copy.of.as_ref() == desired || is_any
                };
                match copy.filter(is_current) {
                    Some(copy) => count.add(name, copy),
                    None => count.unknown += 1,
                }
            }
        }
        counts
    }
}

fn shown(name: &TemplateName, reason: &str) -> String {
    let mut message = format!("{name}: {reason}");
    if message.len() > LONGEST_MESSAGE {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
    }
    message
}
