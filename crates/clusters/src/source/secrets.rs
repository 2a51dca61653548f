//! Members described by labelled Secrets, each with a kubeconfig.
//!
//! Only the metadata of the Secrets is watched. The data of a Secret is read when its member is
//! connected.

use std::convert::Infallible;

use fleetdex_crds::cluster::LocalSecretReference;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt, core::PartialObjectMeta, runtime::watcher::Config};
use tokio::time::sleep;

use super::{
    super::member::{KubeconfigSecret, Member, MemberAccess},
    NOT_SERVED_RETRY,
    aggregator::{SourceEntry, SourceWriter},
    reflector::reflect,
};

/// The label of a Secret that holds a kubeconfig; its value is the member's name.
pub const LABEL: &str = "fleetdex.io/cluster";
/// The keys of the Secret that may hold the kubeconfig.
const KEYS: &[&str] = &["kubeconfig", "value"];

/// Reflects the labelled Secrets of a namespace.
pub(super) async fn run(
    control_plane: Client,
    namespace: String,
    writer: SourceWriter,
) -> Infallible {
    loop {
        let secrets: Api<PartialObjectMeta<Secret>> =
            Api::namespaced(control_plane.clone(), &namespace);
        reflect(
            secrets,
            Config::default().labels(LABEL),
            &writer,
            "is it a Kubernetes API server?",
            |secret| entry(&secret),
        )
        .await;
        sleep(NOT_SERVED_RETRY).await;
    }
}

/// `None` for a Secret without the label.
fn entry(secret: &PartialObjectMeta<Secret>) -> Option<SourceEntry> {
    let name = secret.labels().get(LABEL)?;
    let reference = LocalSecretReference {
        namespace: secret.namespace().unwrap_or_default(),
        name: secret.name_any(),
    };
    let member = match name.parse() {
        Err(_) => Err(format!(
            "its label {LABEL} is empty: it is the name of the cluster"
        )),
        Ok(name) => Ok(Member {
            name,
            uid: secret.uid().unwrap_or_default(),
            generation: None,
            labels: secret.labels().clone(),
            provider: None,
            region: None,
            zones: Vec::new(),
            origin: format!("Secret {}/{}", reference.namespace, reference.name),
            created: secret.creation_timestamp().map(|time| time.0),
            access: MemberAccess::KubeconfigSecret(KubeconfigSecret {
                secret: reference,
                keys: KEYS,
            }),
        }),
    };
    Some(SourceEntry {
        member,
        cluster_object: None,
    })
}
