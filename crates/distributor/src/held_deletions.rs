//! Says which deletions the brake holds: in the log, as Events and as a metric.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_core::model::{ClusterName, causes};
use fleetdex_distribution::{binding::ALLOW_DELETION, template_name::TemplateName};
use fleetdex_telemetry::metrics::DistributionMetrics;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder};

use crate::status_board::StatusBoard;

/// Names in an Event, at most.
const SHOWN: usize = 5;

/// Says which deletions are held.
#[derive(Clone)]
pub struct HeldDeletions {
    /// What the bindings report.
    pub board: Arc<StatusBoard>,
    /// Writes Events.
    pub recorder: Arc<Recorder>,
    /// Counts them.
    pub metrics: DistributionMetrics,
}

impl HeldDeletions {
    /// These deletions are held in a member that has `total` copies.
    pub fn set(&self, cluster: &ClusterName, held: BTreeSet<TemplateName>, total: usize) {
        let count = held.len();
        self.metrics.set_held_deletions(cluster, count);
        let message = message(&held, total);
        if !self.board.set_held(cluster.as_str(), held) || count == 0 {
            return;
        }
        tracing::warn!(%cluster, "{message}");
        let (recorder, cluster) = (Arc::clone(&self.recorder), cluster.clone());
        tokio::spawn(async move {
            let event = Event {
                type_: EventType::Warning,
                reason: "DeletionsHeld".to_owned(),
                note: Some(message),
                action: "Delete".to_owned(),
                secondary: None,
            };
            let reference = ObjectReference {
                api_version: Some("cluster.karmada.io/v1alpha1".to_owned()),
                kind: Some("Cluster".to_owned()),
                name: Some(cluster.as_str().to_owned()),
                ..ObjectReference::default()
            };
            if let Err(error) = recorder.publish(&event, &reference).await {
                tracing::debug!(error = %causes(&error), "cannot write an Event");
            }
        });
    }
}

fn message(held: &BTreeSet<TemplateName>, total: usize) -> String {
    let names = held.iter().take(SHOWN).map(ToString::to_string);
    let names: Vec<String> = names.collect();
    let more = held.len().saturating_sub(SHOWN);
    let more = if more > 0 {
        format!(" and {more} others")
    } else {
        String::new()
    };
    format!(
        "{} of {total} distributed objects would be deleted at once, and are not: {}{more}. If that \
         is meant, set the annotation {ALLOW_DELETION}=true on their bindings",
        held.len(),
        names.join(", "),
    )
}
