//! Prometheus accepts the alert rules, scrapes a real operator, and answers every query of the
//! dashboard.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use e2e::{
    fleet::{
        ports::Port,
        process::{Guard, Process, Start},
        unique,
    },
    http,
    parts::Part,
    scenario::{Registry, Stage, repository_file, until},
    test_result::Tested,
};
use serde_json::{Value, json};

/// Panels without series in this run: it has no webhook, no certificate and no script.
const EMPTY: [&str; 3] = ["Calls by result", "Duration of calls", "Next expiry"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[tokio::test]
async fn alert_rules_pass_their_unit_tests() {
    let promtool = Part::Promtool.ensure().unwrap();
    for arguments in [
        ["check", "rules", "helm/fleetdex/files/alerts.yaml"],
        ["test", "rules", "tests/alerts.yaml"],
    ] {
        let mut command = Command::new(&promtool);
        let output = command
            .args(arguments)
            .current_dir(repository())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "promtool {arguments:?}: {text}");
    }
}

/// A Prometheus that scrapes one operator every second.
struct Prometheus {
    _process: Process,
    _guard: Guard,
    url: String,
}

impl Prometheus {
    fn start(folder: &Path, target: &str) -> Result<Self> {
        let name = unique("prometheus");
        let folder = folder.join(&name);
        fs::create_dir_all(&folder)?;
        let rules = fs::canonicalize(repository().join("helm/fleetdex/files/alerts.yaml"))?;
        let config = json!({
            "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
            "rule_files": [rules],
            "scrape_configs": [{ "job_name": "fleetdex", "static_configs": [{ "targets": [target] }] }],
        });
        let file = folder.join("prometheus.yml");
        fs::write(&file, config.to_string())?;
        let port = Port::reserve()?;
        let address = format!("127.0.0.1:{}", port.number());
        let guard = Guard::start(std::slice::from_ref(&folder))?;
        let start = Start {
            program: Part::Prometheus.ensure()?,
            arguments: vec![
                format!("--config.file={}", file.display()),
                format!("--storage.tsdb.path={}", folder.join("data").display()),
                format!("--web.listen-address={address}"),
            ],
            folder: folder.clone(),
            ..Start::default()
        };
        let log = folder.join("log");
        let process = Process::new(&name, start, log, guard.group());
        process.spawn()?;
        Ok(Self {
            _process: process,
            _guard: guard,
            url: format!("http://{address}"),
        })
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value> {
        let request = http::client(None)?.get(format!("{}/api/v1/{path}", self.url));
        let answer: Value = request.query(query).send().await?.json().await?;
        ensure!(answer["status"] == "success", "{path} {query:?}: {answer}");
        Ok(answer["data"].clone())
    }

    /// The number of series that a query returns.
    async fn series(&self, query: &str) -> Result<usize> {
        let data = self.get("query", &[("query", query)]).await?;
        let result = data["result"].as_array().context("no result")?;
        Ok(result.len())
    }
}

/// The queries of all panels, with their variables replaced.
fn panels() -> Vec<(String, String)> {
    let text = repository_file("helm/fleetdex/files/grafana-dashboard.json").unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let mut query = target["expr"].as_str().unwrap().to_owned();
            for (variable, value) in [
                ("$cluster", ".*"),
                ("$store", ".*"),
                ("$__rate_interval", "1m"),
            ] {
                query = query.replace(variable, value);
            }
            queries.push((panel["title"].as_str().unwrap().to_owned(), query));
        }
    }
    queries
}

#[tokio::test]
async fn prometheus_answers_every_query_of_the_dashboard_and_evaluates_every_alert() -> Tested {
    let stage = Stage::enter().await?;
    let target = stage.operator.admin_url().replace("http://", "");
    let prometheus = Prometheus::start(stage.fleet.dir(), &target).unwrap();
    let kinds = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    let registry = Registry::ready(&stage, "monitored", &["member1", "member2"], &kinds).await?;
    let member = stage.member(1)?;
    let name = unique("counted");
    until("each panel has series", || async {
        // What is counted has to go on, so that rates have samples.
        let data = json!({ "now": unique("value") });
        member.apply_config_map("default", &name, &data).await?;
        let listed = stage.operator.run_command("get configmaps -A").await?;
        ensure!(listed.code == 0, "{}", listed.err);
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for (panel, query) in panels() {
            *found.entry(panel).or_default() += prometheus.series(&query).await?;
        }
        let empty: Vec<&String> = found
            .iter()
            .filter(|(panel, series)| **series == 0 && !EMPTY.contains(&panel.as_str()))
            .map(|(panel, _)| panel)
            .collect();
        ensure!(empty.is_empty(), "no series: {empty:?}");
        Ok(())
    })
    .await?;

    let rules = prometheus.get("rules", &[]).await?;
    let rules = rules["groups"][0]["rules"].as_array().unwrap().clone();
    assert!(rules.len() > 10);
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    // A target with metadata that Prometheus does not accept would have none.
    let metadata = prometheus.get("metadata", &[]).await?;
    let lag = &metadata["fleetdex_lag_seconds"][0];
    assert_eq!(
        (&lag["type"], &lag["unit"]),
        (&json!("gauge"), &json!("seconds"))
    );
    Ok(registry.remove().await?)
}
