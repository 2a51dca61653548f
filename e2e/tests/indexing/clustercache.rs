//! The example of the founding proposal, in both groups, on real servers: what it selects is cached
//! in memory, and reported in its status.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use e2e::{
    fleet::{Fleet, OpenSearchKind, Options},
    objects::Objects,
    operator::Operator,
    poll::always,
    scenario::{prepare, repository_file, start_operator, until},
    test_result::Tested,
};
use serde_json::{Value, json};

const GROUPS: [&str; 2] = ["clustercaches.karmada.io", "cluster.karmada.io"];
const NAME: &str = "clustercache-sample";

fn path(group: &str) -> String {
    format!("apis/{group}/v1alpha1/clustercaches/{NAME}")
}

/// Creates one object of each kind of the example, and objects that it excludes.
async fn create_objects(member: &Objects) -> Tested {
    member.create_namespace("kube-system").await?;
    let labels = json!({ "app": "web" });
    let containers = json!([{ "name": "web", "image": "web:1" }]);
    for name in ["one", "two"] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": { "containers": containers },
        });
        member
            .create("api/v1/namespaces/default/pods", &pod)
            .await?;
    }
    let template =
        json!({ "metadata": { "labels": labels }, "spec": { "containers": containers } });
    for (namespace, kind) in [
        ("kube-system", "DaemonSet"),
        ("default", "DaemonSet"),
        ("default", "Deployment"),
    ] {
        let workload = json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": "web" },
            "spec": { "selector": { "matchLabels": labels }, "template": template },
        });
        let collection = format!(
            "apis/apps/v1/namespaces/{namespace}/{}s",
            kind.to_lowercase()
        );
        member.create(&collection, &workload).await?;
    }
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "web" },
        "spec": { "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } } },
    });
    member
        .create(
            "apis/networking.k8s.io/v1/namespaces/default/ingresses",
            &ingress,
        )
        .await?;
    Ok(())
}

/// The rows of a status as text, with the time of each.
async fn rows(hub: &Objects, group: &str) -> Result<BTreeMap<String, String>> {
    let cache = hub.get(&path(group)).await?;
    let rows = cache["status"]["resources"]
        .as_array()
        .with_context(|| format!("no rows: {}", cache["status"]))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let row = |row: &Value| {
        let names = ["cluster", "apiVersion", "kind", "namespace"].map(|key| text(&row[key]));
        let state = format!(
            "{} {} {}",
            row["totalNum"],
            text(&row["state"]["phase"]),
            text(&row["state"]["reason"])
        );
        (
            format!("{} {state}", names.join(" ")),
            text(&row["updateTime"]),
        )
    };
    Ok(rows.iter().map(row).collect())
}

/// Waits until the status has exactly these rows, and returns the time of each.
async fn until_rows(
    hub: &Objects,
    group: &str,
    expected: &[&str],
) -> Tested<BTreeMap<String, String>> {
    Ok(
        until(&format!("the status in {group} is complete"), || async {
            let found = rows(hub, group).await?;
            let mut expected = expected.to_vec();
            expected.sort_unstable();
            let seen: Vec<&str> = found.keys().map(String::as_str).collect();
            ensure!(seen == expected, "{seen:#?}");
            Ok(found)
        })
        .await?,
    )
}

async fn until_not_cached(operator: &Operator, plural: &str) -> Tested {
    until(&format!("{plural} are no longer cached"), || async {
        let result = operator.run_command(&["get", plural, "-A"]).await?;
        ensure!(
            result.code != 0 && result.err.contains(plural),
            "{result:?}"
        );
        Ok(())
    })
    .await?;
    Ok(())
}

