//! Registers the `APIService` by which the control plane forwards requests for the group to this
//! server.

use std::{fmt, str::FromStr, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fleetdex_query_api::group::{GROUPS, VERSION};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde_json::json;
use tokio::time::timeout;

/// The field manager of server-side apply.
const FIELD_MANAGER: &str = "fleetdex-api-service";
/// Timeout of one request to the control plane.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Priority among groups with a resource of the same name; Kubernetes' own groups have far higher
/// ones.
const GROUP_PRIORITY: u32 = 1_000;
/// Priority among the versions of the group.
const VERSION_PRIORITY: u32 = 15;

/// The Service by which the control plane reaches this server: `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl FromStr for ServiceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_name = |part: &str| {
            let is_allowed =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            !part.is_empty() && part.len() <= 63 && part.bytes().all(is_allowed)
        };
        match text.split_once('/') {
            Some((namespace, name)) if is_name(namespace) && is_name(name) => Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err(format!("{text:?} is not a NAMESPACE/NAME of a Service")),
        }
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

impl ServiceName {
    /// Its DNS names.
    pub fn hosts(&self) -> Vec<String> {
        let Self { namespace, name } = self;
        vec![
            format!("{name}.{namespace}.svc"),
            format!("{name}.{namespace}"),
            format!("{name}.{namespace}.svc.cluster.local"),
        ]
    }
}

/// The `APIService` could not be written.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    /// The control plane did not respond.
    #[error("the control plane does not respond within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// The control plane refused.
    #[error("cannot write APIService {0}")]
    Refused(String, #[source] Box<kube::Error>),
}

/// Registers the Service that serves the group. `authority` is the `caBundle` in PEM; without it
/// the `caBundle` is left to others.
pub async fn register(
    client: &Client,
    service: &ServiceName,
    port: u16,
    authority: Option<&str>,
) -> Result<(), RegistrationError> {
    let name = format!("{VERSION}.{}", GROUPS[0]);
    let kind = GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let mut spec = json!({
        "group": GROUPS[0],
        "version": VERSION,
        "groupPriorityMinimum": GROUP_PRIORITY,
        "versionPriority": VERSION_PRIORITY,
        "service": { "namespace": service.namespace, "name": service.name, "port": port },
    });
    if let Some(pem) = authority {
        spec["caBundle"] = json!(STANDARD.encode(pem));
    }
    let object = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": { "name": name },
        "spec": spec,
    });
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let patched = timeout(
        TIMEOUT,
        api.patch(&name, &parameters, &Patch::Apply(&object)),
    )
    .await;
    patched
        .map_err(|_| RegistrationError::Timeout)?
        .map_err(|source| RegistrationError::Refused(name, Box::new(source)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_with_its_namespace() {
        let service: ServiceName = "search/fleetdex".parse().unwrap();
        assert_eq!(service.to_string(), "search/fleetdex");
        assert_eq!(service.hosts()[0], "fleetdex.search.svc");
        for wrong in [
            "",
            "fleetdex",
            "/fleetdex",
            "search/",
            "a/b/c",
            "Search/fleetdex",
            "a b/c",
        ] {
            assert!(wrong.parse::<ServiceName>().is_err(), "{wrong}");
        }
    }
}
