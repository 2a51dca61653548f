//! The OpenSearch server of a fleet: plain, or with TLS, basic authentication and tokens.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, ensure};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use nix::unistd::{Gid, Uid, chown};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::Sha256;

use super::{
    certificates::{self, Authority, Identity},
    folder, password,
    ports::Port,
    process::{Process, Start},
    ready,
};
use crate::{http, opensearch::OpenSearch, parts::Part, poll::eventually};

/// OpenSearch refuses to run as root; this is the user `nobody`.
const UNPRIVILEGED_ID: u32 = 65_534;
/// The common name of the certificate that may configure the security plugin.
const SECURITY_ADMIN: &str = "fleet-security-admin";
const NODE: &str = "fleet-node";
/// Options of Java, unless `FLEETDEX_OPENSEARCH_JAVA_OPTS` says otherwise.
pub(super) const USUAL_JAVA: &str = "-Xms512m -Xmx1g";
/// As [`USUAL_JAVA`], without the optimizing compiler, which takes half of the processor time of a
/// server that runs for minutes.
pub(super) const SHORT_LIVED_JAVA: &str = "-Xms256m -Xmx1g -XX:TieredStopAtLevel=1";

/// Which OpenSearch a fleet has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OpenSearchKind {
    /// Version 3.4.0 over plain HTTP, without authentication.
    #[default]
    Plain,
    /// Version 2.19.4 with TLS, basic authentication and JSON Web Tokens.
    Secure,
    /// None at all.
    None,
}

/// A node of a cluster of OpenSearch nodes.
#[derive(Debug)]
pub(super) struct Membership {
    /// From 1.
    number: usize,
    /// The transport ports of all nodes, in their order.
    ports: Vec<u16>,
}

/// A running OpenSearch, by itself or as a node of a cluster. Its data survives restarts, and is
/// removed with the fleet.
#[derive(Debug)]
pub struct OpenSearchServer {
    url: String,
    process: Process,
    secured: Option<Secured>,
    _ports: [Port; 2],
}

#[derive(Debug)]
struct Secured {
    authority: Authority,
    ca_path: PathBuf,
    security_admin: Identity,
    password: String,
    /// Signs tokens.
    token_key: String,
}

/// The files of one server.
struct Layout {
    home: PathBuf,
    config: PathBuf,
    data: PathBuf,
    logs: PathBuf,
    /// Where snapshots may be.
    snapshots: PathBuf,
    temporary: PathBuf,
}

impl OpenSearchServer {
    /// Starts one node; `scratch` must be readable for every user.
    pub(super) fn spawn(
        kind: OpenSearchKind,
        java_options: &str,
        dir: &Path,
        scratch: &Path,
        group: u32,
    ) -> Result<Self> {
        let alone = Membership {
            number: 1,
            ports: Vec::new(),
        };
        Self::spawn_node(
            kind,
            java_options,
            dir,
            scratch,
            group,
            Port::reserve()?,
            &alone,
        )
    }

    /// Starts so many nodes of one cluster, without TLS.
    pub(super) fn spawn_nodes(
        nodes: usize,
        dir: &Path,
        scratch: &Path,
        group: u32,
    ) -> Result<Vec<Self>> {
        let ports: Vec<Port> = (0..nodes).map(|_| Port::reserve()).collect::<Result<_>>()?;
        let numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        let spawn = |(number, port)| {
            let membership = Membership {
                number,
                ports: numbers.clone(),
            };
            let kind = OpenSearchKind::Plain;
            Self::spawn_node(
                kind,
                SHORT_LIVED_JAVA,
                dir,
                scratch,
                group,
                port,
                &membership,
            )
        };
        (1..).zip(ports).map(spawn).collect()
    }

