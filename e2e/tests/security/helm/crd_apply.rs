//! `fleetdex crd apply` on real control planes.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use e2e::{
    fleet::{Fleet, OpenSearchKind, Options},
    karmada::{CUSTOMIZATIONS, install_customizations},
    objects::Objects,
    test_result::Tested,
};
use serde_json::{Value, json};

use super::tool::{crd, each_crd_is, fleetdex};

const REGISTRIES: &str = "resourceregistries.search.karmada.io";
const WEBHOOKS: &str = "resourceinterpreterwebhookconfigurations.config.karmada.io";
const CRDS: &str = "apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const API_SERVICES: &str = "apis/apiregistration.k8s.io/v1/apiservices";
const APPLY: [&str; 2] = ["crd", "apply"];

async fn fleet_of_two() -> Tested<Fleet> {
    let options = Options::of(1, OpenSearchKind::None);
    Ok(Fleet::start(options).await?)
}

/// The CRD with a property more, as a later version that drops it finds it.
fn with_a_dropped_field(name: &str) -> Value {
    let all = fleetdex_cli::crd::all();
    let found = all
        .into_iter()
        .find(|file| file.crd.metadata.name.as_deref() == Some(name));
    let mut crd = serde_json::to_value(found.unwrap().crd).unwrap();
    crd["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("annotations");
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"]["dropped"] = json!({ "type": "string" });
    crd
}

fn dropped(crd: &Value) -> &Value {
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    &schema["properties"]["spec"]["properties"]["dropped"]
}

#[tokio::test]
async fn crds_are_created_updated_and_never_replaced_by_older_ones() -> Tested {
    let fleet = fleet_of_two().await?;
    let server = fleet.control_plane();
    let (hub, kubeconfig) = (Objects::of(server)?, server.kubeconfig());

    let printed = fleetdex(&kubeconfig, &["crd", "apply", "--dry-run"]).await;
    assert!(printed.success, "{}", printed.text);
    each_crd_is(&printed.text, "created (dry run)").unwrap();
    assert!(crd(&hub, REGISTRIES).await.is_none());

    // Of an earlier version, which helm or kubectl has installed.
    for (name, manager) in [(REGISTRIES, "helm"), (CUSTOMIZATIONS, "kubectl")] {
        let path = format!("{CRDS}?fieldManager={manager}");
        hub.create(&path, &with_a_dropped_field(name)).await?;
    }
    let printed = fleetdex(&kubeconfig, &APPLY).await;
    assert!(printed.success, "{}", printed.text);
    for (name, result) in [
        (REGISTRIES, "updated"),
        (CUSTOMIZATIONS, "updated"),
        (WEBHOOKS, "created"),
    ] {
        let line = format!("{name}: {result}\n");
        assert!(printed.text.contains(&line), "{line}{}", printed.text);
    }
    for name in [REGISTRIES, CUSTOMIZATIONS] {
        let found = crd(&hub, name).await.unwrap();
        assert!(
            dropped(&found).is_null(),
            "{name} keeps a field that the new version does not have"
        );
    }
    // They are served when the command ends, but for what the API server itself still publishes.
    let custom = crd(&hub, WEBHOOKS).await.unwrap();
    assert!(
        custom["status"]["conditions"]
            .to_string()
            .contains("Established")
    );

    let printed = fleetdex(&kubeconfig, &APPLY).await;
    each_crd_is(&printed.text, "unchanged").unwrap();

    of_distribution_are(&kubeconfig, "created", "created").await;
    of_distribution_are(&kubeconfig, "unchanged", "unchanged").await;

    let newer = json!({ "metadata": { "annotations": { "fleetdex.io/version": "99.0.0" } } });
    hub.merge(&format!("{CRDS}/{REGISTRIES}"), &newer).await?;
    let printed = fleetdex(&kubeconfig, &APPLY).await;
    let refused = format!("{REGISTRIES}: refused: it is of Fleetdex 99.0.0, which is newer than");
    assert!(
        !printed.success && printed.text.contains(&refused),
        "{}",
        printed.text
    );
    let printed = fleetdex(&kubeconfig, &["crd", "apply", "--keep-newer"]).await;
    let kept = format!("{REGISTRIES}: left alone: it is of Fleetdex 99.0.0");
    assert!(
        printed.success && printed.text.contains(&kept),
        "{}",
        printed.text
    );
    let found = crd(&hub, REGISTRIES).await.unwrap();
    assert_eq!(
        found["metadata"]["annotations"]["fleetdex.io/version"],
        "99.0.0"
    );
    no_rights_and_terminating(&fleet, &hub).await
}

/// Applies those of distribution as well, of which those that Karmada has, too, have the first
/// result, and the others the second one.
async fn of_distribution_are(kubeconfig: &Path, of_karmada: &str, others: &str) {
    let printed = fleetdex(kubeconfig, &["crd", "apply", "--distribute"]).await;
    assert!(printed.success, "{}", printed.text);
    for file in fleetdex_cli::crd::of_distribution() {
        let name = file.crd.metadata.name.unwrap();
        let is_of_karmada = name.ends_with(".karmada.io");
        let result = if is_of_karmada { of_karmada } else { others };
        let line = format!("{name}: {result}\n");
        assert!(printed.text.contains(&line), "{line}{}", printed.text);
    }
}

/// Errors that say what to do.
async fn no_rights_and_terminating(fleet: &Fleet, hub: &Objects) -> Tested {
    let server = fleet.control_plane();
    let of_alice = server.kubeconfig().with_extension("alice");
    std::fs::write(&of_alice, server.kubeconfig_of("alice")?)?;
    let printed = fleetdex(&of_alice, &APPLY).await;
    assert!(
        !printed.success
            && printed.text.contains("cannot get APIService")
            && printed
                .text
                .contains("it needs get, create and patch on Fleetdex's CRDs"),
        "{}",
        printed.text
    );
    let held = json!({ "metadata": { "finalizers": ["example.io/hold"] } });
    let path = format!("{CRDS}/{CUSTOMIZATIONS}");
    hub.merge(&path, &held).await?;
    hub.delete(&path).await?;
    let printed = fleetdex(&server.kubeconfig(), &["crd", "apply", "--keep-newer"]).await;
    assert!(
        !printed.success && printed.text.contains("is being deleted"),
        "{}",
        printed.text
    );
    let free = json!({ "metadata": { "finalizers": [] } });
    hub.merge(&path, &free).await?;
    Ok(())
}

/// Registers the groups that Karmada's API servers answer for, and creates one of its CRDs, as its
/// generator writes them.
async fn make_karmada(hub: &Objects) -> Tested<Value> {
    for (group, service) in [
        ("cluster.karmada.io", "karmada-aggregated-apiserver"),
        ("search.karmada.io", "karmada-search"),
    ] {
        let name = format!("v1alpha1.{group}");
        let api_service = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": { "name": name },
            "spec": {
                "group": group, "version": "v1alpha1", "groupPriorityMinimum": 2000, "versionPriority": 10,
                "insecureSkipTLSVerify": true,
                "service": { "namespace": "karmada-system", "name": service },
            },
        });
        hub.apply(&format!("{API_SERVICES}/{name}"), &api_service)
            .await?;
    }
    Ok(install_customizations(hub).await?)
}

