//! Folders.

use e2e::test_result::{Tested, assert_contains};
use serde_json::json;

use crate::fixture::{Workshop, names};

/// A base, a component, an overlay with a generator and a patch.
fn write_folder(workshop: &Workshop) {
    workshop.write(&[
        ("deploy/base/kustomization.yaml", "resources: [web.yaml]\n"),
        (
            "deploy/base/web.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n\
             spec:\n  replicas: 1\n  selector: {matchLabels: {app: web}}\n  template:\n    \
             metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: nginx}]}\n",
        ),
        (
            "deploy/components/debug/kustomization.yaml",
            "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n\
             patches:\n- target: {kind: Deployment}\n  \
             patch: '- {op: add, path: /metadata/annotations, value: {debug: enabled}}'\n",
        ),
        (
            "deploy/overlays/prod/kustomization.yaml",
            "resources: [../../base]\ncomponents: [../../components/debug]\nnamePrefix: prod-\n\
             configMapGenerator: [{name: settings, files: [settings.txt]}]\n\
             patches: [{path: replicas.yaml}]\n",
        ),
        ("deploy/overlays/prod/settings.txt", "colour=green\n"),
        (
            "deploy/overlays/prod/replicas.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3}\n",
        ),
    ]);
}

#[tokio::test]
async fn bases_components_generators_and_patches_are_built() -> Tested {
    let workshop = Workshop::new();
    write_folder(&workshop);
    let source = json!({"kustomize": {"path": "overlays/prod"}});
    let objects = workshop.objects(&source, &["--folder", "deploy"]).await?;
    let found = names(&objects);
    assert!(
        found[0].starts_with("ConfigMap prod-settings-"),
        "{found:?}"
    );
    assert_eq!(found[1..], ["Deployment prod-web"]);
    assert_eq!(objects[0]["data"]["settings.txt"], "colour=green\n");
    assert_eq!(objects[1]["spec"]["replicas"], 3);
    assert_eq!(objects[1]["metadata"]["annotations"]["debug"], "enabled");
    assert_eq!(objects[1]["metadata"]["namespace"], "shop");
    Ok(())
}

#[tokio::test]
async fn a_distribution_changes_images_the_namespace_and_what_patches_say() -> Tested {
    let workshop = Workshop::new();
    write_folder(&workshop);
    let source = json!({"kustomize": {
        "path": "overlays/prod",
        "namespace": "green",
        "images": [{"name": "nginx", "newName": "mirror/nginx", "newTag": "1.29"}],
        "patches": [{
            "target": {"kind": "Deployment"},
            "patch": "- {op: replace, path: /spec/replicas, value: 7}",
        }],
    }});
    let objects = workshop.objects(&source, &["--folder", "deploy"]).await?;
    let deployment = &objects[1];
    assert_eq!(deployment["metadata"]["namespace"], "green");
    assert_eq!(deployment["spec"]["replicas"], 7);
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "mirror/nginx:1.29");
    Ok(())
}

#[tokio::test]
async fn paths_and_kustomizations_that_are_missing_are_named() -> Tested {
    let workshop = Workshop::new();
    write_folder(&workshop);
    for (path, expected) in [
        ("overlays/test", "the folder has no overlays/test"),
        ("../..", "the folder has no ../.."),
        ("overlays", "kustomize failed"),
    ] {
        let source = json!({"kustomize": {"path": path}});
        let failed = workshop.render(&source, &["--folder", "deploy"]).await?;
        assert!(!failed.success);
        assert_contains(&failed.err, expected);
    }
    Ok(())
}
