//! Reads the credentials of one context of a kubeconfig.
//!
//! A kubeconfig in a Secret is untrusted: it may contain credentials, but it must not make this
//! program run a plugin or read a file, whose content would then be sent to a server that the
//! kubeconfig chooses.

mod problem;

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::{AuthInfo, Cluster, ExecAuthCluster, Kubeconfig, NamedContext};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::ExposeSecret;
use tokio::io::AsyncReadExt;

use super::{
    super::{
        credentials::{
            ClientCertificate, Credentials, Impersonation, Password, ServerTrust, bearer,
            usable_certificates,
        },
        endpoint,
    },
    plugin::Plugins,
};

pub use self::problem::KubeconfigProblem;

/// Largest file, in bytes, that a kubeconfig may name: certificates, keys and tokens have some
/// kilobytes.
const MAX_FILE: u64 = 1 << 20;
/// Context names listed in a message, at most.
const MAX_NAMES: usize = 10;

/// A context with the cluster and user that it names.
#[derive(Clone, Debug)]
pub struct ResolvedContext {
    cluster: Cluster,
    user: AuthInfo,
}

impl ResolvedContext {
    /// Resolves the context with this name, else the current context, else the only context.
    pub fn of(kubeconfig: &Kubeconfig, context: Option<&str>) -> Result<Self, KubeconfigProblem> {
        let context = find_context(kubeconfig, context)?;
        let dangling = |what: &'static str, name: &str| KubeconfigProblem::Dangling {
            context: context.name.clone(),
            what,
            name: name.to_owned(),
        };
        let names = context.context.clone().unwrap_or_default();
        let cluster = kubeconfig
            .clusters
            .iter()
            .find(|cluster| cluster.name == names.cluster);
        let cluster = cluster
            .and_then(|named| named.cluster.clone())
            .ok_or_else(|| dangling("cluster", &names.cluster))?;
        let user = match names.user.filter(|user| !user.is_empty()) {
            None => AuthInfo::default(),
            Some(name) => {
                let user = kubeconfig.auth_infos.iter().find(|user| user.name == name);
                user.map(|named| named.auth_info.clone().unwrap_or_default())
                    .ok_or_else(|| dangling("user", &name))?
            }
        };
        Ok(Self { cluster, user })
    }

    /// Fails if the context runs a plugin or reads a file, which an untrusted kubeconfig must not
    /// do.
    pub fn refuse_plugins_and_files(&self) -> Result<(), KubeconfigProblem> {
        if self.user.exec.is_some() {
            return Err(KubeconfigProblem::ExecRefused);
        }
        let files = [
            ("certificate-authority", &self.cluster.certificate_authority),
            ("client-certificate", &self.user.client_certificate),
            ("client-key", &self.user.client_key),
            ("tokenFile", &self.user.token_file),
        ];
        for (field, file) in files {
            if file.as_ref().is_some_and(|file| !file.is_empty()) {
                return Err(KubeconfigProblem::FileRefused(field));
            }
        }
        Ok(())
    }

    /// The credentials, including those from files and plugins. `bypass_cache`: runs the plugin
    /// even if its last result has not expired.
    pub async fn credentials(
        &self,
        plugins: &Plugins,
        bypass_cache: bool,
    ) -> Result<Credentials, KubeconfigProblem> {
        if self.user.auth_provider.is_some() {
            return Err(KubeconfigProblem::AuthProviderRefused);
        }
        let server_url = self.cluster.server.clone().unwrap_or_default();
        endpoint::parse(&server_url).ok_or(KubeconfigProblem::ServerInvalid)?;
        let mut credentials = Credentials {
            server: server_url,
            token: self.token().await?,
            trust: self.trust().await?,
            server_name: self
                .cluster
                .tls_server_name
                .clone()
                .filter(|name| !name.is_empty()),
            client_certificate: self.client_certificate().await?,
            password: self.password(),
            impersonation: self.impersonation(),
            proxy_url: self.cluster.proxy_url.clone().filter(|url| !url.is_empty()),
            ..Credentials::default()
        };
        self.run_plugin(&mut credentials, plugins, bypass_cache)
            .await?;
        Ok(credentials)
    }

    async fn run_plugin(
        &self,
        credentials: &mut Credentials,
        plugins: &Plugins,
        bypass_cache: bool,
    ) -> Result<(), KubeconfigProblem> {
        let has_login = credentials.token.is_some() || credentials.password.is_some();
        let Some(exec) = self.user.exec.as_ref().filter(|_| !has_login) else {
            return Ok(());
        };
        let cluster = self.cluster_info(credentials).await?;
        let credential = plugins
            .credential(exec, Some(&cluster), bypass_cache)
            .await?;
        credentials.token = credential.token;
        credentials.client_certificate = credential
            .client_certificate
            .or(credentials.client_certificate.take());
        Ok(())
    }

    /// The cluster information for a plugin with `provideClusterInfo`.
    async fn cluster_info(
        &self,
        credentials: &Credentials,
    ) -> Result<ExecAuthCluster, KubeconfigProblem> {
        const EXTENSION: &str = "client.authentication.k8s.io/exec";
        let mut extensions = self.cluster.extensions.iter().flatten();
        Ok(ExecAuthCluster {
            server: Some(credentials.server.clone()),
            insecure_skip_tls_verify: self.cluster.insecure_skip_tls_verify,
            certificate_authority_data: self.authority().await?,
            proxy_url: credentials.proxy_url.clone(),
            tls_server_name: credentials.server_name.clone(),
            config: extensions
                .find(|extension| extension.name == EXTENSION)
                .map(|extension| extension.extension.clone()),
        })
    }

    async fn authority(&self) -> Result<Option<Vec<u8>>, KubeconfigProblem> {
        let (data, file) = (
            self.cluster.certificate_authority_data.as_deref(),
            self.cluster.certificate_authority.as_deref(),
        );
        content(
            ["certificate-authority-data", "certificate-authority"],
            data,
            file,
        )
        .await
    }

    /// A token file takes precedence over an inline token, because it can be renewed.
    async fn token(&self) -> Result<Option<String>, KubeconfigProblem> {
        let inline = self
            .user
            .token
            .as_ref()
            .map(|token| token.expose_secret().trim().to_owned());
        let inline = inline.filter(|token| !token.is_empty());
        let from_file = match self
            .user
            .token_file
            .as_deref()
            .filter(|path| !path.is_empty())
        {
            None => None,
            Some(path) => match read_file("tokenFile", path).await {
                Ok(content) => Some(String::from_utf8_lossy(content.trim_ascii()).into_owned()),
                Err(_) if inline.is_some() => None,
                Err(problem) => return Err(problem),
            },
        };
        let Some(token) = from_file.or(inline) else {
            return Ok(None);
        };
        let invalid = KubeconfigProblem::Invalid {
            field: "token",
            expected: "a bearer token",
        };
        bearer(token.as_bytes()).map(Some).ok_or(invalid)
    }

    async fn trust(&self) -> Result<ServerTrust, KubeconfigProblem> {
        if self.cluster.insecure_skip_tls_verify.unwrap_or_default() {
            return Ok(ServerTrust::Insecure);
        }
        let Some(bundle) = self.authority().await? else {
            return Ok(ServerTrust::System);
        };
        let roots = usable_certificates(&bundle);
        if roots.is_empty() {
            let expected = "a certificate as PEM, in base64";
            return Err(KubeconfigProblem::Invalid {
                field: "certificate-authority-data",
                expected,
            });
        }
        Ok(ServerTrust::Roots(roots))
    }

    async fn client_certificate(&self) -> Result<Option<ClientCertificate>, KubeconfigProblem> {
        let user = &self.user;
        let (data, file) = (
            user.client_certificate_data.as_deref(),
            user.client_certificate.as_deref(),
        );
        let certificate = content(
            ["client-certificate-data", "client-certificate"],
            data,
            file,
        )
        .await?;
        let data = user
            .client_key_data
            .as_ref()
            .map(ExposeSecret::expose_secret);
        let key = content(
            ["client-key-data", "client-key"],
            data,
            user.client_key.as_deref(),
        )
        .await?;
        match (certificate, key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some(ClientCertificate { certificate, key })),
            _ => Err(KubeconfigProblem::ClientCertificateIncomplete),
        }
    }

    fn password(&self) -> Option<Password> {
        let user = self.user.username.clone().filter(|user| !user.is_empty())?;
        let password = self
            .user
            .password
            .as_ref()
            .map(|password| password.expose_secret().to_owned())
            .unwrap_or_default();
        Some(Password { user, password })
    }

    fn impersonation(&self) -> Impersonation {
        let user = &self.user;
        Impersonation {
            user: user.impersonate.clone().filter(|user| !user.is_empty()),
            uid: user.impersonate_uid.clone().filter(|uid| !uid.is_empty()),
            groups: user.impersonate_groups.clone().unwrap_or_default(),
            extra: user
                .impersonate_user_extra
                .clone()
                .unwrap_or_default()
                .into_iter()
                .collect(),
        }
    }
}

