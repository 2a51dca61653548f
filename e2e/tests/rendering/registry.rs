//! Charts and folders in a real registry.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::{Context as _, Result, ensure};
use e2e::{
    fleet::{
        ports::Port,
        process::{Guard, Process, Start},
    },
    http,
    parts::Part,
    scenario::until,
    test_result::{Tested, assert_contains},
};
use fleetdex_rendering::digest::Sha256Digest;
use reqwest::header;
use serde_json::json;

use crate::fixture::{Workshop, names, packed};

/// A registry that keeps artifacts in the scratch folder.
struct OciRegistry {
    host: String,
    _process: Process,
    _port: Port,
    _guard: Guard,
}

impl OciRegistry {
    async fn start(workshop: &Workshop) -> Result<Self> {
        let (guard, port) = (Guard::start(&[])?, Port::reserve()?);
        let host = format!("127.0.0.1:{}", port.number());
        let config = json!({
            "version": 0.1,
            "log": {"level": "warn"},
            "storage": {"filesystem": {"rootdirectory": workshop.path("registry")}},
            "http": {"addr": host, "secret": "test"},
        });
        workshop.write(&[("registry.json", &config.to_string())]);
        let start = Start {
            program: Part::Registry.ensure()?,
            arguments: vec!["serve".to_owned(), "registry.json".to_owned()],
            // It would send traces to this machine.
            environment: vec![("OTEL_TRACES_EXPORTER".to_owned(), "none".to_owned())],
            folder: workshop.path("."),
            ..Start::default()
        };
        let log = workshop.path("registry.log");
        let process = Process::new("registry", start, log, guard.group());
        process.spawn()?;
        let url = format!("http://{host}/v2/");
        until("the registry answers", || async {
            process.check_running()?;
            let answer = http::client(None)?.get(&url).send().await?;
            ensure!(answer.status().is_success(), "{}", answer.status());
            Ok(())
        })
        .await?;
        Ok(Self {
            host,
            _process: process,
            _port: port,
            _guard: guard,
        })
    }

    /// Pushes a blob.
    async fn push_blob(&self, name: &str, bytes: Vec<u8>) -> Result<String> {
        let client = http::client(None)?;
        let url = format!("http://{}/v2/{name}/blobs/uploads/", self.host);
        let started = client.post(url).send().await?.error_for_status()?;
        let location = started.headers()[header::LOCATION].to_str()?.to_owned();
        let digest = Sha256Digest::of(&bytes).to_string();
        let upload = client.put(location).query(&[("digest", &digest)]);
        let upload = upload.header(header::CONTENT_TYPE, "application/octet-stream");
        upload.body(bytes).send().await?.error_for_status()?;
        Ok(digest)
    }

    /// Pushes a folder as Flux does.
    async fn push_folder(&self, name: &str, tag: &str, bytes: Vec<u8>) -> Result<()> {
        let size = bytes.len();
        let layer = self.push_blob(name, bytes).await?;
        let config = self.push_blob(name, b"{}".to_vec()).await?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {
                "mediaType": "application/vnd.cncf.flux.config.v1+json", "digest": config, "size": 2,
            },
            "layers": [{
                "mediaType": "application/vnd.cncf.flux.content.v1.tar+gzip",
                "digest": layer, "size": size,
            }],
        });
        let url = format!("http://{}/v2/{name}/manifests/{tag}", self.host);
        let push = http::client(None)?.put(url);
        let push = push.header(
            header::CONTENT_TYPE,
            "application/vnd.oci.image.manifest.v1+json",
        );
        push.body(manifest.to_string())
            .send()
            .await?
            .error_for_status()?;
        Ok(())
    }
}

#[tokio::test]
async fn charts_that_helm_pushes_are_pulled_by_tag_digest_and_constraint() -> Tested {
    let workshop = Workshop::new();
    let registry = OciRegistry::start(&workshop).await?;
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: v{{ .Chart.Version }}}\n";
    workshop.chart(&[("templates/all.yaml", text)]);
    let charts = format!("oci://{}/charts", registry.host);
    let mut digest = String::new();
    for version in ["1.2.0", "1.10.0", "2.0.0"] {
        workshop
            .run_helm(&["package", "web", "--version", version])
            .await?;
        let package = format!("web-{version}.tgz");
        let pushed = workshop
            .run_helm(&["push", &package, &charts, "--plain-http"])
            .await?;
        if version == "1.2.0" {
            let found = pushed
                .lines()
                .find_map(|line| line.strip_prefix("Digest: "));
            digest = found.context("helm names no digest")?.trim().to_owned();
        }
    }
    let chart = format!("{charts}/web");
    for (source, expected) in [
        (json!({"chart": format!("{chart}:1.10.0")}), "v1.10.0"),
        (json!({"chart": format!("{chart}@{digest}")}), "v1.2.0"),
        (json!({"chart": chart, "version": "1.2.0"}), "v1.2.0"),
        (json!({"chart": chart, "version": "^1"}), "v1.10.0"),
        (json!({"chart": chart}), "v2.0.0"),
    ] {
        let objects = workshop
            .objects(&json!({"helm": source}), &["--plain-http"])
            .await?;
        assert_eq!(names(&objects), [format!("ConfigMap {expected}")]);
    }
    for (source, expected) in [
        (
            json!({"chart": chart, "version": "^3"}),
            "has no version \"^3\" among 3 versions",
        ),
        (json!({"chart": format!("{chart}:9.9.9")}), "answers 404"),
    ] {
        let failed = workshop
            .render(&json!({"helm": source}), &["--plain-http"])
            .await?;
        assert!(!failed.success);
        assert_contains(&failed.err, expected);
    }
    Ok(())
}

#[tokio::test]
async fn folders_are_pulled_as_well() -> Tested {
    let workshop = Workshop::new();
    let registry = OciRegistry::start(&workshop).await?;
    workshop.write(&[
        ("deploy/kustomization.yaml", "resources: [all.yaml]\n"),
        (
            "deploy/all.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
        ),
    ]);
    let archive = packed(&workshop.path("deploy"), ".");
    let bytes = archive.bytes().to_vec();
    registry.push_folder("folders/web", "1.0.0", bytes).await?;
    let oci = format!("oci://{}/folders/web:1.0.0", registry.host);
    let source = json!({"kustomize": {"oci": oci}});
    let objects = workshop.objects(&source, &["--plain-http"]).await?;
    assert_eq!(names(&objects), ["ConfigMap a"]);
    Ok(())
}
