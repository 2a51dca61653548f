//! Events, of the core group and of `events.k8s.io`, which has other names for most of their fields.

use super::{
    column::{Cell, Column, UNKNOWN, View, made, name, text},
    kind::Kind,
    node::Node,
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
    made("Last Seen", TIMES, last_seen),
    text("Type", "type"),
    text("Reason", "reason"),
    made("Object", &["involvedObject", "regarding"], |view| {
        let about = either(view, "involvedObject", "regarding");
        let (kind, name) = (
            about.member("kind").text().to_lowercase(),
            about.member("name").text(),
        );
        if name.is_empty() {
            kind.into()
        } else {
            format!("{kind}/{name}").into()
        }
    }),
    made("Subobject", &["involvedObject", "regarding"], |view| {
        either(view, "involvedObject", "regarding")
            .member("fieldPath")
            .text()
            .into()
    })
    .wide(),
    made(
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
    made("Message", &["message", "note"], |view| {
        either(view, "message", "note").text().trim().into()
    }),
    made("First Seen", TIMES, |view| first_seen(view).into()).wide(),
    made("Count", TIMES, count).wide(),
    name().wide(),
];

/// The kinds.
pub const KINDS: &[Kind] = &[
    Kind::new("", "Event", COLUMNS),
    Kind::new("events.k8s.io", "Event", COLUMNS),
];

fn either<'v, 'a>(view: &'v View<'a>, core: &str, other: &str) -> &'v Node<'a> {
    let value = view.at(core);
    if value.is_given() {
        value
    } else {
        view.at(other)
    }
}

fn first_seen(view: &View<'_>) -> String {
    let first = view.since(either(view, "firstTimestamp", "deprecatedFirstTimestamp"));
    first
        .or_else(|| view.since(view.at("eventTime")))
        .unwrap_or_else(|| UNKNOWN.to_owned())
}

fn last_seen(view: &View<'_>) -> Cell {
    if view.at("series").is_given() {
        return view
            .since(view.at("series.lastObservedTime"))
            .unwrap_or_else(|| UNKNOWN.to_owned())
            .into();
    }
    let last = view.since(either(view, "lastTimestamp", "deprecatedLastTimestamp"));
    last.unwrap_or_else(|| first_seen(view)).into()
}

fn count(view: &View<'_>) -> Cell {
    if view.at("series").is_given() {
        return Cell::Integer(view.at("series.count").integer());
    }
    Cell::Integer(either(view, "count", "deprecatedCount").integer().max(1))
}

fn source(view: &View<'_>) -> Cell {
    let source = either(view, "source", "deprecatedSource");
    let reporter = either(view, "reportingComponent", "reportingController").text();
    let component = or(source.member("component").text(), reporter);
    match or(
        source.member("host").text(),
        view.at("reportingInstance").text(),
    ) {
        "" => component.into(),
        instance => format!("{component}, {instance}").into(),
    }
}
