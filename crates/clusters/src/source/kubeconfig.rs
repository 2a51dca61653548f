//! What a kubeconfig says about one cluster, and what of it is refused.
//!
//! A kubeconfig in a Secret is somebody else's: it may hold credentials, but it may not make this program run a plugin or read a
//! file, whose content would then be sent to a server of its choice.

use std::path::PathBuf;

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::{AuthInfo, Cluster, ExecAuthCluster, Kubeconfig, NamedContext};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::ExposeSecret;
use tokio::io::AsyncReadExt;

use super::{
    super::{
        credentials::{
            Credentials, Identity, Impersonation, Password, Trust, bearer, usable_certificates,
        },
        endpoint,
    },
    plugin::{PluginError, Plugins},
};

/// Greatest file that a kubeconfig may name: certificates, keys and tokens are some kilobytes.
const MAX_FILE: u64 = 1 << 20;
/// Names that are spelt out in a message.
const MAX_NAMES: usize = 10;

/// A kubeconfig gives no connection. No message holds anything secret of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigProblem {
    /// No kubeconfig at all.
    #[error("it is not a kubeconfig: YAML or JSON with clusters, users and contexts is expected")]
    Unreadable,
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    FileUnreadable(String),
    /// The Secret has no kubeconfig.
    #[error("the Secret has no key {0}: store the kubeconfig there, once base64-encoded")]
    KeyMissing(String),
    /// No such context.
    #[error("there is no context {name:?}; there is {known}")]
    ContextNotFound {
        /// The context.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// Several contexts, and none is the current one.
    #[error("it has no current-context, and not just one context: set current-context")]
    CurrentContextMissing,
    /// A context that names something which is not there.
    #[error("context {context:?} names the {what} {name:?}, which is not in it")]
    Dangling {
        /// The context.
        context: String,
        /// `cluster` or `user`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// No usable address.
    #[error(
        "server of its cluster is not the URL of an API server: write it as https://HOST:PORT, without user, query and fragment"
    )]
    ServerInvalid,
    /// A plugin in a Secret.
    #[error(
        "it wants a program to be run (exec), which is only done for the kubeconfig file of whoever starts fleetdex: store a token or a client certificate instead"
    )]
    ExecRefused,
    /// A legacy plugin.
    #[error(
        "it uses auth-provider, which kubectl has given up too: use exec in a kubeconfig file, or a token"
    )]
    AuthProviderRefused,
    /// A file named in a Secret.
    #[error(
        "{0} names a file, which is only read for the kubeconfig file of whoever starts fleetdex: put the content into {0}-data, or the token into token"
    )]
    FileRefused(&'static str),
    /// A file that it names.
    #[error("{field} {path}: {cause}")]
    NamedFile {
        /// The field.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        cause: String,
    },
    /// A value of another form.
    #[error("{field} does not hold {expected}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What it should hold.
        expected: &'static str,
    },
    /// Half of a client certificate.
    #[error("a client certificate needs client-certificate-data and client-key-data")]
    IdentityIncomplete,
    /// A plugin gave nothing.
    #[error(transparent)]
    Plugin(#[from] PluginError),
}

impl KubeconfigProblem {
    /// The reason of a condition, in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::FileUnreadable(_) | Self::NamedFile { .. } => "FileUnreadable",
            Self::KeyMissing(_) => "SecretInvalid",
            Self::ContextNotFound { .. } => "ContextNotFound",
            Self::ExecRefused => "ExecRefused",
            Self::AuthProviderRefused => "AuthProviderRefused",
            Self::FileRefused(_) => "FileRefused",
            Self::Plugin(_) => "ExecFailed",
            Self::Unreadable
            | Self::CurrentContextMissing
            | Self::Dangling { .. }
            | Self::ServerInvalid
            | Self::Invalid { .. }
            | Self::IdentityIncomplete => "KubeconfigInvalid",
        }
    }
}

/// What a context of a kubeconfig names.
#[derive(Clone, Debug)]
pub struct Entry {
    cluster: Cluster,
    user: AuthInfo,
}

impl Entry {
    /// Of the context with this name, or else of the current one, or else of the only one.
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

    /// Refuses what a kubeconfig that is not one's own must not make a program do.
    pub fn refuse_reach(&self) -> Result<(), KubeconfigProblem> {
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

    /// The credentials, with what files and plugins give. `anew`: those of before were refused.
    pub async fn credentials(
        &self,
        plugins: &Plugins,
        anew: bool,
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
            identity: self.identity().await?,
            password: self.password(),
            impersonation: self.impersonation(),
            proxy_url: self.cluster.proxy_url.clone().filter(|url| !url.is_empty()),
            ..Credentials::default()
        };
        self.ask_plugin(&mut credentials, plugins, anew).await?;
        Ok(credentials)
    }

    async fn ask_plugin(
        &self,
        credentials: &mut Credentials,
        plugins: &Plugins,
        anew: bool,
    ) -> Result<(), KubeconfigProblem> {
        let has_one = credentials.token.is_some() || credentials.password.is_some();
        let Some(exec) = self.user.exec.as_ref().filter(|_| !has_one) else {
            return Ok(());
        };
        let cluster = self.for_plugin(credentials).await?;
        let given = plugins.ask(exec, Some(&cluster), anew).await?;
        credentials.token = given.token;
        credentials.identity = given.identity.or(credentials.identity.take());
        Ok(())
    }

    /// What a plugin with `provideClusterInfo` is told.
    async fn for_plugin(
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

    /// A token file beats the token: it is renewed by somebody.
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

    async fn trust(&self) -> Result<Trust, KubeconfigProblem> {
        if self.cluster.insecure_skip_tls_verify.unwrap_or_default() {
            return Ok(Trust::Anyone);
        }
        let Some(bundle) = self.authority().await? else {
            return Ok(Trust::System);
        };
        let roots = usable_certificates(&bundle);
        if roots.is_empty() {
            let expected = "a certificate as PEM, in base64";
            return Err(KubeconfigProblem::Invalid {
                field: "certificate-authority-data",
                expected,
            });
        }
        Ok(Trust::Roots(roots))
    }

    async fn identity(&self) -> Result<Option<Identity>, KubeconfigProblem> {
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
            (Some(certificate), Some(key)) => Ok(Some(Identity { certificate, key })),
            _ => Err(KubeconfigProblem::IdentityIncomplete),
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

/// Without `proxy-url`, kubectl goes through the proxy that the environment names: so do we for its file.
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
    wanted: Option<&str>,
) -> Result<&'k NamedContext, KubeconfigProblem> {
    let current = kubeconfig
        .current_context
        .as_deref()
        .filter(|name| !name.is_empty());
    match (wanted.or(current), kubeconfig.contexts.as_slice()) {
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

/// Data in the kubeconfig beats the file that it names.
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
#[path = "kubeconfig_tests.rs"]
mod tests;
