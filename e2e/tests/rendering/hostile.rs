//! Sources that loop, print without end, or reach for files and hosts that are not theirs.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::{Duration, Instant};

use e2e::{
    operator::fleetdex_program,
    test_result::{Tested, assert_contains, assert_fails},
};
use fleetdex_rendering::{renderer::RenderLimits, source::Capabilities};
use serde_json::{Map, json};
use tokio::net::TcpListener;

use crate::fixture::{Workshop, of_chart};

/// What a chart with one template fails with.
async fn failure(template: &str, limits: RenderLimits) -> Result<(), String> {
    let workshop = Workshop::new();
    let text =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  a: {template}\n");
    let chart = workshop.chart(&[("templates/all.yaml", &text)]);
    let renderer = workshop.renderer(limits);
    let source = of_chart(&chart, Map::new());
    let rendered = renderer.render(&source, &Capabilities::default()).await;
    rendered.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_template_that_never_ends_is_stopped() {
    let limits = RenderLimits {
        deadline: Duration::from_secs(3),
        ..RenderLimits::default()
    };
    let endless = "{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}";
    let started = Instant::now();
    let result = failure(endless, limits).await;
    assert_fails(result, "helm was stopped after 3 s");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn output_and_memory_are_bounded() {
    let limits = RenderLimits::default();
    let result = failure("{{ repeat 40000000 \"x\" }}", limits).await;
    assert_fails(
        result,
        "helm was stopped when it had printed 33554432 bytes",
    );
    let result = failure("{{ repeat 100000000 \"0123456789\" }}", limits).await;
    assert_fails(result, "renderers have 1 GiB of memory");
}

#[tokio::test]
async fn addresses_in_a_kustomization_are_refused_and_reach_no_host() -> Tested {
    let workshop = Workshop::new();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    for resource in [
        format!("http://{address}/web.yaml"),
        format!("http://{address}/repository.git//folder?ref=main"),
        "https://github.com/kubernetes-sigs/kustomize//examples/multibases?ref=v1".to_owned(),
    ] {
        workshop.write(&[(
            "remote/kustomization.yaml",
            &format!("resources: ['{resource}']\n"),
        )]);
        let failed = workshop
            .render(&json!({"kustomize": {}}), &["--folder", "remote"])
            .await?;
        assert!(!failed.success, "{resource}: {}", failed.out);
        assert_contains(&failed.err, "renderers have no network");
    }
    let connected = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
    assert!(connected.is_err(), "{connected:?}");
    Ok(())
}

/// The kernel refuses it, whatever the renderer would permit.
#[tokio::test]
async fn files_outside_of_a_rendering_cannot_be_opened() -> Tested {
    let workshop = Workshop::new();
    let generator = "configMapGenerator: [{name: a, files: [/etc/passwd]}]\n";
    workshop.write(&[
        ("scratch/home/empty", ""),
        ("scratch/folder/kustomization.yaml", generator),
    ]);
    let scratch = workshop.path("scratch").display().to_string();
    let folder = workshop.path("scratch/folder").display().to_string();
    let build = [
        "build",
        "--load-restrictor",
        "LoadRestrictionsNone",
        &folder,
    ];
    let unlimited = workshop.run(&workshop.kustomize, &build).await?;
    assert_contains(&unlimited.out, "root:");
    let kustomize = workshop.kustomize.display().to_string();
    let limited = [&["sandbox", &scratch, &kustomize, "--"][..], &build].concat();
    let limited = workshop.run(&fleetdex_program()?, &limited).await?;
    assert!(!limited.success, "{}", limited.out);
    assert_contains(&limited.err, "permission denied");
    assert!(!limited.out.contains("root:"));
    Ok(())
}

#[tokio::test]
async fn no_connection_can_be_opened() -> Tested {
    let workshop = Workshop::new();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    // Its home is in the scratch folder: helm makes its cache there.
    let scratch = workshop.path("").display().to_string();
    let helm = workshop.helm.display().to_string();
    let chart = format!("oci://{}/web", listener.local_addr()?);
    let command = [
        "sandbox",
        &scratch,
        &helm,
        "--",
        "show",
        "chart",
        &chart,
        "--plain-http",
    ];
    let failed = workshop.run(&fleetdex_program()?, &command).await?;
    assert!(!failed.success);
    assert_contains(&failed.err, "operation not permitted");
    let connected = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
    assert!(connected.is_err(), "{connected:?}");
    Ok(())
}

#[tokio::test]
async fn a_kustomization_reads_no_file_of_the_machine() -> Tested {
    let workshop = Workshop::new();
    workshop.write(&[(
        "files/kustomization.yaml",
        "configMapGenerator: [{name: a, files: [/etc/passwd]}]\n",
    )]);
    let failed = workshop
        .render(&json!({"kustomize": {}}), &["--folder", "files"])
        .await?;
    assert!(!failed.success && failed.out.is_empty());
    assert_contains(&failed.err, "kustomize failed");
    Ok(())
}
