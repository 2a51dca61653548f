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

/// A control plane with our CRDs, without members.
async fn control_plane() -> (Arc<SharedFleet>, Kubectl) {
    let fleet = Fleet::shared(Options::of(0, OpenSearchKind::None))
        .await
        .unwrap();
    prepare(&fleet).await.unwrap();
    let kubectl = fleet.control_plane().kubectl().unwrap();
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
