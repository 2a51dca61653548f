//! The table of built-in kinds and their fields, against what a real API server serves and accepts.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context, Result, ensure};
use e2e::{
    fleet::{ApiServer, Fleet, OpenSearchKind, Options, SharedFleet},
    http,
    test_result::Tested,
};
use fleetdex_core::{
    kinds,
    model::Scope,
    selector::{FieldRequirement, FieldSelector, FieldTest},
};
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::StatusCode;
use serde_json::Value;

/// Aggregated discovery where there is such a thing, plain JSON elsewhere.
const ACCEPTED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
const CONCURRENCY: usize = 16;

#[expect(clippy::unwrap_used, reason = "every test needs it")]
async fn fleet() -> Arc<SharedFleet> {
    let options = Options::of(1, OpenSearchKind::None);
    Fleet::shared(options).await.unwrap()
}

async fn get(
    client: &reqwest::Client,
    server: &ApiServer,
    path: &str,
    query: &[(&str, &str)],
) -> Result<(StatusCode, String)> {
    let url = format!("{}{path}", server.url());
    let request = client
        .get(url)
        .bearer_auth(server.token())
        .query(query)
        .header("Accept", ACCEPTED);
    let response = request
        .send()
        .await
        .with_context(|| format!("GET {path} {query:?}"))?;
    Ok((response.status(), response.text().await?))
}

/// One line per resource that can be listed and watched, in the server's order.
async fn served(server: &ApiServer) -> Result<Vec<String>> {
    let client = http::client(Some(server.ca_pem()))?;
    let mut lines = Vec::new();
    for root in ["/api", "/apis"] {
        let (status, text) = get(&client, server, root, &[]).await?;
        ensure!(status.is_success(), "GET {root}: {status}: {text}");
        let discovery: Value = serde_json::from_str(&text)?;
        ensure!(
            discovery["kind"] == "APIGroupDiscoveryList",
            "GET {root}: {text}"
        );
        for group in list(&discovery["items"]) {
            for (index, version) in list(&group["versions"]).iter().enumerate() {
                let watched = list(&version["resources"])
                    .iter()
                    .filter(|resource| is_watched(resource));
                lines.extend(watched.map(|resource| line_of(group, version, index == 0, resource)));
            }
        }
    }
    Ok(lines)
}

fn line_of(group: &Value, version: &Value, preferred: bool, resource: &Value) -> String {
    let short_names: Vec<&str> = list(&resource["shortNames"]).iter().map(text).collect();
    line(&Line {
        group: text(&group["metadata"]["name"]),
        version: text(&version["version"]),
        kind: text(&resource["responseKind"]["kind"]),
        plural: text(&resource["resource"]),
        singular: text(&resource["singularResource"]),
        short_names: &short_names,
        namespaced: resource["scope"] == "Namespaced",
        preferred,
    })
}

struct Line<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    plural: &'a str,
    singular: &'a str,
    short_names: &'a [&'a str],
    namespaced: bool,
    preferred: bool,
}

fn line(resource: &Line<'_>) -> String {
    let Line {
        group,
        version,
        kind,
        plural,
        singular,
        short_names,
        namespaced,
        preferred,
    } = resource;
    format!(
        "{group}/{version} {kind} {plural} {singular} {short_names:?} namespaced: {namespaced} preferred: {preferred}"
    )
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_watched(resource: &Value) -> bool {
    let verbs: Vec<&str> = list(&resource["verbs"]).iter().map(text).collect();
    verbs.contains(&"list") && verbs.contains(&"watch")
}

fn ours() -> Vec<String> {
    let entries = kinds::all().iter();
    entries
        .map(|entry| {
            line(&Line {
                group: entry.group,
                version: entry.version,
                kind: entry.kind,
                plural: entry.plural,
                singular: &entry.singular(),
                short_names: entry.short_names,
                namespaced: entry.namespaced,
                preferred: entry.preferred,
            })
        })
        .collect()
}

/// Groups and versions in the order in which they come first.
fn order(lines: &[String]) -> Vec<&str> {
    let mut versions: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    versions.dedup();
    versions
}

#[tokio::test]
async fn the_table_of_built_in_kinds_matches_an_api_server() -> Tested {
    let served = served(fleet().await.member(1)).await?;
    let ours = ours();
    let set = |lines: &[String]| lines.iter().cloned().collect::<BTreeSet<String>>();
    let (theirs_only, ours_only): (Vec<String>, Vec<String>) = (
        set(&served).difference(&set(&ours)).cloned().collect(),
        set(&ours).difference(&set(&served)).cloned().collect(),
    );
    assert!(
        theirs_only.is_empty() && ours_only.is_empty(),
        "served, but not in the table: {theirs_only:#?}\nin the table, but not served: {ours_only:#?}"
    );
    assert_eq!(served.len(), ours.len());
    assert_eq!(
        order(&served),
        order(&ours),
        "which kind a bare name means depends on the order"
    );
    Ok(())
}

/// Sends every field label of any kind to every kind, and compares which are accepted.
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_accepts_exactly_the_field_labels_of_its_table() -> Tested {
    let fleet = fleet().await;
    let server = fleet.member(1);
    let client = http::client(Some(server.ca_pem()))?;
    let labels: BTreeSet<&str> = kinds::all()
        .iter()
        .flat_map(|entry| kinds::field_labels(&entry.gvk()))
        .map(|(label, _)| label)
        .collect();
    let others = [
        "metadata.uid",
        "metadata.labels",
        "status",
        "spec.replicas",
        "status.reason",
    ];
    let candidates: Vec<&str> = labels.into_iter().chain(others).collect();
    let pairs = kinds::all()
        .iter()
        .flat_map(|entry| candidates.iter().map(move |label| (entry, *label)));
    let client = &client;
    let asked = pairs.map(|(entry, label)| async move {
        let is_ours = kinds::field_labels(&entry.gvk()).any(|(known, _)| known == label);
        let path = entry.resource().path(&Scope::All);
        let (status, text) = get(
            client,
            server,
            &path,
            &[("fieldSelector", &format!("{label}=x")), ("limit", "1")],
        )
        .await?;
        ensure!(
            status.is_success() || status == StatusCode::BAD_REQUEST,
            "GET {path}: {status}: {text}"
        );
        let is_theirs = status.is_success();
        Ok((is_ours != is_theirs).then(|| {
            format!(
                "{} {label}: accepted by us: {is_ours}, by the API server: {is_theirs}",
                entry.gvk()
            )
        }))
    });
    let answers: Vec<Option<String>> = stream::iter(asked)
        .buffered(CONCURRENCY)
        .try_collect()
        .await?;
    let wrong: Vec<String> = answers.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}

/// Checks that an API server understands our escaping.
#[tokio::test]
async fn an_api_server_accepts_the_field_selectors_that_we_print() -> Tested {
    let fleet = fleet().await;
    let server = fleet.member(1);
    let client = http::client(Some(server.ca_pem()))?;
    let label = fleetdex_core::model::FieldPath::new("metadata.name");
    for value in ["", "a", "a,b", r"a\b", "a=b", r"\,=", " ", "(é)"] {
        let values = BTreeSet::from([value.to_owned()]);
        let selector: FieldSelector = [FieldRequirement {
            path: label.clone(),
            test: FieldTest::NotIn(values),
        }]
        .into_iter()
        .collect();
        let (status, text) = get(
            &client,
            server,
            "/api/v1/namespaces",
            &[("fieldSelector", &selector.to_string())],
        )
        .await?;
        assert_eq!(status, StatusCode::OK, "{selector}: {text}");
    }
    Ok(())
}