    fn spawn_node(
        kind: OpenSearchKind,
        java_options: &str,
        dir: &Path,
        scratch: &Path,
        group: u32,
        transport_port: Port,
        membership: &Membership,
    ) -> Result<Self> {
        let name = membership.name();
        let part = if kind == OpenSearchKind::Secure {
            Part::SecureOpenSearch
        } else {
            Part::OpenSearch
        };
        let program = part.ensure()?;
        let installed = program
            .parent()
            .and_then(Path::parent)
            .context("OpenSearch's home")?;
        let as_root = Uid::effective().is_root();
        let layout = Layout::new(installed, &scratch.join(&name), as_root)?;
        let http_port = Port::reserve()?;

        let mut settings = settings(&layout, http_port.number(), transport_port.number());
        settings.push_str(&membership.settings());
        let secured = match kind {
            OpenSearchKind::Secure => Some(Secured::new(&layout, dir)?),
            _ => None,
        };
        if secured.is_some() {
            settings.push_str(&security_settings());
        }
        certificates::write(&layout.config.join("opensearch.yml"), &settings)?;
        if as_root {
            change_owner(&scratch.join(&name))?;
        }
        let start = Start {
            program: layout.home.join("bin/opensearch"),
            arguments: Vec::new(),
            environment: environment(&layout, &part.java()?.home, java_options),
            user: as_root.then_some((UNPRIVILEGED_ID, UNPRIVILEGED_ID)),
            folder: layout.home.clone(),
        };
        let log = dir.join(format!("{name}.log"));
        let process = Process::new(&name, start, log, group);
        process.spawn()?;
        let scheme = if secured.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://127.0.0.1:{}", http_port.number());
        Ok(Self {
            url,
            process,
            secured,
            _ports: [http_port, transport_port],
        })
    }

    /// `http://…` or, when secure, `https://127.0.0.1:<port>`; the port stays the same over
    /// restarts.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `admin`, when secure.
    pub fn username(&self) -> Option<&str> {
        self.secured.as_ref().map(|_| "admin")
    }

    /// The password of [`username`](Self::username), when secure.
    pub fn password(&self) -> Option<&str> {
        self.secured
            .as_ref()
            .map(|secured| secured.password.as_str())
    }

    /// The CA of its certificate, when secure, as PEM.
    pub fn ca_pem(&self) -> Option<&str> {
        self.secured.as_ref().map(|secured| secured.authority.pem())
    }

    /// The file with [`ca_pem`](Self::ca_pem).
    pub fn ca_path(&self) -> Option<&Path> {
        self.secured
            .as_ref()
            .map(|secured| secured.ca_path.as_path())
    }

    /// The authority of its certificate, when secure, to make client certificates.
    pub fn authority(&self) -> Option<&Authority> {
        self.secured.as_ref().map(|secured| &secured.authority)
    }

    /// A client of the administrator. It belongs to the async runtime that made it: make one per
    /// test.
    pub fn client(&self) -> Result<OpenSearch> {
        let credentials = self.username().zip(self.password());
        OpenSearch::new(&self.url, self.ca_pem(), credentials)
    }

    /// A client with other credentials, right or wrong.
    pub fn client_of(&self, username: &str, password: &str) -> Result<OpenSearch> {
        OpenSearch::new(&self.url, self.ca_pem(), Some((username, password)))
    }

    /// Creates a user (secure only) with roles of the security plugin, such as `all_access` or
    /// `readall`.
    pub async fn create_user(&self, username: &str, password: &str, roles: &[&str]) -> Result<()> {
        let user = format!("internalusers/{username}");
        let body = json!({ "password": password, "opendistro_security_roles": roles });
        self.security_api(Method::PUT, &user, Some(body)).await
    }

    /// Creates or replaces a role of the security plugin.
    pub async fn put_role(&self, name: &str, role: &Value) -> Result<()> {
        let path = format!("roles/{name}");
        self.security_api(Method::PUT, &path, Some(role.clone()))
            .await
    }

    /// Gives a role of the security plugin to these users, beside those with the backend role
    /// `admin`, and takes it from all others.
    pub async fn map_users(&self, role: &str, users: &[&str]) -> Result<()> {
        let mapping = format!("rolesmapping/{role}");
        let body = json!({ "users": users, "backend_roles": ["admin"] });
        self.security_api(Method::PUT, &mapping, Some(body)).await
    }