const ABSENT: &str = "no Cluster is named member3; join it, or remove it from clusterNames";

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn the_example_of_the_proposal_is_cached_and_its_status_reports_each_kind() -> Tested {
    let member_flags: Vec<&[&str]> = vec![&[], &["--runtime-config=apps/v1=false"]];
    let options = Options {
        members: 2,
        opensearch: OpenSearchKind::None,
        member_flags,
        ..Options::default()
    };
    let fleet = Fleet::start(options).await?;
    prepare(&fleet).await?;
    let hub = Objects::of(fleet.control_plane())?;
    let member = Objects::of(fleet.member(1))?;
    create_objects(&member).await?;
    let operator = start_operator(&fleet, &[]).await?;

    let example = repository_file("tests/manifests/clustercache.yaml")?;
    let kubectl = fleet.control_plane().kubectl()?;
    for group in GROUPS {
        kubectl.apply(&example.replace(GROUPS[0], group)).await?;
    }
    let mut expected = vec![
        "member1 v1 Pod  2 Running ",
        "member1 networking.k8s.io/v1 Ingress  1 Running ",
        "member1 apps/v1 DaemonSet kube-system 1 Running ",
        "member1 apps/v1 Deployment  1 Running ",
        "member2 v1 Pod  0 Running ",
        "member2 networking.k8s.io/v1 Ingress  0 Running ",
        r#"member2  DaemonSet  0 Failed the server doesn't have a resource type "DaemonSet""#,
        r#"member2  Deployment  0 Failed the server doesn't have a resource type "Deployment""#,
    ];
    let absent = [
        " DaemonSet kube-system",
        " Deployment ",
        " Pod ",
        "networking.k8s.io/v1 Ingress ",
    ];
    let absent = absent.map(|kind| format!("member3 {kind} 0 Failed {ABSENT}"));
    expected.extend(absent.iter().map(String::as_str));
    for group in GROUPS {
        until_rows(&hub, group, &expected).await?;
        let status = hub.get(&path(group)).await?["status"].take();
        assert_eq!(
            status["summary"],
            json!({ "running": 6, "failed": 6, "unknown": 0, "totalNum": 5 })
        );
        assert!(
            status["startTime"].is_string() && status["observedGeneration"] == 1,
            "{status}"
        );
    }
    // A kind that runs is shown as soon as it is known to be complete.
    until("the pods are shown", || async {
        let pods = operator.run_command("get pods -A -o name").await?;
        ensure!((pods.code, pods.out.lines().count()) == (0, 2), "{pods:?}");
        Ok(())
    })
    .await?;

    // Without changes no status is written, however short the period is.
    let [group, other] = GROUPS;
    let patch = json!({ "spec": { "statusUpdatePeriodSeconds": 1 } });
    hub.merge(&path(group), &patch).await?;
    until("the change is observed", || async {
        let cache = hub.get(&path(group)).await?;
        ensure!(
            cache["status"]["observedGeneration"] == 2,
            "{}",
            cache["status"]
        );
        Ok(())
    })
    .await?;
    let versions = async || {
        let mut versions = Vec::new();
        for group in GROUPS {
            versions.push(hub.get(&path(group)).await?["metadata"]["resourceVersion"].take());
        }
        Ok::<_, anyhow::Error>(versions)
    };
    let before = versions().await?;
    always("no status is written", Duration::from_secs(5), || async {
        let now = versions().await?;
        ensure!(now == before, "{now:?} after {before:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;

    // A pod is deleted: its row and the row's time change, and no other row.
    let times = rows(&hub, group).await?;
    member.delete("api/v1/namespaces/default/pods/two").await?;
    expected[0] = "member1 v1 Pod  1 Running ";
    let later = until_rows(&hub, group, &expected).await?;
    for (row, time) in &later {
        assert_eq!(
            times.get(row).is_none_or(|before| before != time),
            *row == expected[0],
            "{row}: {time}"
        );
    }

    // An unreachable member is Unknown after three periods; its cached objects can still be
    // queried.
    fleet.member(1).kill();
    until("the rows of member1 are Unknown", || async {
        let found = rows(&hub, group).await?;
        let mut of_member = found.keys().filter(|row| row.starts_with("member1 "));
        ensure!(of_member.all(|row| row.contains(" Unknown ")), "{found:#?}");
        ensure!(
            found
                .keys()
                .any(|row| row.starts_with("member1 v1 Pod  1 Unknown ")),
            "{found:#?}"
        );
        ensure!(found.keys().any(|row| row == expected[4]), "{found:#?}");
        Ok(())
    })
    .await?;
    let pods = operator.run_command("get pods -A -o name").await?;
    assert_eq!((pods.code, pods.out.lines().count()), (0, 1), "{pods:?}");
    fleet.member(1).restart().await?;
    until_rows(&hub, group, &expected).await?;

    // A cluster selector alone is enough, and an `exclude` applies to its own entry.
    let selectors = json!([{ "exclude": ["member1"] }, { "fieldSelector": { "matchExpressions": [
        { "key": "provider", "operator": "NotIn", "values": ["gcp"] }, { "key": "zone", "operator": "Exists" },
    ] }, "exclude": ["member2"] }]);
    let resources = json!([{ "kind": "Pod" }]);
    let patch =
        json!({ "spec": { "clusterSelectors": selectors, "resourceSelectors": resources } });
    hub.merge(&path(group), &patch).await?;
    until_rows(
        &hub,
        group,
        &["member1 v1 Pod  1 Running ", "member2 v1 Pod  0 Running "],
    )
    .await?;

    // Both are deleted, and with them their cached objects.
    hub.delete(&path(other)).await?;
    until_not_cached(&operator, "deployments").await?;
    assert_eq!(operator.run_command("get pods -A").await?.code, 0);
    hub.delete(&path(group)).await?;
    until_not_cached(&operator, "pods").await
}
