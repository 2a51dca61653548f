//! OpenSearch returns for the query of `fleetdex explain` what kubectl returns for all members
//! together.

use std::{collections::BTreeSet, process::Stdio, time::Duration};

use anyhow::{Context, Result, ensure};
use e2e::{
    fleet::{ApiServer, Fleet, OpenSearchKind, Options, Registration},
    operator::{Operator, OperatorOptions, fleetdex_program},
    poll::eventually,
    test_result::Tested,
};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_mins(3);
const PODS: usize = 36;
const LABELS: &str = "app in (web,api),tier!=db,!canary";
const FIELDS: &str = "status.phase=Running";

/// Runs the program as a user would, and returns its output.
async fn fleetdex(arguments: &[&str]) -> Result<String> {
    let mut command = tokio::process::Command::new(fleetdex_program()?);
    let output = command
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .await
        .context("starting fleetdex")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "fleetdex {}: {stderr}",
        arguments.join(" ")
    );
    String::from_utf8(output.stdout).context("reading what fleetdex printed")
}

/// A pod whose labels depend on its number.
fn pod(number: usize) -> Result<Pod> {
    let mut labels = json!({});
    let values = [
        ("app", ["web", "api", "db", ""]),
        ("tier", ["db", "front", "", "none"]),
        ("canary", ["", "true", "none", "none"]),
    ];
    for (index, (key, choices)) in values.into_iter().enumerate() {
        // Another digit of the number in base four for every label.
        let value = choices[number / 4_usize.pow(u32::try_from(index)?) % 4];
        if value != "none" {
            labels[key] = value.into();
        }
    }
    let spec = json!({ "containers": [{ "name": "main", "image": "example.com/main" }] });
    let pod =
        json!({ "metadata": { "name": format!("pod-{number}"), "labels": labels }, "spec": spec });
    serde_json::from_value(pod).context("making a pod")
}

async fn set_phase(pods: &Api<Pod>, name: &str, phase: &str) -> Result<()> {
    let patch = json!({ "status": { "phase": phase } });
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

/// Three of four pods run. Each member starts at another number, so that members have different
/// pods.
async fn fill(member: &ApiServer, first: usize) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(member.client().await?, "default");
    for number in first..first + PODS {
        let created = pods.create(&PostParams::default(), &pod(number)?).await?;
        if number % 5 != 2 {
            set_phase(&pods, &created.name_any(), "Running").await?;
        }
    }
    Ok(())
}

async fn start_operator(fleet: &Fleet) -> Result<Operator> {
    let kubectl = fleet.control_plane().kubectl()?;
    kubectl
        .apply_server_side(&fleetdex(&["crd"]).await?)
        .await?;
    kubectl
        .run("wait --for=condition=Established crd --all --timeout=60s")
        .await?;
    for member in fleet.members() {
        kubectl
            .apply(&Registration::new(member, member.name(), "default").manifest())
            .await?;
    }
    let registry = json!({
        "apiVersion": "search.karmada.io/v1alpha1",
        "kind": "ResourceRegistry",
        "metadata": { "name": "pods" },
        "spec": {
            "targetCluster": {},
            "resourceSelectors": [{ "apiVersion": "v1", "kind": "Pod" }],
            "backendStore": { "openSearch": { "addresses": [fleet.opensearch()?.url()], "numberOfReplicas": 0 } },
        },
    });
    kubectl.apply(&registry.to_string()).await?;
    let options = OperatorOptions::of(fleet);
    let operator = Operator::start(options)?;
    operator.wait_ready(DEADLINE).await?;
    Ok(operator)
}

/// `cluster/namespace/name` of the objects that kubectl finds in all members.
async fn by_kubectl(members: &[ApiServer], labels: &str, fields: &str) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for member in members {
        let arguments = [
            "get",
            "pods",
            "-A",
            "-l",
            labels,
            "--field-selector",
            fields,
        ];
        let list = member.kubectl()?.json(&arguments).await?;
        let items = list["items"].as_array().context("no items")?;
        found.extend(items.iter().map(|item| full_name(member.name(), item)));
    }
    Ok(found)
}