/// Sets the proxy from the environment if there is no `proxy-url`, as kubectl does.
pub(super) fn use_proxy_of_environment(credentials: &mut Credentials) {
    if credentials.proxy_url.is_some() {
        return;
    }
    let Some(target) = endpoint::parse(&credentials.server) else {
        return;
    };
    let Some(proxy) = Matcher::from_env().intercept(&target) else {
        return;
    };
    let uri = proxy.uri();
    let login = proxy.raw_auth().map(|(user, password)| {
        let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        format!("{}:{}@", encode(user), encode(password))
    });
    let (scheme, authority) = (
        uri.scheme_str().unwrap_or("http"),
        uri.authority().map_or("", |authority| authority.as_str()),
    );
    credentials.proxy_url = Some(format!(
        "{scheme}://{}{authority}",
        login.unwrap_or_default()
    ));
    if let Some(basic) = proxy.basic_auth().and_then(|value| value.to_str().ok()) {
        credentials
            .proxy_header
            .insert("Proxy-Authorization".to_owned(), basic.to_owned());
    }
}

fn find_context<'k>(
    kubeconfig: &'k Kubeconfig,
    requested: Option<&str>,
) -> Result<&'k NamedContext, KubeconfigProblem> {
    let current = kubeconfig
        .current_context
        .as_deref()
        .filter(|name| !name.is_empty());
    match (requested.or(current), kubeconfig.contexts.as_slice()) {
        (Some(name), contexts) => contexts
            .iter()
            .find(|context| context.name == name)
            .ok_or_else(|| KubeconfigProblem::ContextNotFound {
                name: name.to_owned(),
                known: names(contexts),
            }),
        (None, [only]) => Ok(only),
        (None, _) => Err(KubeconfigProblem::CurrentContextMissing),
    }
}

