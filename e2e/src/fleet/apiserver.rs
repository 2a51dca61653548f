//! API servers: the control plane's and the members'. All of them are the same program with the
//! same flags.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::{
    certificates::{self, Authority, Identity},
    ports::Port,
    process::{Process, Start},
    ready,
};
use crate::{http, kubectl::Kubectl, parts::Part};

/// The user whose token is in the kubeconfig; a member of `system:masters`.
pub const ADMIN: &str = "admin";
/// Users without permissions until a test binds a role to them.
pub const PLAIN_USERS: [&str; 2] = ["alice", "bob"];
const AUDIT_LOG: &str = "audit.log";
const AUDIT_POLICY: &str = "audit-policy.yaml";
/// Without the requests that have not been answered yet; a watch is answered when it begins.
const POLICY: &str = "apiVersion: audit.k8s.io/v1\n\
    kind: Policy\n\
    omitStages: [RequestReceived]\n\
    rules:\n\
    - level: Metadata\n  userGroups: [\"system:serviceaccounts\"]\n";

/// One Kubernetes cluster without nodes and controllers.
///
/// Namespaces are not emptied on deletion, nothing is garbage-collected, and pods stay Pending
/// unless their status is patched.
#[derive(Debug)]
pub struct ApiServer {
    name: String,
    url: String,
    tokens: BTreeMap<String, String>,
    authority: Authority,
    admin_certificate: Identity,
    folder: PathBuf,
    process: Process,
    _port: Port,
}

/// What an API server of a fleet is started with: the shared parts, and its etcd.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerEnvironment<'a> {
    pub(super) etcd_url: &'a str,
    pub(super) dir: &'a Path,
    pub(super) group: u32,
    /// Signs the certificates with which the servers forward requests for aggregated APIs.
    pub(super) front_proxy: &'a Authority,
}

impl ApiServer {
    pub(super) fn spawn(
        name: &str,
        environment: &ServerEnvironment<'_>,
        more_flags: &[&str],
    ) -> Result<Self> {
        let ServerEnvironment {
            etcd_url,
            dir,
            group,
            front_proxy,
        } = *environment;
        let folder = dir.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let port = Port::reserve()?;
        let url = format!("https://127.0.0.1:{}", port.number());
        let authority = Authority::new(&format!("{name}-ca"))?;
        let tokens = new_tokens();
        write_files(name, &folder, &authority, front_proxy, &tokens)?;
        let mut arguments = arguments(name, etcd_url, port.number(), &folder);
        arguments.extend(more_flags.iter().map(|&flag| flag.to_owned()));
        let start = Start {
            program: Part::KubeApiserver.ensure()?,
            arguments,
            // Saves memory for some processor time: many API servers run at once.
            environment: vec![("GOGC".to_owned(), "75".to_owned())],
            folder: folder.clone(),
            user: None,
        };
        let process = Process::new(name, start, folder.join("kube-apiserver.log"), group);
        let admin_certificate = authority.client("certificate-admin", Some("system:masters"))?;
        let server = Self {
            name: name.to_owned(),
            url,
            tokens,
            authority,
            admin_certificate,
            folder,
            process,
            _port: port,
        };
        certificates::write_private(&server.kubeconfig(), &server.kubeconfig_of(ADMIN)?)?;
        server.process.spawn()?;
        Ok(server)
    }

    /// `control-plane`, `member1`, `member2`, …
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `https://127.0.0.1:<port>`; the port stays the same over restarts.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The administrator's bearer token.
    pub fn token(&self) -> &str {
        self.tokens.get(ADMIN).map_or("", String::as_str)
    }

    /// The bearer token of [`ADMIN`] or of one of [`PLAIN_USERS`].
    pub fn token_of(&self, user: &str) -> Result<&str> {
        let token = self.tokens.get(user).map(String::as_str);
        token.with_context(|| {
            format!(
                "{} has no user {user}; it has {:?}",
                self.name,
                self.tokens.keys()
            )
        })
    }

    /// The CA that signed the serving certificate and is accepted for client certificates, as PEM.
    pub fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    /// The authority itself, to make client certificates.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// A client certificate in the group `system:masters`.
    pub fn admin_certificate(&self) -> &Identity {
        &self.admin_certificate
    }

    /// The file with [`ca_pem`](Self::ca_pem).
    pub fn ca_path(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// The administrator's kubeconfig file.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// The requests of service accounts, one `audit.k8s.io/v1` Event in each line. Only with
    /// [`Options::audit`](super::Options::audit).
    pub fn audit_log(&self) -> PathBuf {
        self.folder.join(AUDIT_LOG)
    }

    pub(super) fn audit_flags(folder: &Path) -> [String; 2] {
        let file = |name: &str| folder.join(name).display().to_string();
        [
            format!("--audit-policy-file={}", file(AUDIT_POLICY)),
            format!("--audit-log-path={}", file(AUDIT_LOG)),
        ]
    }

    /// The text of a kubeconfig for one of the users.
    pub fn kubeconfig_of(&self, user: &str) -> Result<String> {
        Ok(self.kubeconfig_with(user, self.token_of(user)?))
    }

    /// The text of a kubeconfig with a token of any account.
    pub fn kubeconfig_with(&self, user: &str, token: &str) -> String {
        let (name, url, ca_path) = (&self.name, &self.url, self.ca_path());
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             current-context: {name}\n\
             clusters:\n\
             - name: {name}\n  cluster:\n    server: {url}\n    certificate-authority: {}\n\
             users:\n\
             - name: {user}\n  user:\n    token: {token}\n\
             contexts:\n\
             - name: {name}\n  context:\n    cluster: {name}\n    user: {user}\n",
            ca_path.display()
        )
    }

