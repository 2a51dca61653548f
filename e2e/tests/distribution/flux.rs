//! A chart that members render for themselves, with Flux. Its controllers are played by the test.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::Result;
use e2e::{objects::Objects, scenario::until, test_result::Tested};
use serde_json::{Value, json};

use crate::fixture::{Distributing, binding_path, clusters, condition, path_of, policy, selector};

const HELM: &str = "helm.toolkit.fluxcd.io";
const SOURCE: &str = "source.toolkit.fluxcd.io";

/// A definition with as much of a schema as the test needs: that of Flux is too large. The default
/// of the status is that of Flux.
fn definition(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut status = any.clone();
    status["properties"] = json!({"observedGeneration": {"type": "integer", "format": "int64"}});
    status["default"] = json!({"observedGeneration": -1});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                "singular": kind.to_lowercase(),
            },
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": any, "status": status},
                }},
            }],
        },
    })
}

/// Flux is installed in each cluster, and its definitions alone at the control plane.
async fn install_definitions(objects: &Objects) -> Result<()> {
    for (group, version, kind, plural) in [
        (HELM, "v2", "HelmRelease", "helmreleases"),
        (SOURCE, "v1", "HelmRepository", "helmrepositories"),
    ] {
        let definition = definition(group, version, kind, plural);
        objects.apply(&path_of(&definition)?, &definition).await?;
        let collection = format!("apis/{group}/{version}/{plural}");
        until("the definitions are served", || objects.get(&collection)).await?;
    }
    Ok(())
}

/// An object of the namespace `default`.
fn object(api_version: &str, kind: &str, name: &str, members: &Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
    });
    let all = object.as_object_mut().unwrap();
    all.extend(members.as_object().unwrap().clone());
    object
}

/// A release, its source, and the credentials of that.
fn chart() -> [Value; 3] {
    let secret = json!({"stringData": {"username": "a", "password": "b"}});
    let repository = json!({"spec": {
        "interval": "5m", "url": "https://charts.example.com", "secretRef": {"name": "login"},
    }});
    let release = json!({"spec": {
        "interval": "10m",
        "chart": {"spec": {
            "chart": "podinfo", "version": "6.5.*",
            "sourceRef": {"kind": "HelmRepository", "name": "charts"},
        }},
        "values": {"replicaCount": 1},
        // A reference that is optional may name what is not there.
        "valuesFrom": [{"kind": "ConfigMap", "name": "absent", "optional": true}],
    }});
    [
        object(&format!("{HELM}/v2"), "HelmRelease", "web", &release),
        object(
            &format!("{SOURCE}/v1"),
            "HelmRepository",
            "charts",
            &repository,
        ),
        object("v1", "Secret", "login", &secret),
    ]
}

/// Applies the chart, with other values in `member2`, and returns the spec of its policy.
async fn distribute(fixture: &Distributing, release: &Value) -> Result<Value> {
    let overrides = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "resourceSelectors": [selector(release)],
            "overrideRules": [{
                "targetCluster": {"clusterNames": ["member2"]},
                "overriders": {"plaintext": [{
                    "path": "/spec/values/replicaCount", "operator": "replace", "value": 3,
                }]},
            }],
        },
    });
    fixture.apply(&overrides).await?;
    let spec = json!({
        "resourceSelectors": [selector(release)], "propagateDeps": true,
        "placement": clusters(&["member1", "member2"]),
    });
    fixture.apply(&policy("web", &spec)).await?;
    Ok(spec)
}

/// Writes what the controller of a member writes of a release. One that fails does not note the
/// generation as observed.
async fn report(fixture: &Distributing, member: usize, path: &str, failure: &str) -> Result<()> {
    let objects = &fixture.members[member - 1];
    let generation = objects.get(path).await?["metadata"]["generation"].clone();
    let (status, reason, message) = match failure {
        "" => ("True", "InstallSucceeded", "Helm install succeeded"),
        failure => ("False", "InstallFailed", failure),
    };
    let observed = if status == "True" {
        generation.clone()
    } else {
        json!(-1)
    };
    let status = json!({"status": {
        "observedGeneration": observed,
        "lastAttemptedRevision": "6.5.3",
        "history": [{"name": "web", "chartVersion": "6.5.3"}],
        "conditions": [{
            "type": "Ready", "status": status, "reason": reason, "message": message,
            "observedGeneration": generation, "lastTransitionTime": "2026-01-02T03:04:05Z",
        }],
    }});
    objects.merge(&format!("{path}/status"), &status).await?;
    Ok(())
}