    /// Creates the user again with another password and waits until the old one is refused.
    ///
    /// The plugin empties its cache of authenticated users before it takes the new users over: a
    /// request between the two keeps the old password valid for as long as the cache does, an hour.
    /// So the cache is emptied once more, here.
    pub async fn change_password(
        &self,
        username: &str,
        [old, new]: [&str; 2],
        roles: &[&str],
    ) -> Result<()> {
        self.create_user(username, new, roles).await?;
        let account = format!("{}/_plugins/_security/authinfo", self.url);
        let client = http::client(self.ca_pem())?;
        let refused = || async {
            self.security_api(Method::DELETE, "cache", None).await?;
            let request = client.get(&account).basic_auth(username, Some(old));
            let status = request.send().await?.status();
            ensure!(status == StatusCode::UNAUTHORIZED, "{status}");
            anyhow::Ok(())
        };
        let what = format!("the old password of {username} is refused");
        eventually(&what, Duration::from_mins(1), refused).await
    }

    /// A request of the administrator of the security plugin, at `/_plugins/_security/api/`.
    async fn security_api(&self, method: Method, path: &str, body: Option<Value>) -> Result<()> {
        let secured = self
            .secured
            .as_ref()
            .context("this OpenSearch has no users: start it with OpenSearchKind::Secure")?;
        let what = format!("{method} {path} of the security plugin");
        let url = format!("{}/_plugins/_security/api/{path}", self.url);
        let mut request = secured.administrator()?.request(method, url);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.with_context(|| what.clone())?;
        let status = answer.status();
        let text = answer.text().await.unwrap_or_default();
        ensure!(status.is_success(), "{what}: {status}: {text}");
        Ok(())
    }

    /// A JSON Web Token (secure only) of a user with backend roles, such as `admin` for
    /// `all_access`, that is valid for so many seconds.
    pub fn token(&self, user: &str, roles: &[&str], seconds: u64) -> Result<String> {
        let secured = self.secured.as_ref();
        let key = &secured
            .context("this OpenSearch takes no tokens")?
            .token_key;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let expiry = now.as_secs() + seconds;
        let claims = json!({ "sub": user, "roles": roles, "exp": expiry }).to_string();
        let header = json!({ "alg": "HS256", "typ": "JWT" }).to_string();
        let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part));
        let text = format!("{header}.{claims}");
        let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes())?;
        mac.update(text.as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
        Ok(format!("{text}.{signature}"))
    }

    /// The running program, to terminate it or to read its memory.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// SIGKILL: connections break off, nothing is flushed.
    pub fn kill(&self) {
        self.process.kill();
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
        self.wait_for_cluster().await
    }

    pub(super) async fn wait_ready(&self) -> Result<()> {
        if let Some(secured) = &self.secured {
            self.create_administrator(secured).await?;
        }
        self.wait_for_cluster().await
    }

    /// The security plugin loads its configuration some time after the port is open; until then it
    /// answers 503.
    async fn create_administrator(&self, secured: &Secured) -> Result<()> {
        let client = secured.administrator()?;
        let users = format!("{}/_plugins/_security/api/internalusers", self.url);
        ready::wait(&self.process, || {
            client.get(&users).timeout(Duration::from_secs(5))
        })
        .await?;
        self.create_user("admin", &secured.password, &["all_access"])
            .await?;
        // The plugin's own configuration gives every user all requests of several items, so that no
        // test would see that a role lacks them.
        self.security_api(Method::DELETE, "rolesmapping/own_index", None)
            .await
    }

    async fn wait_for_cluster(&self) -> Result<()> {
        let client = http::client(self.ca_pem())?;
        let health = format!(
            "{}/_cluster/health?wait_for_status=yellow&timeout=2s",
            self.url
        );
        let probe = || {
            let request = client.get(&health).timeout(Duration::from_secs(5));
            match self.username() {
                Some(username) => request.basic_auth(username, self.password()),
                None => request,
            }
        };
        ready::wait(&self.process, probe).await
    }
}

