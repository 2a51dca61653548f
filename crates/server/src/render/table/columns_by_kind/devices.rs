//! API group `resource.k8s.io`: dynamic allocation of devices.

use crate::render::table::{
    column::{
        Cell, Column, KindColumns, NONE, RowContext, UNKNOWN, age, computed, name, since, text,
    },
    json_node::JsonNode,
};

const GROUP: &str = "resource.k8s.io";

/// The kinds.
pub const KINDS: &[KindColumns] = &[
    KindColumns::new(GROUP, "DeviceClass").with(&[name(), age()]),
    KindColumns::new(GROUP, "ResourceClaimTemplate").with(&[name(), age()]),
    KindColumns::new(GROUP, "ResourceClaim").with(&[
        name(),
        computed(
            "State",
            &[
                "metadata.deletionTimestamp",
                "status.allocation",
                "status.reservedFor",
            ],
            claim_state,
        ),
        age(),
    ]),
    KindColumns::new(GROUP, "ResourceSlice").with(&[
        name(),
        text("Node", "spec.nodeName"),
        text("Driver", "spec.driver"),
        text("Pool", "spec.pool.name"),
        age(),
    ]),
    KindColumns::new(GROUP, "DeviceTaintRule").with(&[
        name(),
        text("Key", "spec.taint.key"),
        text("Value", "spec.taint.value"),
        text("Effect", "spec.taint.effect"),
        since("TimeAdded", "spec.taint.timeAdded", ""),
        age(),
    ]),
    KindColumns::new(GROUP, "ResourcePoolStatusRequest").with(POOL_STATUS),
];

const STATUS: &[&str] = &["status"];
const POOL_STATUS: &[Column] = &[
    name(),
    text("Driver", "spec.driver"),
    computed("Total", STATUS, |view| sum(view, "totalDevices")),
    computed("Available", STATUS, |view| sum(view, "availableDevices")),
    computed("Allocated", STATUS, |view| sum(view, "allocatedDevices")),
    computed("Unavailable", STATUS, |view| {
        sum(view, "unavailableDevices")
    }),
    computed("Errors", STATUS, |view| {
        let has_error = |pool: &&JsonNode<'_>| pool.member("validationError").is_given();
        of_pools(view, |pools| {
            pools.iter().filter(has_error).count().to_string()
        })
    }),
    computed("Pools", STATUS, |view| {
        Cell::Integer(view.at("status.poolCount").integer())
    })
    .with_type("integer"),
    computed("Status", STATUS, pool_status),
    computed("Completed", STATUS, |view| match outcome(view) {
        Some(("Complete", condition)) => {
            view.since_or(condition.member("lastTransitionTime"), UNKNOWN)
        }
        _ => NONE.into(),
    }),
];

fn claim_state(view: &RowContext<'_>) -> Cell {
    let is_allocated = view.at("status.allocation").is_given();
    let states = [
        (view.is_deleted(), "deleted"),
        (!is_allocated && !view.is_deleted(), "pending"),
        (is_allocated, "allocated"),
        (
            is_allocated && !view.at("status.reservedFor").items().is_empty(),
            "reserved",
        ),
    ];
    let states = states.into_iter().filter(|(holds, _)| *holds);
    states
        .map(|(_, state)| state)
        .collect::<Vec<_>>()
        .join(",")
        .into()
}

/// The first condition that says how it ended.
fn outcome<'v, 'a>(view: &'v RowContext<'a>) -> Option<(&'static str, &'v JsonNode<'a>)> {
    let conditions = view.at("status.conditions").items().iter();
    let mut true_ones = conditions.filter(|condition| condition.member("status").text() == "True");
    true_ones.find_map(|condition| match condition.member("type").text() {
        "Complete" => Some(("Complete", condition)),
        "Failed" => Some(("Failed", condition)),
        _ => None,
    })
}

/// Nothing is known of pools before there is a status, or when it failed.
fn of_pools(view: &RowContext<'_>, show: impl Fn(&[JsonNode<'_>]) -> String) -> Cell {
    let is_known = view.at("status").is_given() && !matches!(outcome(view), Some(("Failed", _)));
    if is_known {
        show(view.at("status.pools").items()).into()
    } else {
        "-".into()
    }
}

fn sum(view: &RowContext<'_>, member: &str) -> Cell {
    of_pools(view, |pools| {
        let numbers = pools.iter().map(|pool| pool.member(member).integer());
        numbers.sum::<i64>().to_string()
    })
}

fn pool_status(view: &RowContext<'_>) -> Cell {
    let shown = view.at("status.pools").items().len();
    let counted = view.at("status.poolCount").integer();
    match outcome(view) {
        Some(("Complete", _)) if i64::try_from(shown).is_ok_and(|shown| counted > shown) => {
            format!("Complete ({shown}/{counted} pools)").into()
        }
        Some((outcome, _)) => outcome.into(),
        None => "Pending".into(),
    }
}
