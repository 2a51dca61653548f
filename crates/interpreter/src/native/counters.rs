//! The counters that the status of a kind has.

use serde_json::{Map, Value};

use super::kind::NativeKind;
use crate::value::integer;

/// An integer in a status.
#[derive(Clone, Copy, Debug)]
pub struct StatusCounter {
    /// Its name.
    pub name: &'static str,
    /// Whether a zero is written, or the counter left out. Source: the types of `k8s.io/api`, which
    /// leave out what is `omitempty`.
    zero_is_written: bool,
}

impl StatusCounter {
    const fn omitted(name: &'static str) -> Self {
        Self {
            name,
            zero_is_written: false,
        }
    }

    /// The number in a status; zero if there is none.
    pub fn read(self, status: &Value) -> i64 {
        integer(status, &[self.name]).unwrap_or_default()
    }

    /// Writes a number into a status. A zero that is not written removes the counter.
    pub fn write(self, status: &mut Map<String, Value>, number: i64) {
        if number != 0 || self.zero_is_written {
            status.insert(self.name.to_owned(), number.into());
        } else {
            status.shift_remove(self.name);
        }
    }
}

/// The generation of the object that its controller has seen.
pub const OBSERVED_GENERATION: StatusCounter = StatusCounter::omitted("observedGeneration");
/// The generation of the object in its member, beside its reported status.
pub const GENERATION: StatusCounter = StatusCounter::omitted("generation");
/// The generation of the template that the object in the member was made of.
pub const RESOURCE_TEMPLATE_GENERATION: StatusCounter =
    StatusCounter::omitted("resourceTemplateGeneration");

/// The counters of a kind that are reported and summed up.
pub fn of(kind: NativeKind) -> impl Iterator<Item = StatusCounter> {
    // A zero of those with an exclamation mark is written.
    let names = match kind {
        NativeKind::Deployment => {
            "replicas updatedReplicas readyReplicas availableReplicas unavailableReplicas"
        }
        NativeKind::ReplicaSet => "replicas! readyReplicas availableReplicas",
        NativeKind::StatefulSet => {
            "replicas! readyReplicas currentReplicas updatedReplicas availableReplicas!"
        }
        NativeKind::DaemonSet => {
            "currentNumberScheduled! numberMisscheduled! desiredNumberScheduled! numberReady! \
             updatedNumberScheduled numberAvailable numberUnavailable"
        }
        NativeKind::Job => "active succeeded failed",
        NativeKind::PodDisruptionBudget => {
            "disruptionsAllowed! currentHealthy! desiredHealthy! expectedPods!"
        }
        NativeKind::HorizontalPodAutoscaler => "currentReplicas desiredReplicas!",
        NativeKind::Flux => "failures installFailures upgradeFailures",
        _ => "",
    };
    names.split_ascii_whitespace().map(|name| StatusCounter {
        name: name.trim_end_matches('!'),
        zero_is_written: name.ends_with('!'),
    })
}
