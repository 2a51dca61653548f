//! For tests: a real server on a free port, and commands that query it.

use std::{path::PathBuf, sync::Arc};

use fleetdex_core::{
    model::{CLUSTER_ANNOTATION, Interpretation, interpreted_fields},
    query::{HeldMemory, Hit, Page},
};
use fleetdex_server::{
    catalog::{Catalog, CatalogEntry},
    fake::{catalog, cluster, no_clusters, pods, store as main_store},
    http::serve::{Server, ServerArgs},
    limits::LimitArgs,
    telemetry::Telemetry,
    watch::peers::Peers,
};
use fleetdex_store::{StoreError, fake::PreparedReader};
use fleetdex_telemetry::{Metrics, Readiness, Traces};
use serde_json::{json, value::to_raw_value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::console::{CommandError, Console};

/// A real server on a free port, over prepared pages.
pub(crate) struct TestServer {
    pub(super) store: Arc<PreparedReader>,
    folder: tempfile::TempDir,
    server: String,
    pub(super) cancel: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl TestServer {
    pub(super) async fn with(pages: Vec<Result<Page, StoreError>>) -> Self {
        let store = PreparedReader::with(pages);
        Self::over(catalog(store.clone()), store).await
    }

    /// A server over Pods of member1 and member2 with interpreted fields.
    pub(super) async fn interpreted(pages: Vec<Result<Page, StoreError>>) -> Self {
        let store = PreparedReader::with(pages);
        let mut catalog = Catalog::default();
        let main = main_store("main");
        catalog.add_store(main.clone(), store.clone());
        for name in ["member1", "member2"].map(cluster) {
            catalog.add(CatalogEntry {
                served: &pods(),
                cluster: &name,
                store: &main,
                fields: interpreted_fields(),
                any_path: false,
            });
        }
        Self::over(catalog, store).await
    }

    pub(super) async fn over(catalog: Catalog, store: Arc<PreparedReader>) -> Self {
        // The HTTP client requires a provider even without TLS; another test may have installed it.
        let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let args = ServerArgs {
            api_address: "127.0.0.1:0".parse().unwrap(),
            token_file: folder.path().join("fleetdex/token"),
            limits: LimitArgs::default(),
        };
        let server = Server::bind(&args, false).await.unwrap();
        let address = format!("http://{}", server.address());
        let (_sender, reader) = watch::channel(Arc::new(catalog));
        let telemetry = Telemetry {
            metrics: Arc::new(Metrics::new()),
            readiness: Readiness::new(),
            traces: Traces::default(),
        };
        let cancel = CancellationToken::new();
        let task = tokio::spawn(server.run(
            reader,
            no_clusters(),
            telemetry,
            None,
            Peers::default(),
            cancel.clone(),
        ));
        Self {
            store,
            folder,
            server: address,
            cancel,
            task,
        }
    }

    pub(super) fn token_file(&self) -> PathBuf {
        self.folder.path().join("fleetdex/token")
    }

    pub(super) fn is_running(&self) -> bool {
        !self.task.is_finished()
    }

    /// Returns the arguments of a command that queries this server.
    pub(super) fn words(&self, command: &str, line: &[&str]) -> Vec<String> {
        let token_file = self.token_file().display().to_string();
        let mut words = [
            command,
            "--server",
            &self.server,
            "--token-file",
            &token_file,
        ]
        .map(str::to_owned)
        .to_vec();
        words.extend(line.iter().map(|word| (*word).to_owned()));
        words
    }

    /// Returns whether the command completed, its standard output and its standard error.
    pub(super) async fn run<C>(&self, command: C) -> (bool, String, String)
    where
        C: AsyncFnOnce(&mut Console<'_>) -> Result<bool, CommandError>,
    {
        captured(command).await
    }
}

/// Runs a command; returns whether it completed, its standard output and its standard error.
pub(super) async fn captured<C>(command: C) -> (bool, String, String)
where
    C: AsyncFnOnce(&mut Console<'_>) -> Result<bool, CommandError>,
{
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut console = Console {
        out: &mut out,
        err: &mut err,
        has_colours: false,
    };
    let result = command(&mut console).await;
    let is_complete = console.finish(result);
    (
        is_complete,
        String::from_utf8(out).unwrap(),
        String::from_utf8(err).unwrap(),
    )
}

pub(super) fn hit(cluster_name: &str, namespace: &str, name: &str) -> Hit {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "creationTimestamp": "2026-02-03T09:59:00Z",
            "annotations": { CLUSTER_ANNOTATION: cluster_name, "note": "yes" },
        },
        "spec": { "nodeName": "n1", "containers": [{ "name": "a" }] },
        "status": { "phase": "Pending" },
    });
    Hit {
        interpretation: None,
        cluster: cluster(cluster_name),
        object: to_raw_value(&object).unwrap().into(),
        memory: HeldMemory::default(),
    }
}

pub(super) fn two_pods() -> Page {
    let items = vec![
        hit("member1", "default", "web-1"),
        hit("member2", "kube-system", "dns"),
    ];
    Page {
        items,
        next: None,
        remaining: None,
    }
}

/// A Pod of some health, with a cause.
pub(super) fn of_health(
    cluster_name: &str,
    namespace: &str,
    name: &str,
    health: &'static str,
) -> Hit {
    let interpretation = Interpretation {
        health,
        health_reason: "CrashLoopBackOff".to_owned(),
        health_message: "back-off 5m0s".to_owned(),
        interpreted_by: vec!["built-in".to_owned()],
        ..Interpretation::default()
    };
    let object = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": namespace } });
    Hit {
        interpretation: Some(Box::new(interpretation)),
        cluster: cluster(cluster_name),
        object: to_raw_value(&object).unwrap().into(),
        memory: HeldMemory::default(),
    }
}

/// A Pod with one container.
pub(super) fn of_image(cluster_name: &str, name: &str, image: &str) -> Hit {
    let object = json!({
        "metadata": { "name": name, "namespace": "web" },
        "spec": { "containers": [{ "name": "a", "image": image }] },
    });
    Hit {
        interpretation: None,
        cluster: cluster(cluster_name),
        object: to_raw_value(&object).unwrap().into(),
        memory: HeldMemory::default(),
    }
}
