//! The conditions of a registry that is being deleted.

use fleetdex_core::model::StoreName;
use fleetdex_crds::{condition::Finding, registry::ORPHAN_ANNOTATION};

use super::inputs::StatusInputs;

/// The reason while documents are being deleted.
pub(super) const DELETING: &str = "Deleting";
/// The reason while they cannot be, so that an administrator has to act.
const DELETION_BLOCKED: &str = "DeletionBlocked";
/// The most characters of the error of a store: the note of an Event is short, and what to do
/// follows the error.
const MAX_PROBLEM: usize = 400;

/// `Ready` of a registry that is being deleted: what the deletion waits for, and what to do.
pub(super) fn ready_finding(name: &str, inputs: &StatusInputs<'_>) -> Finding {
    const KIND: &str = "Ready";
    let Some((location, problem)) = blocking_location(inputs) else {
        return Finding::fails(
            KIND,
            DELETING,
            "the documents of the registry are being deleted",
        );
    };
    let message = format!(
        "the deletion waits for {location}, which may still hold documents: {}. \
         Either make the store available again, and the deletion continues; or leave the documents there: \
         kubectl annotate rr {name} {ORPHAN_ANNOTATION}=true",
        shortened(problem)
    );
    Finding::fails(KIND, DELETION_BLOCKED, message)
}

/// `Synced` of a registry that is being deleted.
pub(super) fn synced_finding() -> Finding {
    Finding::fails(
        "Synced",
        DELETING,
        "the registry is being deleted, so no object is read for it",
    )
}

/// The first location that cannot be emptied, and why.
fn blocking_location<'i>(inputs: &'i StatusInputs<'_>) -> Option<(&'i str, &'i str)> {
    let current = inputs.plan.store.as_ref().map(StoreName::as_str);
    let was_never_opened = |name: &str| {
        let recorded = inputs.stores.iter();
        recorded
            .filter(|location| location.name == name)
            .any(|location| location.never_opened)
    };
    if let (Some(name), Some(Err(unavailable))) = (current, &inputs.store)
        && !was_never_opened(name)
    {
        return Some((name, &unavailable.message));
    }
    inputs
        .former_locations
        .iter()
        .find_map(|location| Some((location.name.as_str(), location.problem.as_deref()?)))
}

fn shortened(problem: &str) -> String {
    let mut characters = problem.chars();
    let start: String = characters.by_ref().take(MAX_PROBLEM).collect();
    if characters.next().is_some() {
        format!("{start}…")
    } else {
        start
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_crds::{
        condition,
        registry::{ResourceRegistryStatus, StoreStatus},
    };
    use fleetdex_sync::pipeline::{Availability, Unavailable};

    use super::{
        super::{FormerLocation, ReportedEvents, status, tests::inputs},
        *,
    };
    use crate::plan::RegistryPlan;

    fn unreachable(message: &str) -> Result<(), Unavailable> {
        Err(Unavailable {
            reason: "Unreachable",
            message: message.to_owned(),
        })
    }

    fn former(problem: Option<&str>) -> FormerLocation {
        FormerLocation {
            name: "http://old:9200/fleetdex".to_owned(),
            indices: Vec::new(),
            problem: problem.map(str::to_owned),
            awaited_clusters: Vec::new(),
        }
    }

    /// The status of a registry that is being deleted.
    fn deleting(
        store: Availability,
        stores: Vec<StoreStatus>,
        former_locations: Vec<FormerLocation>,
    ) -> ResourceRegistryStatus {
        let plan = RegistryPlan {
            store: Some("http://main:9200/fleetdex".parse().unwrap()),
            ..RegistryPlan::default()
        };
        status(&StatusInputs {
            deleting: Some("demo"),
            store,
            stores,
            former_locations,
            ..inputs(&plan)
        })
    }

    fn shown(status: &ResourceRegistryStatus, kind: &str) -> String {
        let condition = condition::find(&status.conditions, kind).unwrap();
        format!(
            "{} {}: {}",
            condition.status, condition.reason, condition.message
        )
    }

    #[test]
    fn a_deletion_that_waits_for_a_store_names_both_ways_out() {
        let location = |never_opened| StoreStatus {
            name: "http://main:9200/fleetdex".to_owned(),
            never_opened,
            ..StoreStatus::default()
        };
        let lines = [
            deleting(
                Some(unreachable("connection refused")),
                vec![location(false)],
                vec![],
            ),
            deleting(Some(Ok(())), vec![], vec![former(Some("401 Unauthorized"))]),
            deleting(
                Some(unreachable("connection refused")),
                vec![location(true)],
                vec![former(None)],
            ),
            deleting(None, vec![], vec![]),
        ]
        .map(|status| shown(&status, "Ready"));
        insta::assert_snapshot!(lines.join("\n"), @"
        False DeletionBlocked: the deletion waits for http://main:9200/fleetdex, which may still hold documents: connection refused. Either make the store available again, and the deletion continues; or leave the documents there: kubectl annotate rr demo fleetdex.io/orphan=true
        False DeletionBlocked: the deletion waits for http://old:9200/fleetdex, which may still hold documents: 401 Unauthorized. Either make the store available again, and the deletion continues; or leave the documents there: kubectl annotate rr demo fleetdex.io/orphan=true
        False Deleting: the documents of the registry are being deleted
        False Deleting: the documents of the registry are being deleted
        ");
    }

    #[test]
    fn a_registry_that_is_being_deleted_is_not_synced() {
        for store in [None, Some(Ok(())), Some(unreachable("connection refused"))] {
            let status = deleting(store, vec![], vec![]);
            assert!(
                shown(&status, "Synced").starts_with("False Deleting: "),
                "{}",
                shown(&status, "Synced")
            );
        }
    }

    #[test]
    fn only_a_blocked_deletion_has_an_event_and_it_names_both_ways_out() {
        let before = deleting(Some(Ok(())), vec![], vec![]);
        let mut reported = ReportedEvents::of(&before);
        let now = std::time::Instant::now();
        let idle = ResourceRegistryStatus::default();
        assert_eq!(reported.of_change(&idle, &before, now), []);
        let long = "x".repeat(5_000);
        let blocked = deleting(Some(unreachable(&long)), vec![], vec![]);
        let events = reported.of_change(&before, &blocked, now);
        assert_eq!(events[0].reason, DELETION_BLOCKED);
        assert!(events[0].is_warning);
        for way in [
            "make the store available again",
            "kubectl annotate rr demo fleetdex.io/orphan=true",
        ] {
            assert!(events[0].note.contains(way), "{}", events[0].note);
        }
    }
}
