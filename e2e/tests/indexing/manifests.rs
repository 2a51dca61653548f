//! The founding examples and the refused specs, applied with kubectl.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{collections::BTreeMap, sync::Arc};

use e2e::{
    fleet::{Fleet, OpenSearchKind, Options, SharedFleet},
    kubectl::Kubectl,
    scenario::{prepare, repository_file, until},
    test_result::Tested,
};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Example {
    file: String,
    needs: Option<String>,
    outcome: Value,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Refusal {
    spec: Value,
    error: String,
}

/// Objects of `config.karmada.io`: valid ones by their kind, and what makes them invalid.
#[derive(Deserialize)]
struct InterpreterRefusals {
    valid: BTreeMap<String, Value>,
    refused: Vec<InterpreterRefusal>,
}

#[derive(Deserialize)]
struct InterpreterRefusal {
    kind: String,
    #[serde(default)]
    webhook: serde_json::Map<String, Value>,
    #[serde(default)]
    spec: serde_json::Map<String, Value>,
    error: String,
}

/// Objects of distribution: valid specs by their kinds, and members that make them invalid.
#[derive(Deserialize)]
struct DistributionRefusals {
    valid: BTreeMap<String, Value>,
    refused: Vec<DistributionRefusal>,
}

#[derive(Deserialize)]
struct DistributionRefusal {
    kind: String,
    spec: serde_json::Map<String, Value>,
    error: String,
}

/// A control plane with our CRDs, those of distribution included, without members.
async fn control_plane() -> (Arc<SharedFleet>, Kubectl) {
    let fleet = Fleet::shared(Options::of(0, OpenSearchKind::None))
        .await
        .unwrap();
    prepare(&fleet).await.unwrap();
    let kubectl = fleet.control_plane().kubectl().unwrap();
    for file in fleetdex_cli::crd::of_distribution() {
        let yaml = file.yaml().unwrap();
        kubectl.apply_server_side(&yaml).await.unwrap();
    }
    let wait = "wait --for=condition=Established crd --all --timeout=60s";
    kubectl.run(wait).await.unwrap();
    (fleet, kubectl)
}

#[tokio::test]
async fn every_founding_example_has_its_declared_outcome() -> Tested {
    let (_fleet, kubectl) = control_plane().await;
    let examples: Vec<Example> =
        serde_saphyr::from_str(&repository_file("tests/manifests/outcomes.yaml")?)?;
    let mut wrong = Vec::new();
    for example in &examples {
        if let Some(needed) = &example.needs {
            kubectl
                .apply(&repository_file(&format!(
                    "tests/manifests/needs/{needed}"
                ))?)
                .await?;
        }
        let manifest = repository_file(&format!("tests/manifests/{}", example.file))?;
        let applies = example.outcome == "applies";
        let outcome = if applies && example.needs.is_some() {
            // A CRD is served shortly after it is accepted.
            until(&example.file, || kubectl.apply(&manifest)).await
        } else {
            kubectl.apply(&manifest).await
        };
        match (applies, outcome) {
            (true, Ok(_)) => {}
            (true, Err(error)) => wrong.push(format!("{} should apply: {error}", example.file)),
            (false, Ok(_)) => wrong.push(format!("{} applies: declare it so", example.file)),
            (false, Err(error)) => {
                let declared = example.error.as_deref().unwrap();
                if !error.to_string().contains(declared) {
                    wrong.push(format!(
                        "{} is refused with {error}, not with {declared}",
                        example.file
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Applies every spec of a file, and returns those that are not refused as declared.
async fn wrongly_accepted(kind: &str, group: &str, file: &str) -> Tested<Vec<String>> {
    let (_fleet, kubectl) = control_plane().await;
    let refusals: Vec<Refusal> = serde_saphyr::from_str(&repository_file(file)?)?;
    let mut wrong = Vec::new();
    for Refusal { spec, error } in refusals {
        let object = json!({
            "apiVersion": format!("{group}/v1alpha1"), "kind": kind,
            "metadata": { "name": "refused" }, "spec": spec,
        });
        match kubectl.apply(&object.to_string()).await {
            Ok(_) => wrong.push(format!("accepted: {spec}")),
            Err(refused) if refused.to_string().contains(&error) => {}
            Err(refused) => wrong.push(format!(
                "{spec}\n  is refused with {refused}\n  and not with {error}"
            )),
        }
    }
    Ok(wrong)
}

#[tokio::test]
async fn every_wrong_spec_is_refused_with_what_is_wrong() -> Tested {
    let wrong = wrongly_accepted(
        "ResourceRegistry",
        "search.karmada.io",
        "tests/refusals.yaml",
    )
    .await?;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[tokio::test]
async fn every_wrong_cache_is_refused_in_both_groups() -> Tested {
    for group in ["cluster.karmada.io", "clustercaches.karmada.io"] {
        let wrong = wrongly_accepted("ClusterCache", group, "tests/cache-refusals.yaml").await?;
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
    Ok(())
}

#[tokio::test]
async fn every_wrong_interpreter_is_refused_with_what_is_wrong() -> Tested {
    let (_fleet, kubectl) = control_plane().await;
    let text = repository_file("tests/interpreter-refusals.yaml")?;
    let InterpreterRefusals { valid, refused } = serde_saphyr::from_str(&text)?;
    let object = |kind: &str| {
        let mut object = valid[kind].clone();
        object["apiVersion"] = json!("config.karmada.io/v1alpha1");
        object["kind"] = json!(kind);
        object["metadata"] = json!({"name": "interpreter"});
        object
    };
    for kind in valid.keys() {
        kubectl.apply(&object(kind).to_string()).await?;
    }
    for refusal in refused {
        let mut object = object(&refusal.kind);
        for (member, value) in refusal.webhook {
            object["webhooks"][0][member] = value;
        }
        for (member, value) in refusal.spec {
            object["spec"][member] = value;
        }
        let error = kubectl.apply(&object.to_string()).await.unwrap_err();
        assert!(
            error.to_string().contains(&refusal.error),
            "{object}\n  is refused with {error}\n  and not with {}",
            refusal.error
        );
    }
    Ok(())
}

fn distribution_object(kind: &str, name: &str, spec: &Value) -> Value {
    let api_version = match kind {
        "ResourceBinding" | "ClusterResourceBinding" => "work.karmada.io/v1alpha2",
        "WorkloadRebalancer" => "apps.karmada.io/v1alpha1",
        _ => "policy.karmada.io/v1alpha1",
    };
    json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name }, "spec": spec })
}

#[tokio::test]
async fn every_wrong_policy_and_binding_is_refused_with_what_is_wrong() -> Tested {
    let (_fleet, kubectl) = control_plane().await;
    let text = repository_file("tests/distribution-refusals.yaml")?;
    let DistributionRefusals { valid, refused } = serde_saphyr::from_str(&text)?;
    for (kind, spec) in &valid {
        let object = distribution_object(kind, "valid", spec).to_string();
        // A CRD is served shortly after it is accepted.
        until(kind, || kubectl.apply(&object)).await?;
    }
    let mut wrong = Vec::new();
    for refusal in refused {
        let mut spec = valid[&refusal.kind].clone();
        for (member, value) in refusal.spec {
            spec[member] = value;
        }
        let object = distribution_object(&refusal.kind, "refused", &spec);
        match kubectl.apply(&object.to_string()).await {
            Ok(_) => wrong.push(format!("accepted: {object}")),
            Err(error) if error.to_string().contains(&refusal.error) => {}
            Err(error) => wrong.push(format!(
                "{object}\n  is refused with {error}\n  and not with {}",
                refusal.error
            )),
        }
    }
    let mut spec = valid["PropagationPolicy"].clone();
    spec["schedulerName"] = json!("another");
    let changed = distribution_object("PropagationPolicy", "valid", &spec);
    match kubectl.apply(&changed.to_string()).await {
        Err(error) if error.to_string().contains("schedulerName is immutable") => {}
        other => wrong.push(format!("another schedulerName: {other:?}")),
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
