//! Karmada's part of a control plane: its `APIServices`, one of its CRDs, and the servers behind
//! them.
//!
//! Clusters are served by a simulated API server; registries by the same, or by a real
//! karmada-search.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use fakes::apiserver::{self, Churn, Server};
use fleetdex_core::model::{Gvk, Resource};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::{Value, json};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    fleet::{
        Fleet, Process,
        certificates::{Authority, Identity},
        ports::Port,
        process::Start,
    },
    http::install_tls_provider,
    objects::Objects,
    parts::Part,
    poll::eventually,
    scenario::until,
};

/// The namespace of Karmada's Services.
pub const NAMESPACE: &str = "karmada-system";
/// A CRD that Karmada installs.
pub const CUSTOMIZATIONS: &str = "resourceinterpretercustomizations.config.karmada.io";
/// The path of registries.
pub const REGISTRIES: &str = "apis/search.karmada.io/v1alpha1/resourceregistries";
const API_SERVICES: &str = "apis/apiregistration.k8s.io/v1/apiservices";
const CRDS: &str = "apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SEARCH: &str = "karmada-search";
const CLUSTERS: &str = "karmada-aggregated-apiserver";

/// What serves registries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchBackend {
    /// A simulated API server in this process.
    Simulated,
    /// karmada-search, built from its Go module.
    Real,
}

/// Karmada on the control plane of a fleet.
#[derive(Debug)]
pub struct Karmada {
    hub: Objects,
    search: SearchServer,
    _clusters: TlsServer,
}

#[derive(Debug)]
enum SearchServer {
    Simulated {
        server: Server,
        identity: Identity,
        listening: Option<TlsServer>,
        port: u16,
    },
    Real {
        process: Box<Process>,
        _port: Port,
    },
}

/// Serves an API server with TLS until it is dropped.
#[derive(Debug)]
struct TlsServer {
    port: u16,
    tasks: [AbortHandle; 2],
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Karmada {
    /// Registers both groups, and waits until they are available.
    pub async fn start(fleet: &Fleet, backend: SearchBackend) -> Result<Self> {
        let hub = Objects::of(fleet.control_plane())?;
        hub.create_namespace(NAMESPACE).await?;
        let authority = Authority::new("karmada-ca")?;
        let clusters = simulated(
            Gvk::new("cluster.karmada.io", "v1alpha1", "Cluster"),
            "clusters",
        );
        let identity = identity(&authority, CLUSTERS)?;
        let clusters = TlsServer::start(&clusters, &identity, 0).await?;
        register(
            &hub,
            "cluster.karmada.io",
            CLUSTERS,
            clusters.port,
            &authority,
        )
        .await?;
        until("Karmada serves clusters", || {
            hub.get("apis/cluster.karmada.io/v1alpha1/clusters")
        })
        .await?;
        let (search, port) = SearchServer::start(fleet, backend, &authority).await?;
        register(&hub, "search.karmada.io", SEARCH, port, &authority).await?;
        let karmada = Self {
            hub,
            search,
            _clusters: clusters,
        };
        karmada.until_available().await?;
        Ok(karmada)
    }

    /// Stops karmada-search, and waits until the control plane does not reach it.
    pub async fn stop_search(&mut self) -> Result<()> {
        match &mut self.search {
            SearchServer::Simulated { listening, .. } => drop(listening.take()),
            SearchServer::Real { process, .. } => process.kill(),
        }
        until("karmada-search is gone", || async {
            let found = self.hub.get(REGISTRIES).await;
            ensure!(found.is_err(), "it still answers");
            Ok(())
        })
        .await
    }

    /// Starts it again, with its objects.
    pub async fn start_search(&mut self) -> Result<()> {
        match &mut self.search {
            SearchServer::Simulated {
                server,
                identity,
                listening,
                port,
            } => *listening = Some(TlsServer::start(server, identity, *port).await?),
            SearchServer::Real { process, .. } => process.spawn()?,
        }
        self.until_available().await
    }

    async fn until_available(&self) -> Result<()> {
        let path = format!("{API_SERVICES}/v1alpha1.search.karmada.io");
        until("karmada-search is available", || async {
            let service = self.hub.get(&path).await?;
            let conditions = service["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let is_available =
                conditions.any(|found| found["type"] == "Available" && found["status"] == "True");
            ensure!(is_available, "{}", service["status"]);
            self.hub.get(REGISTRIES).await.map(drop)
        })
        .await
    }
}

impl SearchServer {
    async fn start(
        fleet: &Fleet,
        backend: SearchBackend,
        authority: &Authority,
    ) -> Result<(Self, u16)> {
        let identity = identity(authority, SEARCH)?;
        if backend == SearchBackend::Real {
            let port = Port::reserve()?;
            let number = port.number();
            let process = Box::new(real(fleet, &identity, number)?);
            let started = Self::Real {
                process,
                _port: port,
            };
            return Ok((started, number));
        }
        let kind = Gvk::new("search.karmada.io", "v1alpha1", "ResourceRegistry");
        let server = simulated(kind, "resourceregistries");
        let listening = TlsServer::start(&server, &identity, 0).await?;
        let port = listening.port;
        let started = Self::Simulated {
            server,
            identity,
            listening: Some(listening),
            port,
        };
        Ok((started, port))
    }
}

/// As Karmada's manifests start it, but with an etcd and certificates of the fleet.
fn real(fleet: &Fleet, identity: &Identity, port: u16) -> Result<Process> {
    let (certificate, key) = identity.write(fleet.dir(), SEARCH)?;
    let kubeconfig = fleet.control_plane().kubeconfig();
    let kubeconfig = kubeconfig.display();
    let arguments = vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        format!("--etcd-servers={}", fleet.etcd().url()),
        "--etcd-prefix=/karmada-search".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", certificate.display()),
        format!("--tls-private-key-file={}", key.display()),
    ];
    let start = Start {
        program: Part::KarmadaSearch.ensure()?,
        arguments,
        folder: fleet.dir().to_owned(),
        ..Start::default()
    };
    let log = fleet.dir().join("karmada-search.log");
    let process = Process::new(SEARCH, start, log, fleet.process_group());
    process.spawn()?;
    Ok(process)
}

fn identity(authority: &Authority, service: &str) -> Result<Identity> {
    authority.server_at(
        service,
        &[&format!("{service}.{NAMESPACE}.svc"), "localhost"],
    )
}

/// Serves one cluster-scoped resource, and Pods, which its churn needs.
fn simulated(gvk: Gvk, plural: &str) -> Server {
    let mut options = apiserver::Options::new(1);
    options.resources.push(Resource {
        gvk,
        plural: plural.into(),
        namespaced: false,
    });
    Server::new(options)
}

async fn register(
    hub: &Objects,
    group: &str,
    service: &str,
    port: u16,
    authority: &Authority,
) -> Result<()> {
    let object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": service },
        "spec": { "type": "ExternalName", "externalName": "localhost" },
    });
    let path = format!("api/v1/namespaces/{NAMESPACE}/services/{service}");
    hub.apply(&path, &object).await?;
    let name = format!("v1alpha1.{group}");
    let object = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": { "name": name, "labels": { "app": service, "apiserver": "true" } },
        "spec": {
            "group": group, "version": "v1alpha1", "groupPriorityMinimum": 2000, "versionPriority": 10,
            "caBundle": STANDARD.encode(authority.pem()),
            "service": { "namespace": NAMESPACE, "name": service, "port": port },
        },
    });
    hub.apply(&format!("{API_SERVICES}/{name}"), &object)
        .await
        .map(drop)
}