impl Membership {
    /// The name of the node's process, folder and log.
    fn name(&self) -> String {
        match self.number {
            1 => "opensearch".to_owned(),
            number => format!("opensearch-{number}"),
        }
    }

    fn settings(&self) -> String {
        let node = format!("node.name: fleet-{}\n", self.number);
        if self.ports.is_empty() {
            return node + "discovery.type: single-node\n";
        }
        let addresses = self.ports.iter().map(|port| format!("127.0.0.1:{port}"));
        let names = (1..=self.ports.len()).map(|number| format!("fleet-{number}"));
        format!(
            "{node}discovery.seed_hosts: [\"{}\"]\ncluster.initial_cluster_manager_nodes: [{}]\n",
            addresses.collect::<Vec<_>>().join("\", \""),
            names.collect::<Vec<_>>().join(", ")
        )
    }
}

impl Layout {
    /// Root runs the server as another user, who cannot read root's cache: the program's files are
    /// linked (or copied).
    fn new(installed: &Path, base: &Path, as_root: bool) -> Result<Self> {
        let layout = Self {
            home: if as_root {
                base.join("home")
            } else {
                installed.to_owned()
            },
            config: base.join("config"),
            data: base.join("data"),
            logs: base.join("logs"),
            snapshots: base.join("snapshots"),
            temporary: base.join("tmp"),
        };
        for folder in [
            &layout.config,
            &layout.data,
            &layout.logs,
            &layout.snapshots,
            &layout.temporary,
        ] {
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        if as_root {
            folder::link_or_copy(installed, &layout.home)?;
        }
        folder::copy(&installed.join("config"), &layout.config)?;
        let java_options = layout.config.join("jvm.options");
        let options = fs::read_to_string(&java_options).context("reading jvm.options")?;
        // Logs and heap dumps would go into the program's own folder.
        let kept = options
            .lines()
            .filter(|line| !line.contains("logs/") && !line.contains("HeapDump"));
        certificates::write(&java_options, &kept.collect::<Vec<_>>().join("\n"))?;
        Ok(layout)
    }
}

impl Secured {
    fn new(layout: &Layout, dir: &Path) -> Result<Self> {
        let authority = Authority::new("opensearch-ca")?;
        let ca_path = dir.join("opensearch-ca.crt");
        certificates::write(&ca_path, authority.pem())?;
        certificates::write(&layout.config.join("ca.crt"), authority.pem())?;
        authority.server(NODE)?.write(&layout.config, "node")?;
        let security_admin = authority.client(SECURITY_ADMIN, None)?;
        // Leaves out the demo users of the plugin, whose passwords are public.
        let no_users = "_meta:\n  type: internalusers\n  config_version: 2\n";
        certificates::write(
            &layout.config.join("opensearch-security/internal_users.yml"),
            no_users,
        )?;
        // HS256 needs 32 bytes.
        let token_key = password::random() + &password::random();
        certificates::write(
            &layout.config.join("opensearch-security/config.yml"),
            &authentication_settings(&token_key),
        )?;
        Ok(Self {
            authority,
            ca_path,
            security_admin,
            password: password::random(),
            token_key,
        })
    }

