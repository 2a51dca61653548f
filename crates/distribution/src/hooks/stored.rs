//! The state of hooks as the status of a `Distribution` has it.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_crds::distribution::{ClusterHookStatus, HookKind, HookStatus, UnfinishedHooks};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    state::{ClusterHook, EndingPhase, HookPhase, HookState},
    steps::{HookMoment, HookStep},
};

/// Kinds in a status, at most.
const MOST_KINDS: usize = 50;

impl HookState {
    /// Reads a status; `None`: it says nothing.
    pub fn read(status: &HookStatus) -> Option<Self> {
        if status.revision.is_empty() {
            return None;
        }
        let installed: BTreeSet<String> = status.installed.iter().cloned().collect();
        let unprepared: BTreeSet<String> = status.unprepared.iter().cloned().collect();
        let kinds = status.kinds.iter();
        let kinds = kinds.map(|one| (one.api_version.clone(), one.kind.clone()));
        let under_way = status.clusters.iter();
        let under_way = under_way.filter_map(|one| Some((one.name.clone(), read_hook(one)?)));
        let mut unfinished = BTreeMap::new();
        for one in &status.unfinished {
            let step = HookStep::parse(&one.step);
            if let Some(step) = step.filter(|step| step.moment == HookMoment::Post) {
                let clusters = one.clusters.iter().cloned();
                unfinished.extend(clusters.map(|cluster| (cluster, step.change)));
            }
        }
        Some(Self {
            revision: status.revision.clone(),
            is_rollback: status.rollback,
            kinds: kinds.collect(),
            prepared: &installed - &unprepared,
            // Whether more clusters wait is known after the next plan.
            waits: installed.is_empty() || !unprepared.is_empty(),
            installed,
            unfinished,
            under_way: under_way.collect(),
            retried: status.retried.clone(),
            ending: EndingPhase::parse(&status.deletion),
            ended: status.ended.iter().cloned().collect(),
        })
    }

    /// The status.
    pub fn status(&self) -> HookStatus {
        let kinds = self.kinds.iter().take(MOST_KINDS);
        let kinds = kinds.map(|(api_version, kind)| HookKind {
            api_version: api_version.clone(),
            kind: kind.clone(),
        });
        let mut unfinished: BTreeMap<HookStep, Vec<String>> = BTreeMap::new();
        for (cluster, change) in &self.unfinished {
            let clusters = unfinished.entry(HookStep::post(*change)).or_default();
            clusters.push(cluster.clone());
        }
        let unfinished = unfinished.into_iter();
        let unprepared = self.installed.difference(&self.prepared);
        let ending = self.ending.map(EndingPhase::as_str).unwrap_or_default();
        HookStatus {
            revision: self.revision.clone(),
            rollback: self.is_rollback,
            kinds: kinds.collect(),
            installed: self.installed.iter().cloned().collect(),
            unprepared: unprepared.cloned().collect(),
            unfinished: unfinished
                .map(|(step, clusters)| UnfinishedHooks {
                    step: step.as_str().to_owned(),
                    clusters,
                })
                .collect(),
            clusters: self.under_way.iter().map(hook_status).collect(),
            retried: self.retried.clone(),
            deletion: ending.to_owned(),
            ended: self.ended.iter().cloned().collect(),
        }
    }
}

fn read_hook(status: &ClusterHookStatus) -> Option<ClusterHook> {
    let time = |time: &Option<Time>| time.as_ref().map(|time| time.0);
    let began: Timestamp = time(&status.began_at)?;
    Some(ClusterHook {
        step: HookStep::parse(&status.step)?,
        position: usize::try_from(status.number).ok()?.checked_sub(1)?,
        phase: HookPhase::parse(&status.phase)?,
        hook: status.hook.clone(),
        began,
        since: time(&status.since).unwrap_or(began),
        message: status.message.clone(),
    })
}

fn hook_status((cluster, hook): (&String, &ClusterHook)) -> ClusterHookStatus {
    ClusterHookStatus {
        name: cluster.clone(),
        step: hook.step.as_str().to_owned(),
        number: i64::try_from(hook.position + 1).unwrap_or(i64::MAX),
        hook: hook.hook.clone(),
        phase: hook.phase.as_str().to_owned(),
        message: hook.message.clone(),
        began_at: Some(Time(hook.began)),
        since: Some(Time(hook.since)),
    }
}