/// Creates one of Karmada's CRDs, as its generator writes them, and returns it when it is
/// established.
pub async fn install_customizations(hub: &Objects) -> Result<Value> {
    let customizations = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": CUSTOMIZATIONS, "annotations": { "controller-gen.kubebuilder.io/version": "v0.18.0" } },
        "spec": {
            "group": "config.karmada.io", "scope": "Cluster",
            "names": {
                "categories": ["karmada-io"], "kind": "ResourceInterpreterCustomization", "listKind": "ResourceInterpreterCustomizationList",
                "plural": "resourceinterpretercustomizations", "shortNames": ["ric"], "singular": "resourceinterpretercustomization",
            },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    });
    hub.create(CRDS, &customizations).await?;
    until("Karmada's CRD is established", || async {
        let found = hub.get(&format!("{CRDS}/{CUSTOMIZATIONS}")).await?;
        let conditions = found["status"]["conditions"].to_string();
        ensure!(conditions.contains("Established"), "{conditions}");
        Ok(found)
    })
    .await
}

impl TlsServer {
    /// Serves `server` at a port; 0: at any.
    async fn start(server: &Server, identity: &Identity, port: u16) -> Result<Self> {
        let plain = TcpListener::bind("127.0.0.1:0").await?;
        let address = plain.local_addr()?;
        let churn = Churn::fill(server, 0, 1).map_err(|status| anyhow::anyhow!("{status:?}"))?;
        let serving =
            tokio::spawn(apiserver::serve(plain, None, server.clone(), churn)).abort_handle();
        let acceptor = acceptor(identity)?;
        let listener = listen(port).await?;
        let port = listener.local_addr()?.port();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                // Detached: it ends with its connection.
                tokio::spawn(async move {
                    let mut outer = acceptor.accept(stream).await?;
                    let mut inner = TcpStream::connect(address).await?;
                    copy_bidirectional(&mut outer, &mut inner).await
                });
            }
        });
        Ok(Self {
            port,
            tasks: [serving, accepting.abort_handle()],
        })
    }
}

/// The port of a server that has just been stopped may be in use for a moment.
async fn listen(port: u16) -> Result<TcpListener> {
    eventually("the port is free", Duration::from_secs(10), || async {
        TcpListener::bind(("127.0.0.1", port))
            .await
            .context("binding the port")
    })
    .await
}

fn acceptor(identity: &Identity) -> Result<TlsAcceptor> {
    install_tls_provider();
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes())
        .context("reading a certificate")?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).context("reading a key")?;
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .context("configuring TLS")?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