/// What a binding says of a cluster.
fn item<'b>(binding: &'b Value, cluster: &str) -> &'b Value {
    let items = binding["status"]["aggregatedStatus"].as_array();
    let mut items = items.into_iter().flatten();
    items
        .find(|item| item["clusterName"] == cluster)
        .unwrap_or(&Value::Null)
}

#[tokio::test]
async fn a_release_goes_with_its_source_and_credentials_and_its_status_comes_back() -> Tested {
    let fixture = Distributing::start(2, &[]).await?;
    for objects in fixture.members.iter().chain([&fixture.hub]) {
        install_definitions(objects).await?;
    }
    let [release, repository, secret] = chart();
    for object in [&release, &repository, &secret] {
        fixture.apply(object).await?;
    }
    let mut spec = distribute(&fixture, &release).await?;

    // The source follows the release, and the Secret follows the source.
    let path = path_of(&release)?;
    let is_there = |_: &Value| true;
    for (member, replicas) in [(1, 1), (2, 3)] {
        fixture
            .until_member(member, &path, "it has its values", |found| {
                found["spec"]["values"]["replicaCount"] == replicas
            })
            .await?;
        for needed in [&repository, &secret] {
            let path = path_of(needed)?;
            fixture
                .until_member(member, &path, "it is needed", is_there)
                .await?;
        }
    }
    fixture
        .until_hub(&binding_path(&secret), "the source needs it", |binding| {
            let requirer = &binding["spec"]["requiredBy"][0]["name"];
            requirer == "charts-helmrepository.source.toolkit.fluxcd.io"
        })
        .await?;
    status_comes_back(&fixture, &release).await?;
    suspension_of_a_member_stays(&fixture, &release).await?;

    // What no member needs any more goes.
    spec["placement"] = clusters(&["member1"]);
    fixture.apply(&policy("web", &spec)).await?;
    for object in [&release, &repository, &secret] {
        fixture.until_gone(2, &path_of(object)?).await?;
    }
    let left = fixture.members[0].find(&path_of(&secret)?).await?;
    assert!(left.is_some());
    Ok(())
}

/// Binding and template say how the release is in both members.
async fn status_comes_back(fixture: &Distributing, release: &Value) -> Tested {
    let path = path_of(release)?;
    report(fixture, 1, &path, "").await?;
    report(fixture, 2, &path, "timed out").await?;
    let failed = fixture
        .until_hub(&path, "member2 is not ready", |found| {
            condition(found, "Ready")["message"] == "ready in 1 of 2 clusters; member2: timed out"
        })
        .await?;
    assert_eq!(condition(&failed, "Ready")["status"], "False");
    assert_eq!(condition(&failed, "Ready")["reason"], "InstallFailed");
    let binding = fixture
        .until_hub(&binding_path(release), "both report", |binding| {
            item(binding, "member1")["health"] == "Healthy"
                && item(binding, "member2")["health"] == "Unhealthy"
        })
        .await?;
    let reported = &item(&binding, "member2")["status"];
    assert_eq!(reported["lastAttemptedRevision"], "6.5.3");
    assert_eq!(reported["history"], Value::Null);

    report(fixture, 2, &path, "").await?;
    let ready = fixture
        .until_hub(&path, "it is ready", |found| {
            condition(found, "Ready")["status"] == "True"
        })
        .await?;
    let message = &condition(&ready, "Ready")["message"];
    assert_eq!(message, "ready in 2 of 2 clusters");
    assert_eq!(ready["status"]["lastAttemptedRevision"], "6.5.3");
    let observed = &ready["status"]["observedGeneration"];
    assert_eq!(*observed, ready["metadata"]["generation"]);
    Ok(())
}

/// `flux suspend` in a member holds, while other fields of the template still reach it.
async fn suspension_of_a_member_stays(fixture: &Distributing, release: &Value) -> Tested {
    let path = path_of(release)?;
    let suspended = json!({"spec": {"suspend": true}});
    fixture.members[0].merge(&path, &suspended).await?;
    let mut changed = release.clone();
    changed["spec"]["interval"] = "20m".into();
    fixture.apply(&changed).await?;
    let found = fixture
        .until_member(1, &path, "it has the new interval", |found| {
            found["spec"]["interval"] == "20m"
        })
        .await?;
    assert_eq!(found["spec"]["suspend"], true);
    Ok(())
}
