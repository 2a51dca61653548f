//! A Karmada control plane itself serves two of the API groups that Fleetdex uses:
//! `cluster.karmada.io`, which stays Karmada's, and, while karmada-search is installed,
//! `search.karmada.io`, which then hides the registries of Fleetdex.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fleetdex_core::model::causes;
use fleetdex_telemetry::Readiness;
use k8s_openapi::{
    api::core::v1::ObjectReference, kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client, Resource,
    runtime::events::{Event, EventType, Recorder},
};

/// Serves `ResourceRegistry` while karmada-search is installed.
const SEARCH: &str = "v1alpha1.search.karmada.io";
/// Serves `Cluster` on a Karmada control plane.
const CLUSTER: &str = "v1alpha1.cluster.karmada.io";
const CHECK: &str = "search.karmada.io";
/// How often to check. Removing karmada-search takes people longer than this.
const INTERVAL: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(5);

/// Whether Karmada serves `Cluster` objects, and therefore writes their statuses. If that cannot be
/// determined, it does not.
pub async fn serves_clusters(control_plane: &Client) -> bool {
    aggregated(control_plane, CLUSTER).await.is_some()
}

/// The `APIService` of a group-version if another server answers for it.
async fn aggregated(control_plane: &Client, name: &str) -> Option<APIService> {
    let services = Api::<APIService>::all(control_plane.clone());
    match tokio::time::timeout(TIMEOUT, services.get_opt(name)).await {
        Ok(Ok(found)) => found.filter(|service| {
            service
                .spec
                .as_ref()
                .is_some_and(|spec| spec.service.is_some())
        }),
        Ok(Err(error)) => {
            tracing::debug!(%name, error = %causes(&error), "cannot read an APIService");
            None
        }
        Err(_) => None,
    }
}

/// Reports that karmada-search hides the registries, for as long as it does: in the log, on
/// `/readyz` and as an Event.
pub async fn watch_search(control_plane: Client, readiness: Readiness, recorder: Arc<Recorder>) {
    let mut reported = BTreeSet::new();
    loop {
        match aggregated(&control_plane, SEARCH).await {
            Some(service) => {
                let message = format!(
                    "APIService {SEARCH} belongs to karmada-search, so this control plane never shows Fleetdex's ResourceRegistry objects; \
                     fleetdex migrate karmada-search moves its registries and removes the APIService"
                );
                readiness.not_ready(CHECK, message.clone());
                if reported.insert(service.metadata.uid.clone()) {
                    tracing::warn!("{message}");
                    announce(&recorder, &service, message).await;
                }
            }
            None => readiness.forget(CHECK),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn announce(recorder: &Recorder, service: &APIService, message: String) {
    let event = Event {
        type_: EventType::Warning,
        reason: "GroupServedElsewhere".to_owned(),
        note: Some(message),
        action: "Start".to_owned(),
        secondary: None,
    };
    let reference: ObjectReference = service.object_ref(&());
    if let Err(error) = recorder.publish(&event, &reference).await {
        tracing::debug!(error = %causes(&error), "cannot write an Event");
    }
}
