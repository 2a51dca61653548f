//! A control plane and a server of Fleetdex, both of which one fake server is.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

use axum::{
    Json, Router,
    http::{StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

const QUERY_API: &str = "/apis/search.fleetdex.io/v1alpha1";

/// Group, version, kind, plural, and whether its objects have namespaces.
pub type ServedKind = (&'static str, &'static str, &'static str, &'static str, bool);

/// An API server with some objects.
#[derive(Clone, Default)]
pub struct FakeApi {
    pub kinds: Vec<ServedKind>,
    pub objects: Vec<Value>,
}

impl FakeApi {
    /// Answers discovery, and lists with pages of one object.
    fn answer(&self, path: &str, query: &str) -> Option<Value> {
        let groups: BTreeSet<&str> = self.kinds.iter().map(|kind| kind.0).collect();
        let group_versions: BTreeSet<String> = self.kinds.iter().map(group_version).collect();
        match path {
            "/api" => return Some(json!({"kind": "APIVersions", "versions": ["v1"]})),
            "/apis" => {
                let groups = groups.iter().filter(|group| !group.is_empty());
                let groups = groups.map(|group| {
                    let of_group = group_versions.iter().filter_map(|group_version| {
                        let version = group_version.strip_prefix(&format!("{group}/"))?;
                        Some(json!({"groupVersion": group_version, "version": version}))
                    });
                    json!({"name": group, "versions": of_group.collect::<Vec<_>>()})
                });
                return Some(json!({"kind": "APIGroupList", "groups": groups.collect::<Vec<_>>()}));
            }
            _ => {}
        }
        for group_version in group_versions {
            let below = path.strip_prefix(root_of(&group_version));
            let Some(rest) = below.and_then(|below| below.strip_prefix(&group_version)) else {
                continue;
            };
            let of_version = |kind: &&ServedKind| self::group_version(kind) == group_version;
            let mut kinds = self.kinds.iter().filter(of_version);
            if rest.is_empty() {
                let resources = kinds.map(|(_, _, kind, plural, namespaced)| {
                    json!({"name": plural, "kind": kind, "namespaced": namespaced,
                           "singularName": "", "verbs": ["list", "watch"]})
                });
                return Some(json!({
                    "kind": "APIResourceList", "groupVersion": group_version,
                    "resources": resources.collect::<Vec<_>>(),
                }));
            }
            let rest = rest.trim_start_matches('/');
            let (namespace, plural) = match rest.strip_prefix("namespaces/") {
                Some(below) => below.split_once('/')?,
                None => ("", rest),
            };
            let kind = kinds.find(|kind| kind.3 == plural)?;
            return Some(self.page(&group_version, kind.2, namespace, query));
        }
        None
    }

    fn page(&self, group_version: &str, kind: &str, namespace: &str, query: &str) -> Value {
        let mut parameters = query.split('&');
        let name = parameters.find_map(|one| one.strip_prefix("fieldSelector=metadata.name%3D"));
        let is_asked = |metadata: &Value| {
            (namespace.is_empty() || metadata["namespace"] == namespace)
                && name.is_none_or(|name| metadata["name"] == name)
        };
        let objects = self.objects.iter();
        let objects: Vec<&Value> = objects
            .filter(|object| object["apiVersion"] == group_version && object["kind"] == kind)
            .filter(|object| is_asked(&object["metadata"]))
            .collect();
        let mut parameters = query.split('&');
        let from = parameters.find_map(|one| one.strip_prefix("continue="));
        let from: usize = from.map_or(0, |token| token.parse().unwrap());
        let next = if from + 1 < objects.len() {
            (from + 1).to_string()
        } else {
            String::new()
        };
        let items = objects.into_iter().skip(from).take(1).map(|object| {
            let mut item = object.clone();
            // Items of lists do not say it.
            item.as_object_mut()
                .unwrap()
                .retain(|key, _| key != "kind" && key != "apiVersion");
            item
        });
        json!({
            "apiVersion": group_version, "kind": format!("{kind}List"),
            "metadata": {"continue": next}, "items": items.collect::<Vec<_>>(),
        })
    }
}

fn group_version((group, version, ..): &ServedKind) -> String {
    match *group {
        "" => (*version).to_owned(),
        group => format!("{group}/{version}"),
    }
}

fn root_of(group_version: &str) -> &'static str {
    if group_version.contains('/') {
        "/apis/"
    } else {
        "/api/"
    }
}

/// Serves both, and writes a kubeconfig for them.
pub async fn serve(control_plane: FakeApi, members: Option<FakeApi>, kubeconfig: &Path) {
    let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let answer = move |uri: Uri| {
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        let found = match (path.strip_prefix(QUERY_API), &members) {
            (None, _) => control_plane.answer(path, query),
            (Some(_), None) => None,
            (Some(below), Some(members)) => {
                let fleet = below.strip_prefix("/proxying/karmada/proxy");
                let native = fleet.or_else(|| below.strip_prefix("/search"));
                native.and_then(|native| members.answer(native, query))
            }
        };
        let response: Response = match found {
            Some(found) => Json(found).into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        };
        async move { response }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    let mut text = String::new();
    write!(
        text,
        "apiVersion: v1\nkind: Config\ncurrent-context: cp\n\
         clusters: [{{name: cp, cluster: {{server: 'http://{address}'}}}}]\n\
         users: [{{name: cp, user: {{}}}}]\n\
         contexts: [{{name: cp, context: {{cluster: cp, user: cp, namespace: web}}}}]\n"
    )
    .unwrap();
    fs::write(kubeconfig, text).unwrap();
}
