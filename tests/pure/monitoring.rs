//! Alert rules and the Grafana dashboard name metrics, labels and values that exist, and each alert
//! is explained and tested. Prometheus itself runs them in `e2e/tests/indexing/monitoring.rs`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use fleetdex_telemetry::{
    Metrics,
    metrics::{Description, MetricLabel},
};
use serde::Deserialize;
use serde_json::Value;

/// Labels that Prometheus adds: those of the target, and the bucket of a histogram.
const ADDED: [&str; 6] = ["namespace", "job", "instance", "pod", "le", "alertname"];

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[derive(Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    alert: String,
    expr: String,
    annotations: BTreeMap<String, String>,
}

fn rules() -> Vec<Rule> {
    let rules: Rules = serde_saphyr::from_str(&file("helm/fleetdex/files/alerts.yaml")).unwrap();
    rules
        .groups
        .into_iter()
        .flat_map(|group| group.rules)
        .collect()
}

/// The series of all metrics, with the labels that they have.
fn series() -> BTreeMap<String, Vec<MetricLabel>> {
    let mut series = BTreeMap::new();
    for Description {
        name, kind, labels, ..
    } in Metrics::descriptions()
    {
        if kind == "histogram" {
            for end in ["bucket", "sum", "count"] {
                series.insert(format!("{name}_{end}"), labels.to_vec());
            }
        } else {
            series.insert(name, labels.to_vec());
        }
    }
    series
}

/// The next name in an expression, and what follows it.
fn next_name(text: &str) -> Option<(&str, &str)> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let start = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let end = text[start..].find(|letter| !is_part(letter));
    let end = end.map_or(text.len(), |length| start + length);
    Some((&text[start..end], &text[end..]))
}

/// What is between this bracket at the start and its end, and what follows.
fn bracketed(text: &str, open: char, close: char) -> Option<(&str, &str)> {
    text.trim_start().strip_prefix(open)?.split_once(close)
}

/// Panics with what an expression names that does not exist. Prometheus itself checks the syntax.
fn check(expression: &str, whose: &str) {
    let all = series();
    let mut known: BTreeSet<&str> = ADDED.into();
    let mut grouped: Vec<&str> = Vec::new();
    let mut count = 0;
    let mut rest = expression;
    while let Some((name, after)) = next_name(rest) {
        rest = after;
        if ["by", "on"].contains(&name) {
            let (labels, after) = bracketed(after, '(', ')').unwrap();
            grouped.extend(labels.split(',').map(str::trim));
            rest = after;
        } else if name.starts_with("fleetdex_") || name.starts_with("process_") {
            let labels = all.get(name);
            let labels = labels.unwrap_or_else(|| panic!("{whose}: there is no metric {name}"));
            known.extend(labels.iter().map(|label| label.name));
            count += 1;
            if let Some((matchers, after)) = bracketed(after, '{', '}') {
                for matcher in matchers.split(',') {
                    check_matcher(matcher, name, labels, whose);
                }
                rest = after;
            }
        }
    }
    assert!(count > 0, "{whose} reads no metric");
    for label in grouped {
        assert!(
            known.contains(label),
            "{whose} groups by {label}, which no series has"
        );
    }
}

fn check_matcher(matcher: &str, metric: &str, labels: &[MetricLabel], whose: &str) {
    let (name, value) = matcher.split_once(['=', '!']).unwrap();
    let label = labels.iter().find(|label| label.name == name.trim());
    let label = label.unwrap_or_else(|| panic!("{whose}: {metric} has no label {name}"));
    let value = value.trim_start_matches(['=', '~']).trim_matches('"');
    for value in value.split('|') {
        let exists = label.values.is_empty() || label.values.contains(&value);
        assert!(exists, "{whose}: {metric}{{{name}}} is never {value}");
    }
}

#[test]
fn alerts_name_metrics_and_labels_that_exist() {
    for rule in rules() {
        check(&rule.expr, &rule.alert);
    }
}

#[test]
fn every_alert_is_explained_and_tested() {
    let (documentation, tests) = (file("docs/operating.md"), file("tests/alerts.yaml"));
    let rules = rules();
    assert!(!rules.is_empty());
    for Rule {
        alert, annotations, ..
    } in &rules
    {
        let text = |key: &str| annotations.get(key).map_or("", String::as_str);
        for key in ["summary", "description"] {
            assert!(text(key).ends_with('.'), "{alert}: {key} is no sentence");
        }
        // Who gets an alert has the book, and no checkout of the repository.
        let section = text("runbook")
            .strip_prefix("The book of Fleetdex, page Operating, section ")
            .unwrap_or_default();
        let explained = documentation
            .lines()
            .filter_map(|line| line.strip_prefix("### "))
            .any(|title| title == section);
        assert!(
            explained,
            "{alert}: docs/operating.md has no section {section:?}"
        );
        assert!(
            tests.contains(alert.as_str()),
            "{alert} is not in tests/alerts.yaml"
        );
    }
}

/// A panel, or a variable, and its query.
fn dashboard_queries() -> Vec<(String, String)> {
    let dashboard: Value =
        serde_json::from_str(&file("helm/fleetdex/files/grafana-dashboard.json")).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let title = panel["title"].as_str().unwrap().to_owned();
            queries.push((title, target["expr"].as_str().unwrap().to_owned()));
        }
    }
    queries
}

#[test]
fn the_dashboard_names_metrics_and_labels_that_exist() {
    let queries = dashboard_queries();
    assert!(queries.len() > 10);
    for (panel, query) in queries {
        check(&query.replace("$__rate_interval", "5m"), &panel);
    }
}

#[test]
fn the_dashboard_can_be_imported_anywhere() {
    let text = file("helm/fleetdex/files/grafana-dashboard.json");
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(
            ids.insert(panel["id"].as_u64().unwrap()),
            "two panels have one id"
        );
        let is_row = panel["type"] == "row";
        assert_eq!(
            panel["datasource"]["uid"] == "${datasource}",
            !is_row,
            "{}",
            panel["title"]
        );
        assert!(
            is_row || panel["description"].is_string(),
            "{} has no description",
            panel["title"]
        );
    }
    assert!(dashboard["id"].is_null() && dashboard["uid"] == "fleetdex");
}
