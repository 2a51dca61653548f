//! Charts.

#![allow(clippy::unwrap_used, reason = "a test")]

use e2e::{
    operator::fleetdex_program,
    test_result::{Tested, assert_contains},
};
use fleetdex_rendering::{
    cache::RenderCache,
    hooks::{HookDeletePolicy, HookEvent},
    renderer::RenderLimits,
    source::Capabilities,
};
use serde_json::{Map, Value, json};

use crate::fixture::{Workshop, names, of_chart};

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata:\n";

#[tokio::test]
async fn the_chart_that_helm_creates_is_rendered_as_helm_renders_it() -> Tested {
    let workshop = Workshop::new();
    workshop.run_helm(&["create", "web"]).await?;
    let source = json!({"helm": {"chart": "web", "values": {"autoscaling": {"enabled": true}}}});
    let objects = workshop.objects(&source, &["--chart", "web"]).await?;
    assert_eq!(
        names(&objects),
        [
            "ServiceAccount web",
            "Service web",
            "Deployment web",
            "HorizontalPodAutoscaler web"
        ]
    );
    for object in &objects {
        assert_eq!(object["metadata"]["namespace"], "shop");
    }
    let template = [
        "template",
        "web",
        "web",
        "-n",
        "shop",
        "--set",
        "autoscaling.enabled=true",
    ];
    let expected = workshop
        .run_helm(&[&template[..], &["--no-hooks"]].concat())
        .await?;
    for object in &objects {
        let image = &object["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_contains(&expected, image.as_str().unwrap_or("kind"));
    }
    // Its test is a hook that nothing runs.
    let with_hooks = workshop
        .objects(&source, &["--chart", "web", "--show-hooks"])
        .await?;
    assert_eq!(with_hooks.len(), objects.len());
    Ok(())
}

#[tokio::test]
async fn definitions_come_first_hooks_last_and_dependencies_are_rendered() -> Tested {
    let workshop = Workshop::new();
    let definition = |kind: &str| {
        let plural = kind.to_lowercase();
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
             metadata: {{name: {plural}s.example.com}}\n\
             spec: {{group: example.com, names: {{kind: {kind}, plural: {plural}s}}, scope: Cluster}}\n"
        )
    };
    let job = |name: &str, annotations: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  annotations: {{{annotations}}}\n"
        )
    };
    let chart = workshop.chart(&[
        ("crds/shop.yaml", &definition("Shop")),
        (
            "charts/db/Chart.yaml",
            "apiVersion: v2\nname: db\nversion: 1.0.0\n",
        ),
        ("charts/db/crds/table.yaml", &definition("Table")),
        (
            "charts/db/templates/db.yaml",
            &CONFIG_MAP.replace("web", "db"),
        ),
        (
            "templates/shop.yaml",
            "apiVersion: example.com/v1\nkind: Shop\nmetadata: {name: one}\n",
        ),
        (
            "templates/all.yaml",
            &CONFIG_MAP.replace("web", "{{ .Release.Name }}"),
        ),
        (
            "templates/late.yaml",
            &job(
                "late",
                "helm.sh/hook: pre-install, helm.sh/hook-weight: '5'",
            ),
        ),
        (
            "templates/early.yaml",
            &job(
                "early",
                "helm.sh/hook: 'pre-install,pre-upgrade', helm.sh/hook-weight: '-5', \
                 helm.sh/hook-delete-policy: hook-succeeded",
            ),
        ),
        ("templates/test.yaml", &job("test", "helm.sh/hook: test")),
        (
            "templates/NOTES.txt",
            "Installed {{ .Release.Name }} in {{ .Release.Namespace }}.\n",
        ),
    ]);
    workshop.write(&[(
        "web/Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 1.2.3\ndependencies: [{name: db, version: 1.0.0}]\n",
    )]);
    let source = json!({"helm": {"chart": "web", "releaseName": "green", "namespace": "other"}});
    let objects = workshop
        .objects(&source, &["--chart", "web", "--show-hooks"])
        .await?;
    assert_eq!(
        names(&objects),
        [
            "CustomResourceDefinition shops.example.com",
            "CustomResourceDefinition tables.example.com",
            "ConfigMap db",
            "ConfigMap green",
            "Shop one",
            "Job early",
            "Job late",
        ]
    );
    assert_eq!(objects[3]["metadata"]["namespace"], "other");
    assert_eq!(objects[4]["metadata"]["namespace"], Value::Null);

    let renderer = workshop.renderer(RenderLimits::default());
    let set = renderer
        .render(&of_chart(&chart, Map::new()), &Capabilities::default())
        .await?;
    assert_eq!(set.notes.trim(), "Installed web in shop.");
    assert_eq!(set.crds.len(), 2);
    let early = &set.hooks[0];
    assert!(early.events.contains(&HookEvent::PreUpgrade));
    assert!(
        early
            .delete_policies
            .contains(&HookDeletePolicy::HookSucceeded)
    );
    Ok(())
}

