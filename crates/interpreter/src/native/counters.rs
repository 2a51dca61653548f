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
    const fn written(name: &'static str) -> Self {
        Self {
            name,
            zero_is_written: true,
        }
    }

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

const DEPLOYMENT: &[StatusCounter] = &[
    StatusCounter::omitted("replicas"),
    StatusCounter::omitted("updatedReplicas"),
    StatusCounter::omitted("readyReplicas"),
    StatusCounter::omitted("availableReplicas"),
    StatusCounter::omitted("unavailableReplicas"),
];
const REPLICA_SET: &[StatusCounter] = &[
    StatusCounter::written("replicas"),
    StatusCounter::omitted("readyReplicas"),
    StatusCounter::omitted("availableReplicas"),
];
const STATEFUL_SET: &[StatusCounter] = &[
    StatusCounter::written("replicas"),
    StatusCounter::omitted("readyReplicas"),
    StatusCounter::omitted("currentReplicas"),
    StatusCounter::omitted("updatedReplicas"),
    StatusCounter::written("availableReplicas"),
];
const DAEMON_SET: &[StatusCounter] = &[
    StatusCounter::written("currentNumberScheduled"),
    StatusCounter::written("numberMisscheduled"),
    StatusCounter::written("desiredNumberScheduled"),
    StatusCounter::written("numberReady"),
    StatusCounter::omitted("updatedNumberScheduled"),
    StatusCounter::omitted("numberAvailable"),
    StatusCounter::omitted("numberUnavailable"),
];
const JOB: &[StatusCounter] = &[
    StatusCounter::omitted("active"),
    StatusCounter::omitted("succeeded"),
    StatusCounter::omitted("failed"),
];
const POD_DISRUPTION_BUDGET: &[StatusCounter] = &[
    StatusCounter::written("disruptionsAllowed"),
    StatusCounter::written("currentHealthy"),
    StatusCounter::written("desiredHealthy"),
    StatusCounter::written("expectedPods"),
];
const HORIZONTAL_POD_AUTOSCALER: &[StatusCounter] = &[
    StatusCounter::omitted("currentReplicas"),
    StatusCounter::written("desiredReplicas"),
];

/// The counters of a kind that are reported and summed up.
pub fn of(kind: NativeKind) -> &'static [StatusCounter] {
    match kind {
        NativeKind::Deployment => DEPLOYMENT,
        NativeKind::ReplicaSet => REPLICA_SET,
        NativeKind::StatefulSet => STATEFUL_SET,
        NativeKind::DaemonSet => DAEMON_SET,
        NativeKind::Job => JOB,
        NativeKind::PodDisruptionBudget => POD_DISRUPTION_BUDGET,
        NativeKind::HorizontalPodAutoscaler => HORIZONTAL_POD_AUTOSCALER,
        _ => &[],
    }
}