fn names(contexts: &[NamedContext]) -> String {
    let shown: Vec<&str> = contexts
        .iter()
        .take(MAX_NAMES)
        .map(|context| context.name.as_str())
        .collect();
    match contexts.len().saturating_sub(MAX_NAMES) {
        0 if shown.is_empty() => "none".to_owned(),
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Inline data takes precedence over the file that the kubeconfig names.
async fn content(
    [data_field, file_field]: [&'static str; 2],
    data: Option<&str>,
    file: Option<&str>,
) -> Result<Option<Vec<u8>>, KubeconfigProblem> {
    if let Some(data) = data.filter(|data| !data.is_empty()) {
        let invalid = KubeconfigProblem::Invalid {
            field: data_field,
            expected: "base64",
        };
        return decode(data).map(Some).ok_or(invalid);
    }
    match file.filter(|file| !file.is_empty()) {
        Some(path) => read_file(file_field, path).await.map(Some),
        None => Ok(None),
    }
}

fn decode(data: &str) -> Option<Vec<u8>> {
    let compact: String = data.split_whitespace().collect();
    STANDARD.decode(compact).ok()
}

async fn read_file(field: &'static str, path: &str) -> Result<Vec<u8>, KubeconfigProblem> {
    let unreadable = |cause: String| KubeconfigProblem::NamedFile {
        field,
        path: path.into(),
        cause,
    };
    let file = tokio::fs::File::open(path)
        .await
        .map_err(|error| unreadable(error.to_string()))?;
    let mut content = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut content)
        .await
        .map_err(|error| unreadable(error.to_string()))?;
    if content.len() as u64 > MAX_FILE {
        return Err(unreadable("it is larger than 1 MiB".to_owned()));
    }
    Ok(content)
}

#[cfg(test)]
mod tests;