#[tokio::test]
async fn charts_are_rendered_for_the_versions_of_clusters() -> Tested {
    let workshop = Workshop::new();
    workshop.chart(&[(
        "templates/all.yaml",
        &format!(
            "{CONFIG_MAP}  version: {{{{ .Capabilities.KubeVersion.Version }}}}\n  \
             monitoring: '{{{{ .Capabilities.APIVersions.Has \"monitoring.coreos.com/v1\" }}}}'\n"
        ),
    )]);
    let source = json!({"helm": {"chart": "web"}});
    for (arguments, version, monitoring) in [
        (&["--kubernetes-version", "1.33.1"][..], "v1.33.1", "false"),
        (
            &[
                "--kubernetes-version",
                "v1.36.0",
                "--api-versions",
                "monitoring.coreos.com/v1",
            ][..],
            "v1.36.0",
            "true",
        ),
    ] {
        let arguments = [&["--chart", "web"], arguments].concat();
        let objects = workshop.objects(&source, &arguments).await?;
        assert_eq!(
            objects[0]["data"],
            json!({"version": version, "monitoring": monitoring})
        );
    }
    // The chart itself is checked against that version, by helm.
    workshop.write(&[(
        "web/Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 1.2.3\nkubeVersion: '>=1.40.0'\n",
    )]);
    let refused = workshop
        .render(
            &source,
            &["--chart", "web", "--kubernetes-version", "1.33.1"],
        )
        .await?;
    assert!(!refused.success);
    assert_contains(&refused.err, "chart requires kubeVersion: >=1.40.0");
    Ok(())
}

#[tokio::test]
async fn values_are_merged_as_helm_merges_files() -> Tested {
    let workshop = Workshop::new();
    workshop.chart(&[
        (
            "values.yaml",
            "a: chart\nb: chart\nc: chart\nm: {one: chart, two: chart, three: chart}\nnumber: 1000000\n",
        ),
        (
            "templates/all.yaml",
            &format!("{CONFIG_MAP}  values: {{{{ .Values | toJson | quote }}}}\n"),
        ),
    ]);
    workshop.write(&[(
        "references/all.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first, namespace: shop}\n\
         data: {values.yaml: '{b: first, m: {one: first}, l: [1, 2]}'}\n---\n\
         apiVersion: v1\nkind: Secret\nmetadata: {name: second, namespace: shop}\n\
         stringData: {password: '0123', more: '{m: {two: second}, l: [3]}'}\n",
    )]);
    let source = json!({"helm": {
        "chart": "web",
        "valuesFrom": [
            {"kind": "ConfigMap", "name": "first"},
            {"kind": "Secret", "name": "second", "valuesKey": "more"},
            {"kind": "Secret", "name": "second", "valuesKey": "password", "targetPath": "db.password"},
            {"kind": "Secret", "name": "absent", "optional": true},
        ],
        "values": {"c": null, "m": {"three": null}},
    }});
    let objects = workshop
        .objects(&source, &["--chart", "web", "-f", "references"])
        .await?;
    let values: Value = serde_json::from_str(objects[0]["data"]["values"].as_str().unwrap())?;
    assert_eq!(
        values,
        json!({
            "a": "chart", "b": "first", "m": {"one": "first", "two": "second"}, "l": [3],
            "db": {"password": "0123"}, "number": 1_000_000,
        })
    );
    Ok(())
}

#[tokio::test]
async fn random_values_stay_as_long_as_inputs_do() -> Tested {
    let workshop = Workshop::new();
    let chart = workshop.chart(&[(
        "templates/all.yaml",
        &format!("{CONFIG_MAP}  password: {{{{ randAlphaNum 20 }}}}\n"),
    )]);
    let renderer = workshop.renderer(RenderLimits::default());
    let cache = RenderCache::new(1 << 20);
    let password = async |values: Value, version: &str| -> anyhow::Result<String> {
        let source = of_chart(&chart, values.as_object().cloned().unwrap());
        let capabilities = Capabilities::new(version, []);
        let inputs = renderer.inputs(&source, &capabilities).await?;
        let render = async || renderer.render(&source, &capabilities).await;
        let set = cache.get_or_render(&inputs, render).await?;
        assert_eq!(set.inputs, inputs);
        Ok(set.objects[0]["data"]["password"].to_string())
    };
    let first = password(json!({}), "1.34.0").await?;
    assert_eq!(password(json!({}), "1.34.0").await?, first);
    assert_ne!(password(json!({}), "1.35.0").await?, first);
    assert_ne!(password(json!({"a": 1}), "1.34.0").await?, first);
    assert_eq!(password(json!({}), "1.34.0").await?, first);
    Ok(())
}

#[tokio::test]
async fn what_helm_says_is_shown() -> Tested {
    let workshop = Workshop::new();
    workshop.chart(&[("templates/all.yaml", "{{ fail \"no host was given\" }}")]);
    let source = json!({"helm": {"chart": "web"}});
    let failed = workshop.render(&source, &["--chart", "web"]).await?;
    assert!(!failed.success && failed.out.is_empty());
    assert_contains(&failed.err, "no host was given");
    let render = [
        "render",
        "--filename=distribution.json",
        "--chart=web",
        "--helm=nowhere",
    ];
    let missing = workshop.run(&fleetdex_program()?, &render).await?;
    assert_contains(&missing.err, "nowhere");
    let long = json!({"helm": {"chart": "web", "releaseName": "a".repeat(54)}});
    let refused = workshop.render(&long, &["--chart", "web"]).await?;
    assert_contains(&refused.err, "is no name of a release");
    Ok(())
}
