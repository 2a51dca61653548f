//! Builds the entries of a context for the fleet.

use std::{collections::BTreeMap, fs, path::Path};

use fleetdex_clusters::source::is_fleet_url;
use fleetdex_query_api::group::FLEET_PATH;
use kube::config::{
    AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use reqwest::Url;

use super::error::KubeconfigError;

/// User name in the URL of a server without TLS; the server checks the password alone.
pub(super) const URL_USER: &str = "fleetdex";

/// The entries of one context.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    pub(super) context: NamedContext,
    pub(super) cluster: NamedCluster,
    /// The user; printed always, merged only if `is_new_user`.
    pub(super) user: Option<NamedAuthInfo>,
    pub(super) is_new_user: bool,
}

impl Entries {
    /// Whether the URL of the server contains a password.
    pub(super) fn has_password(&self) -> bool {
        let cluster = self.cluster.cluster.as_ref();
        let server = cluster.and_then(|cluster| cluster.server.as_deref());
        let url = server.and_then(|server| Url::parse(server).ok());
        url.is_some_and(|url| url.password().is_some())
    }

    pub(super) fn into_kubeconfig(self) -> Kubeconfig {
        Kubeconfig {
            api_version: Some("v1".to_owned()),
            kind: Some("Config".to_owned()),
            current_context: Some(self.context.name.clone()),
            clusters: vec![self.cluster],
            contexts: vec![self.context],
            auth_infos: self.user.into_iter().collect(),
            ..Kubeconfig::default()
        }
    }
}

/// A context for a server on this machine. kubectl sends no token without TLS, but it does send the
/// password of a URL.
pub(super) fn direct(
    name: &str,
    server: &str,
    token_file: &Path,
) -> Result<Entries, KubeconfigError> {
    let token_file = std::path::absolute(token_file).unwrap_or_else(|_| token_file.to_owned());
    let has_tls = server.starts_with("https:");
    let server = if has_tls {
        server.to_owned()
    } else {
        let token = fs::read_to_string(&token_file).map_err(|source| KubeconfigError::File {
            operation: "read",
            path: token_file.clone(),
            source,
        })?;
        with_password(server, token.trim())
    };
    let user = has_tls.then(|| NamedAuthInfo {
        name: name.to_owned(),
        other: BTreeMap::new(),
        auth_info: Some(AuthInfo {
            token_file: Some(token_file.display().to_string()),
            ..AuthInfo::default()
        }),
    });
    Ok(Entries {
        context: NamedContext {
            name: name.to_owned(),
            other: BTreeMap::new(),
            context: Some(Context {
                cluster: name.to_owned(),
                user: user.as_ref().map(|user| user.name.clone()),
                ..Context::default()
            }),
        },
        cluster: NamedCluster {
            name: name.to_owned(),
            other: BTreeMap::new(),
            cluster: Some(Cluster {
                server: Some(fleet_url(&server)),
                ..Cluster::default()
            }),
        },
        user,
        is_new_user: true,
    })
}

fn with_password(server: &str, token: &str) -> String {
    let Ok(mut url) = Url::parse(server) else {
        return server.to_owned();
    };
    // Neither fails for a URL with a host, and `ClientConfig` has checked that.
    let _result = url.set_username(URL_USER);
    let _result = url.set_password(Some(token));
    url.to_string()
}

/// A context for the aggregation layer of a control plane, with the cluster and the user of another
/// context.
pub(super) fn through_apiserver(
    name: &str,
    source: &Kubeconfig,
    context: Option<&str>,
    source_file: &str,
) -> Result<Entries, KubeconfigError> {
    let context = context
        .or(source.current_context.as_deref())
        .unwrap_or_default();
    let named = source
        .contexts
        .iter()
        .find(|entry| entry.name == context)
        .and_then(|entry| entry.context.clone())
        .ok_or_else(|| KubeconfigError::NoContext {
            name: context.to_owned(),
            source_file: source_file.to_owned(),
        })?;
    let no_server = || KubeconfigError::NoServer {
        context: context.to_owned(),
    };
    let cluster = source
        .clusters
        .iter()
        .find(|entry| entry.name == named.cluster)
        .and_then(|entry| entry.cluster.clone())
        .ok_or_else(no_server)?;
    let server = cluster.server.as_deref().ok_or_else(no_server)?;
    let server = fleet_url(server);
    let user = named.user.as_ref().and_then(|user| {
        let entry = source.auth_infos.iter().find(|entry| entry.name == *user);
        entry.cloned()
    });
    Ok(Entries {
        context: NamedContext {
            name: name.to_owned(),
            other: BTreeMap::new(),
            context: Some(Context {
                cluster: name.to_owned(),
                ..named
            }),
        },
        cluster: NamedCluster {
            name: name.to_owned(),
            other: BTreeMap::new(),
            cluster: Some(Cluster {
                server: Some(server),
                ..cluster
            }),
        },
        user,
        is_new_user: false,
    })
}

/// Returns the URL of the Kubernetes API over the fleet. A URL that has the path already stays as
/// it is.
fn fleet_url(server: &str) -> String {
    let server = server.trim_end_matches('/');
    if is_fleet_url(server) {
        server.to_owned()
    } else {
        format!("{server}{FLEET_PATH}")
    }
}