#[tokio::test]
async fn what_is_karmadas_is_left_alone() -> Tested {
    let fleet = fleet_of_two().await?;
    let server = fleet.member(1);
    let (hub, kubeconfig) = (Objects::of(server)?, server.kubeconfig());
    let of_karmada = make_karmada(&hub).await?;

    let printed = fleetdex(&kubeconfig, &APPLY).await;
    assert!(printed.success, "{}", printed.text);
    let of_search = "left alone: APIService v1alpha1.search.karmada.io belongs to Service karmada-system/karmada-search, which would hide the CRD";
    let of_cluster = "left alone: APIService v1alpha1.cluster.karmada.io belongs to Service karmada-system/karmada-aggregated-apiserver, which would hide the CRD";
    for (name, result) in [
        (REGISTRIES, of_search),
        ("clusters.cluster.karmada.io", of_cluster),
        ("clustercaches.cluster.karmada.io", of_cluster),
        ("clustercaches.clustercaches.karmada.io", "created"),
        (
            CUSTOMIZATIONS,
            "left alone: it is not of Fleetdex, which uses its objects as they are",
        ),
        (
            WEBHOOKS,
            "left alone: this is a Karmada control plane, and Karmada installs it",
        ),
        (
            "resourceexploringwebhookconfigurations.config.karmada.io",
            "created",
        ),
    ] {
        let line = format!("{name}: {result}\n");
        assert!(printed.text.contains(&line), "{line}{}", printed.text);
        assert_eq!(
            crd(&hub, name).await.is_some(),
            result == "created" || name == CUSTOMIZATIONS
        );
    }
    let expected = "left alone: this is a Karmada control plane, and Karmada installs it";
    of_distribution_are(&kubeconfig, expected, "created").await;
    let after = crd(&hub, CUSTOMIZATIONS).await.unwrap();
    assert_eq!(after["spec"], of_karmada["spec"]);
    assert_eq!(
        after["metadata"]["annotations"],
        of_karmada["metadata"]["annotations"]
    );
    let managers = after["metadata"]["managedFields"].to_string();
    assert!(!managers.contains("\"fleetdex\""), "{managers}");

    // Without karmada-search the registries are Fleetdex's.
    hub.delete(&format!("{API_SERVICES}/v1alpha1.search.karmada.io"))
        .await?;
    let printed = fleetdex(&kubeconfig, &APPLY).await;
    let line = format!("{REGISTRIES}: created\n");
    assert!(
        printed.success && printed.text.contains(&line),
        "{}",
        printed.text
    );
    Ok(())
}