/// `cluster/namespace/name` of the hits of the request body that `fleetdex explain` prints.
async fn by_explanation(fleet: &Fleet, arguments: &[&str]) -> Result<BTreeSet<String>> {
    let body: Value =
        serde_json::from_str(&fleetdex(arguments).await?).context("explain printed no JSON")?;
    let answer = fleet
        .opensearch()?
        .client()?
        .post("fleetdex/_search", &body)
        .await?;
    ensure!(answer["_shards"]["failed"] == 0, "{answer}");
    let hits = answer["hits"]["hits"].as_array().context("no hits")?;
    let total = answer["hits"]["total"]["value"].as_u64();
    ensure!(
        total == u64::try_from(hits.len()).ok(),
        "{total:?} found, {} given",
        hits.len()
    );
    Ok(hits
        .iter()
        .map(|hit| {
            full_name(
                hit["_source"]["cluster"].as_str().unwrap_or_default(),
                &hit["_source"],
            )
        })
        .collect())
}

fn full_name(cluster: &str, object: &Value) -> String {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    format!("{cluster}/{}/{}", text("namespace"), text("name"))
}

/// Waits until both results are equal, and returns them.
async fn agreed(
    fleet: &Fleet,
    operator: &Operator,
    labels: &str,
    fields: &str,
) -> Result<BTreeSet<String>> {
    let arguments = ["explain", "pods", "-l", labels, "--field-selector", fields];
    let same = eventually("OpenSearch finds what kubectl finds", DEADLINE, || async {
        operator.process().check_running()?;
        let (theirs, ours) = (
            by_kubectl(fleet.members(), labels, fields).await?,
            by_explanation(fleet, &arguments).await?,
        );
        ensure!(theirs == ours, "kubectl: {theirs:?}\nOpenSearch: {ours:?}");
        Ok(theirs)
    });
    same.await.with_context(|| operator.process().log_tail(40))
}

#[tokio::test]
async fn the_query_of_explain_finds_in_opensearch_what_kubectl_finds_on_the_members() -> Tested {
    let fleet = Fleet::start(Options::of(3, OpenSearchKind::Plain)).await?;
    let filled = fleet
        .members()
        .iter()
        .enumerate()
        .map(|(index, member)| fill(member, index * PODS));
    try_join_all(filled).await?;
    let operator = start_operator(&fleet).await?;

    let everything = agreed(&fleet, &operator, "", "").await?;
    assert_eq!(everything.len(), 3 * PODS);
    let selected = agreed(&fleet, &operator, LABELS, FIELDS).await?;
    let members: BTreeSet<&str> = selected
        .iter()
        .filter_map(|name| name.split('/').next())
        .collect();
    assert!(
        members.len() > 1 && selected.len() < everything.len() / 2,
        "{selected:?}"
    );

    // One member only, with `--cluster`.
    let narrow = [
        "explain",
        "po",
        "-A",
        "-l",
        LABELS,
        "--field-selector",
        FIELDS,
        "--cluster",
        "member2",
    ];
    let of_one = by_explanation(&fleet, &narrow).await?;
    let expected: BTreeSet<String> = selected
        .iter()
        .filter(|name| name.starts_with("member2/"))
        .cloned()
        .collect();
    assert_eq!(of_one, expected);

    // Changes in the members change the result.
    let first = selected.first().unwrap();
    let (pods, name) = pods_beside(&fleet, first).await?;
    let now = DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    };
    pods.delete(name, &now).await?;
    let last = selected.last().unwrap();
    let (pods, name) = pods_beside(&fleet, last).await?;
    set_phase(&pods, name, "Failed").await?;
    let changed = agreed(&fleet, &operator, LABELS, FIELDS).await?;
    assert_eq!(changed.len(), selected.len() - 2);
    Ok(())
}

/// The name of a pod, and the pods of its cluster in the namespace `default`.
async fn pods_beside<'n>(fleet: &Fleet, full_name: &'n str) -> Tested<(Api<Pod>, &'n str)> {
    let (cluster, rest) = full_name
        .split_once('/')
        .context("the name begins with its cluster")?;
    let mut members = fleet.members().iter();
    let member = members
        .find(|member| member.name() == cluster)
        .context("the cluster is a member")?;
    let pods = Api::namespaced(member.client().await?, "default");
    let (_, name) = rest.rsplit_once('/').context("the name ends the path")?;
    Ok((pods, name))
}