    /// A client of the administrator of the security plugin, who has a certificate.
    fn administrator(&self) -> Result<reqwest::Client> {
        let identity = &self.security_admin;
        let pem = format!("{}{}", identity.certificate, identity.key);
        http::client_with_certificate(self.authority.pem(), &pem)
    }
}

fn settings(layout: &Layout, http_port: u16, transport_port: u16) -> String {
    format!(
        "cluster.name: fleet\n\
         network.host: 127.0.0.1\n\
         http.port: {http_port}\n\
         transport.port: {transport_port}\n\
         path.data: {}\n\
         path.logs: {}\n\
         path.repo: {}\n\
         bootstrap.system_call_filter: false\n\
         # A full disk of the machine is not what a test is about.\n\
         cluster.routing.allocation.disk.threshold_enabled: false\n",
        layout.data.display(),
        layout.logs.display(),
        layout.snapshots.display()
    )
}

fn security_settings() -> String {
    format!(
        "plugins.security.ssl.transport.pemcert_filepath: node.crt\n\
         plugins.security.ssl.transport.pemkey_filepath: node.key\n\
         plugins.security.ssl.transport.pemtrustedcas_filepath: ca.crt\n\
         plugins.security.ssl.transport.enforce_hostname_verification: false\n\
         plugins.security.ssl.http.enabled: true\n\
         plugins.security.ssl.http.pemcert_filepath: node.crt\n\
         plugins.security.ssl.http.pemkey_filepath: node.key\n\
         plugins.security.ssl.http.pemtrustedcas_filepath: ca.crt\n\
         plugins.security.ssl.http.clientauth_mode: OPTIONAL\n\
         plugins.security.allow_default_init_securityindex: true\n\
         plugins.security.authcz.admin_dn: ['CN={SECURITY_ADMIN}']\n\
         plugins.security.nodes_dn: ['CN={NODE}']\n\
         plugins.security.restapi.roles_enabled: [all_access]\n"
    )
}

/// How users authenticate: with a password, with a token signed with this key, or with a
/// certificate of the authority.
fn authentication_settings(token_key: &str) -> String {
    let signing_key = STANDARD.encode(token_key);
    let token = json!({ "type": "jwt", "challenge": false, "config": {
        "signing_key": signing_key, "jwt_header": "Authorization", "jwt_clock_skew_tolerance_seconds": 0,
        "subject_key": "sub", "roles_key": "roles",
    } });
    let domain = |order: u8, authenticator: serde_json::Value, backend: &str| {
        json!({ "http_enabled": true, "transport_enabled": true, "order": order,
            "http_authenticator": authenticator, "authentication_backend": { "type": backend } })
    };
    let domains = json!({
        "token": domain(0, token, "noop"),
        "certificate": domain(1, json!({ "type": "clientcert", "challenge": false, "config": { "username_attribute": "cn" } }), "noop"),
        "password": domain(2, json!({ "type": "basic", "challenge": true }), "intern"),
    });
    // JSON is YAML, too.
    json!({ "_meta": { "type": "config", "config_version": 2 },
        "config": { "dynamic": { "http": { "anonymous_auth_enabled": false }, "authc": domains } } })
    .to_string()
}

fn environment(layout: &Layout, java_home: &Path, java_options: &str) -> Vec<(String, String)> {
    let temporary = layout.temporary.display().to_string();
    let java_options =
        std::env::var("FLEETDEX_OPENSEARCH_JAVA_OPTS").unwrap_or_else(|_| java_options.to_owned());
    vec![
        (
            "OPENSEARCH_JAVA_HOME".to_owned(),
            java_home.display().to_string(),
        ),
        (
            "OPENSEARCH_PATH_CONF".to_owned(),
            layout.config.display().to_string(),
        ),
        ("OPENSEARCH_JAVA_OPTS".to_owned(), java_options),
        ("OPENSEARCH_TMPDIR".to_owned(), temporary.clone()),
        ("TMPDIR".to_owned(), temporary.clone()),
        ("HOME".to_owned(), temporary),
    ]
}

/// Makes the user `nobody` own everything except the program's files, which are shared with the
/// cache.
fn change_owner(base: &Path) -> Result<()> {
    let (user, group) = (
        Uid::from_raw(UNPRIVILEGED_ID),
        Gid::from_raw(UNPRIVILEGED_ID),
    );
    let give = |path: &Path| {
        chown(path, Some(user), Some(group)).with_context(|| format!("chown {}", path.display()))
    };
    give(base)?;
    for entry in fs::read_dir(base).with_context(|| format!("reading {}", base.display()))? {
        let path = entry
            .with_context(|| format!("reading {}", base.display()))?
            .path();
        if path.ends_with("home") {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
                .context("opening the home folder")?;
            continue;
        }
        give(&path)?;
        if path.is_dir() {
            change_owner(&path)?;
        }
    }
    Ok(())
}
