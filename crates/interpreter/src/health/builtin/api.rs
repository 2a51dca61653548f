//! Namespaces, custom resource definitions, API services and certificate signing requests.

use super::condition::{self, first_true, has_status, no_phase, unknown_phase, with_status};
use crate::{
    health::{Assessment, Health},
    value::{Tree, condition as condition_of, list, text},
};

const DELETION_FAILURES: &[&str] = &[
    "NamespaceDeletionContentFailure",
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
];
const REMAINDERS: &[&str] = &["NamespaceContentRemaining", "NamespaceFinalizersRemaining"];

/// A deletion that waits for content is Progressing; one that has failed is stuck.
pub fn namespace(object: Tree<'_>) -> Assessment {
    let is_deleted = !text(object, &["metadata", "deletionTimestamp"]).is_empty();
    match text(object, &["status", "phase"]) {
        "Terminating" => terminating(object),
        _ if is_deleted => terminating(object),
        "Active" => Assessment::plain(Health::Healthy),
        "" => no_phase(),
        other => unknown_phase(other),
    }
}

fn terminating(object: Tree<'_>) -> Assessment {
    if let Some(failure) = first_true(object, DELETION_FAILURES) {
        return condition::assess(Health::Degraded, failure);
    }
    let remainders: Vec<&str> = REMAINDERS
        .iter()
        .filter_map(|kind| with_status(object, kind, "True"))
        .map(|remainder| text(remainder, &["message"]))
        .filter(|message| !message.is_empty())
        .collect();
    let message = match remainders.as_slice() {
        [] => "pending deletion".to_owned(),
        messages => messages.join(" "),
    };
    Assessment::progressing("Deleting", &message)
}

/// Source: Argo CD, `resource_customizations/apiextensions.k8s.io/CustomResourceDefinition`.
pub fn custom_resource_definition(object: Tree<'_>) -> Assessment {
    if list(object, &["status", "conditions"]).is_empty() {
        let message = "no conditions are reported yet";
        return Assessment::progressing("NoStatus", message);
    }
    if let Some(terminating) = with_status(object, "Terminating", "True") {
        return condition::assess(Health::Progressing, terminating);
    }
    let violation = with_status(object, "NamesAccepted", "False")
        .or_else(|| with_status(object, "NonStructuralSchema", "True"));
    if let Some(violation) = violation {
        return condition::assess(Health::Degraded, violation);
    }
    match condition_of(object, "Established") {
        Some(found) if has_status(found, "True") => Assessment::plain(Health::Healthy),
        Some(found) if text(found, &["reason"]) == "Installing" => {
            condition::assess(Health::Progressing, found)
        }
        Some(found) => condition::assess(Health::Degraded, found),
        None => {
            let message = "the definition is not established";
            Assessment::degraded("NotEstablished", message)
        }
    }
}

/// An API service that is not available breaks discovery and the deletion of namespaces.
pub fn api_service(object: Tree<'_>) -> Assessment {
    let Some(available) = condition_of(object, "Available") else {
        let message = "availability is not reported yet";
        return Assessment::progressing("NoStatus", message);
    };
    match text(available, &["status"]) {
        "True" => Assessment::new(Health::Healthy, "", text(available, &["message"])),
        "False" => condition::assess(Health::Degraded, available),
        _ => condition::assess(Health::Progressing, available),
    }
}

/// A request ends with a certificate, a denial or a failure of its signer.
pub fn certificate_signing_request(object: Tree<'_>) -> Assessment {
    if let Some(refused) = first_true(object, &["Denied", "Failed"]) {
        return condition::assess(Health::Degraded, refused);
    }
    if !text(object, &["status", "certificate"]).is_empty() {
        return Assessment::plain(Health::Healthy);
    }
    if with_status(object, "Approved", "True").is_some() {
        let message = "approved, waiting for the signer";
        return Assessment::progressing("WaitingForSigner", message);
    }
    let message = "waiting for approval";
    Assessment::progressing("WaitingForApproval", message)
}
