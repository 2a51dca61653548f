//! Members described by Karmada's `Cluster` objects.

use std::{convert::Infallible, sync::Arc};

use fleetdex_crds::cluster::Cluster;
use kube::{Api, Client, runtime::watcher::Config};
use tokio::time::sleep;

use super::{
    super::member::Member,
    NOT_SERVED_RETRY,
    aggregator::{SourceEntry, SourceWriter},
    reflector::reflect,
};

const HELP: &str = "install the CRDs (fleetdex crd), or choose other sources with --cluster-source";

/// Reflects all `Cluster` objects.
pub(super) async fn run(control_plane: Client, writer: SourceWriter) -> Infallible {
    loop {
        reflect(
            Api::<Cluster>::all(control_plane.clone()),
            Config::default(),
            &writer,
            HELP,
            |cluster| Some(entry(cluster)),
        )
        .await;
        sleep(NOT_SERVED_RETRY).await;
    }
}

/// A `Cluster` that is being deleted is no longer a member, even while finalizers keep the object.
fn entry(cluster: Cluster) -> SourceEntry {
    let cluster = Arc::new(cluster);
    if cluster.metadata.deletion_timestamp.is_some() {
        return SourceEntry {
            member: Err("it is being deleted".to_owned()),
            cluster_object: None,
        };
    }
    SourceEntry {
        member: Member::try_from(&*cluster).map_err(|error| error.to_string()),
        cluster_object: Some(cluster),
    }
}
