//! `docs/metrics.md` lists every metric. `make metrics-docs` writes it.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{env, fmt::Write as _, fs, path::Path};

use fleetdex_telemetry::{
    Metrics,
    metrics::{Description, MetricLabel},
};

const INTRODUCTION: &str = "# Metrics

<!-- Written by `make metrics-docs` from crates/telemetry. Do not edit. -->

`/metrics` on the admin port (`--admin-address`, 8080 by default) serves these metrics in the OpenMetrics format. [Alerts](operating.md#alerts) says which
of them to alert on.

A counter starts at 0 with the process, so that only its rate or increase has a meaning. A histogram NAME has the series `NAME_bucket`, `NAME_sum` and `NAME_count`. Names of
objects are never labels. The labels that are not closed sets of values:

| label | values |
|---|---|
| `cluster` | a member, by its name |
| `code` | an HTTP status |
| `kind` | a kind as `apps/v1/Deployment`, or `v1/Pod` |
| `name` | the member or store of a client certificate; empty for the serving certificate |
| `source` | a source of clusters (`--cluster-source`) |
| `store` | a store: the prefix of its indices and a hash of its addresses; `embedded` for the one in the process |
| `version` | the version of Fleetdex |
| `webhook` | an interpreter webhook, as CONFIGURATION/WEBHOOK; beyond 200 of them `other` |

| metric | type | unit | labels | meaning |
|---|---|---|---|---|
";

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for Description {
        name,
        kind,
        unit,
        labels,
        help,
    } in Metrics::descriptions()
    {
        let labels: Vec<String> = labels.iter().map(label).collect();
        let labels = labels.join(", ");
        let unit = unit.unwrap_or_default();
        writeln!(page, "| `{name}` | {kind} | {unit} | {labels} | {help} |").unwrap();
    }
    page
}

fn label(MetricLabel { name, values }: &MetricLabel) -> String {
    if values.is_empty() {
        return format!("`{name}`");
    }
    format!("`{name}` ({})", values.join(", "))
}

#[test]
fn the_reference_page_lists_every_metric() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let expected = page();
    if env::var_os("FLEETDEX_WRITE_METRICS").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == expected,
        "{} is not up to date; write it with `make metrics-docs`",
        path.display()
    );
}

#[test]
fn every_label_without_a_closed_set_of_values_is_explained() {
    for description in Metrics::descriptions() {
        for label in description
            .labels
            .iter()
            .filter(|label| label.values.is_empty())
        {
            let row = format!("\n| `{}` |", label.name);
            assert!(INTRODUCTION.contains(&row), "{}", label.name);
        }
    }
}