    /// A client of the administrator. It belongs to the async runtime that made it: make one per
    /// test.
    pub async fn client(&self) -> Result<kube::Client> {
        self.client_of(ADMIN).await
    }

    /// A client of one of the users.
    pub async fn client_of(&self, user: &str) -> Result<kube::Client> {
        http::install_tls_provider();
        let kubeconfig = Kubeconfig::from_yaml(&self.kubeconfig_of(user)?)
            .context("reading our own kubeconfig")?;
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let config = config.with_context(|| format!("kubeconfig of {}", self.name))?;
        kube::Client::try_from(config).with_context(|| format!("client of {}", self.name))
    }

    /// kubectl as the administrator.
    pub fn kubectl(&self) -> Result<Kubectl> {
        Kubectl::new(&self.kubeconfig())
    }

    /// The running program, to pause it or to read its memory.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// SIGKILL: connections break off.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// SIGTERM: the server closes its watches and exits.
    pub async fn terminate(&self) -> Result<ExitStatus> {
        self.process.terminate(Duration::from_secs(90)).await
    }

    /// SIGSTOP: stops accepting and responding, without closing connections.
    pub fn pause(&self) -> Result<()> {
        self.process.pause()
    }

    /// Resumes after [`pause`](Self::pause).
    pub fn resume(&self) -> Result<()> {
        self.process.resume()
    }

    /// Starts it on the same port with the same data (killing it first when it runs), and waits
    /// until it is ready.
    pub async fn restart(&self) -> Result<()> {
        self.process.kill();
        self.process.spawn()?;
        self.wait_ready().await
    }

    pub(super) async fn wait_ready(&self) -> Result<()> {
        let client = http::client(Some(self.ca_pem()))?;
        let readiness = format!("{}/readyz?verbose", self.url);
        let probe = || {
            client
                .get(&readiness)
                .bearer_auth(self.token())
                .timeout(Duration::from_secs(5))
        };
        ready::wait(&self.process, probe).await
    }
}

fn new_tokens() -> BTreeMap<String, String> {
    let users = PLAIN_USERS.into_iter().chain([ADMIN]);
    users
        .map(|user| (user.to_owned(), super::password::random()))
        .collect()
}

fn write_files(
    name: &str,
    folder: &Path,
    authority: &Authority,
    front_proxy: &Authority,
    tokens: &BTreeMap<String, String>,
) -> Result<()> {
    certificates::write(&folder.join("ca.crt"), authority.pem())?;
    authority.server(name)?.write(folder, "server")?;
    certificates::write(&folder.join("front-proxy-ca.crt"), front_proxy.pem())?;
    certificates::write(&folder.join(AUDIT_POLICY), POLICY)?;
    front_proxy
        .client("front-proxy-client", None)?
        .write(folder, "front-proxy-client")?;
    let (private, public) = certificates::signing_key()?;
    certificates::write_private(&folder.join("service-accounts.key"), &private)?;
    certificates::write(&folder.join("service-accounts.pub"), &public)?;
    let lines = tokens.iter().map(|(user, token)| {
        let groups = if user == ADMIN {
            ",\"system:masters\""
        } else {
            ""
        };
        format!("{token},{user},{user}{groups}\n")
    });
    certificates::write_private(&folder.join("tokens.csv"), &lines.collect::<String>())
}

fn arguments(name: &str, etcd_url: &str, port: u16, folder: &Path) -> Vec<String> {
    let file = |file_name: &str| folder.join(file_name).display().to_string();
    vec![
        format!("--etcd-servers={etcd_url}"),
        format!("--etcd-prefix=/{name}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        // No Service network uses the address, and loopback is not accepted.
        "--endpoint-reconciler-type=none".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        format!("--cert-dir={}", folder.display()),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--token-auth-file={}", file("tokens.csv")),
        "--authorization-mode=RBAC".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!(
            "--service-account-key-file={}",
            file("service-accounts.pub")
        ),
        format!(
            "--service-account-signing-key-file={}",
            file("service-accounts.key")
        ),
        // Pods can be created without a controller manager that creates their service account.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        // The aggregation layer.
        format!(
            "--requestheader-client-ca-file={}",
            file("front-proxy-ca.crt")
        ),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-uid-headers=X-Remote-Uid".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        format!(
            "--proxy-client-cert-file={}",
            file("front-proxy-client.crt")
        ),
        format!("--proxy-client-key-file={}", file("front-proxy-client.key")),
        "--profiling=false".to_owned(),
        "--v=1".to_owned(),
    ]
}
