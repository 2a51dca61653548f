use std::{fs, path::Path};

use serde_json::{Value, json};

use super::*;

const MANIFESTS: &str = r"
apiVersion: distribute.fleetdex.io/v1alpha1
kind: Distribution
metadata: {name: web, namespace: shop}
spec:
  source:
    manifests:
      inline: |
        apiVersion: example.com/v1
        kind: Fleet
        metadata: {name: all, namespace: x}
        ---
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web}
        ---
        apiVersion: v1
        kind: Namespace
        metadata: {name: shop}
        ---
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: fleets.example.com}
        spec: {group: example.com, names: {kind: Fleet}, scope: Cluster}
";

struct Rendered {
    result: Result<(), String>,
    out: String,
    err: String,
}

async fn rendered(text: &str, change: impl FnOnce(&mut RenderArgs, &Path)) -> Rendered {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    fs::write(&file, text).unwrap();
    let mut args = RenderArgs {
        filenames: vec![file.display().to_string()],
        recursive: false,
        cluster: None,
        kubernetes_version: String::new(),
        api_versions: Vec::new(),
        show_hooks: false,
        format: RenderFormat::Json,
        local: LocalSourceArgs::default(),
        control_plane: ControlPlaneArgs::default(),
    };
    change(&mut args, folder.path());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut console = Console {
        out: &mut out,
        err: &mut err,
        has_colours: false,
    };
    let result = render(&args, &mut io::empty(), &mut console).await;
    let folder = format!("{}/", folder.path().display());
    Rendered {
        result: result.map_err(|error| fleetdex_core::model::causes(&error).replace(&folder, "")),
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}

#[tokio::test]
async fn manifests_are_printed_in_order_with_their_namespaces() {
    let printed = rendered(MANIFESTS, |_, _| {}).await;
    assert_eq!(printed.result, Ok(()));
    let list: Value = serde_json::from_str(&printed.out).unwrap();
    let objects: Vec<Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| json!([one["kind"], one["metadata"]["namespace"]]))
        .collect();
    assert_eq!(
        objects,
        [
            json!(["Namespace", null]),
            json!(["CustomResourceDefinition", null]),
            json!(["Deployment", "shop"]),
            json!(["Fleet", null]),
        ]
    );
    let yaml = rendered(MANIFESTS, |args, _| args.format = RenderFormat::Yaml).await;
    assert!(
        yaml.out
            .starts_with("---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n---\n"),
        "{}",
        yaml.out
    );
}

#[tokio::test]
async fn manifests_come_from_config_maps_as_well() {
    let text = r"
apiVersion: distribute.fleetdex.io/v1alpha1
kind: Distribution
metadata: {name: web, namespace: shop}
spec: {source: {manifests: {configMapRef: {name: web, key: all.yaml}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: shop}
data:
  all.yaml: |
    {apiVersion: v1, kind: Secret, metadata: {name: a}}
";
    let printed = rendered(text, |_, _| {}).await;
    assert_eq!(printed.result, Ok(()));
    assert!(printed.out.contains("\"name\": \"a\""), "{}", printed.out);
    for (from, to, expected) in [
        (
            "key: all.yaml",
            "key: b",
            "ConfigMap shop/web has no key \"b\"",
        ),
        (
            "configMapRef: {name: web",
            "configMapRef: {name: other",
            "ConfigMap shop/other is in no file of --filename: add it",
        ),
    ] {
        let printed = rendered(&text.replace(from, to), |_, _| {}).await;
        assert_eq!(printed.result, Err(expected.to_owned()));
    }
}

#[tokio::test]
async fn what_is_not_applied_is_said() {
    let text = |spec: &str| {
        format!(
            "apiVersion: distribute.fleetdex.io/v1alpha1\nkind: Distribution\nmetadata: {{name: web}}\n\
             spec: {{source: {{manifests: {{inline: ''}}}}{spec}}}\n"
        )
    };
    let rules = ", placement: {}, overrides: [{overriders: {}}]";
    for (spec, expected) in [("", ""), (rules, "web: without placement and overrides: ")] {
        let printed = rendered(&text(spec), |_, _| {}).await;
        assert_eq!(printed.result, Ok(()));
        assert!(printed.err.contains(expected), "{}", printed.err);
        assert_eq!(
            printed.err.is_empty(),
            expected.is_empty(),
            "{}",
            printed.err
        );
    }
}

fn helm(source: &str) -> String {
    format!(
        "apiVersion: distribute.fleetdex.io/v1alpha1\nkind: Distribution\nmetadata: {{name: web}}\n\
         spec: {{source: {{helm: {source}}}}}\n"
    )
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let none = rendered("kind: A\napiVersion: v1\n", |_, _| {}).await;
    assert_eq!(
        none.result,
        Err(
            "no file of --filename has a Distribution of distribute.fleetdex.io/v1alpha1"
                .to_owned()
        )
    );
    for (source, expected) in [
        (
            "{}",
            "Distribution web: spec.source names neither an address nor a ConfigMap",
        ),
        (
            "{chart: web, valuesFrom: [{kind: Secret, name: a}]}",
            "Secret default/a is in no file of --filename: add it",
        ),
        (
            "{chart: web}",
            "\"web\" is no address of an OCI artifact, such as \
             oci://registry.example.com/charts/web: it has to begin with oci://",
        ),
        (
            "{chart: a}, manifests: {inline: a}",
            "Distribution web: use exactly one of helm, kustomize and manifests in spec.source",
        ),
    ] {
        let printed = rendered(&helm(source), |_, _| {}).await;
        assert_eq!(printed.result, Err(expected.to_owned()));
    }
    let chart = helm("{chart: web}");
    let folder = rendered(&chart, |args, folder| {
        args.local.folder = Some(folder.to_owned());
    });
    assert_eq!(
        folder.await.result,
        Err("Distribution web: --folder is given, but its source is helm".to_owned())
    );
    let cluster = "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: a}\n\
                   spec: {}\n";
    let with_cluster = chart.clone() + cluster;
    let without_status = rendered(&with_cluster, |args, _| {
        args.cluster = Some("a".to_owned());
    });
    let error = without_status.await.result.unwrap_err();
    assert!(
        error.starts_with("the status of Cluster a does not have its version"),
        "{error}"
    );
    let missing = rendered(&chart, |args, folder| {
        args.local.chart = Some(folder.join("none"));
    });
    assert_eq!(
        missing.await.result,
        Err("cannot read \"none\": No such file or directory (os error 2)".to_owned())
    );
}
