//! Events, of the core group and of `events.k8s.io`, which has other names for most of their
//! fields.

use crate::render::table::{
    column::{Cell, Column, KindColumns, RowContext, UNKNOWN, computed, name, text},
    json_node::JsonNode,
    text::or,
};

/// What the three times and the count are made of.
const TIMES: &[&str] = &[
    "firstTimestamp",
    "lastTimestamp",
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
    "eventTime",
    "series",
    "count",
    "deprecatedCount",
];

const COLUMNS: &[Column] = &[
    computed("Last Seen", TIMES, last_seen),
    text("Type", "type"),
    text("Reason", "reason"),
    computed("Object", &["involvedObject", "regarding"], |view| {
        let about = either(view, "involvedObject", "regarding");
        let kind = about.member("kind").text().to_lowercase();
        match about.member("name").text() {
            "" => kind.into(),
            name => format!("{kind}/{name}").into(),
        }
    }),
    computed("Subobject", &["involvedObject", "regarding"], |view| {
        let about = either(view, "involvedObject", "regarding");
        about.member("fieldPath").text().into()
    })
    .wide(),
    computed(
        "Source",
        &[
            "source",
            "deprecatedSource",
            "reportingComponent",
            "reportingController",
            "reportingInstance",
        ],
        source,
    )
    .wide(),
    computed("Message", &["message", "note"], |view| {
        either(view, "message", "note").text().trim().into()
    }),
    computed("First Seen", TIMES, |view| first_seen(view).into()).wide(),
    computed("Count", TIMES, count).wide(),
    name().wide(),
];

/// The kinds.
pub const KINDS: &[KindColumns] = &[
    KindColumns::new("", "Event").with(COLUMNS),
    KindColumns::new("events.k8s.io", "Event").with(COLUMNS),
];

fn either<'v, 'a>(view: &'v RowContext<'a>, core: &str, other: &str) -> &'v JsonNode<'a> {
    let value = view.at(core);
    if value.is_given() {
        value
    } else {
        view.at(other)
    }
}

fn first_seen(view: &RowContext<'_>) -> String {
    let first = view.since(either(view, "firstTimestamp", "deprecatedFirstTimestamp"));
    first
        .or_else(|| view.since(view.at("eventTime")))
        .unwrap_or_else(|| UNKNOWN.to_owned())
}

fn last_seen(view: &RowContext<'_>) -> Cell {
    if view.at("series").is_given() {
        return view.since_or(view.at("series.lastObservedTime"), UNKNOWN);
    }
    let last = view.since(either(view, "lastTimestamp", "deprecatedLastTimestamp"));
    last.unwrap_or_else(|| first_seen(view)).into()
}

fn count(view: &RowContext<'_>) -> Cell {
    if view.at("series").is_given() {
        return Cell::Integer(view.at("series.count").integer());
    }
    Cell::Integer(either(view, "count", "deprecatedCount").integer().max(1))
}

fn source(view: &RowContext<'_>) -> Cell {
    let source = either(view, "source", "deprecatedSource");
    let reporter = either(view, "reportingComponent", "reportingController").text();
    let component = or(source.member("component").text(), reporter);
    let instance = view.at("reportingInstance").text();
    match or(source.member("host").text(), instance) {
        "" => component.into(),
        instance => format!("{component}, {instance}").into(),
    }
}
