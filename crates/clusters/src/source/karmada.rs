//! Members that Karmada's `Cluster` objects describe.

use std::{convert::Infallible, sync::Arc};

use fleetdex_api::cluster::Cluster;
use kube::{Api, Client, runtime::watcher::Config};
use tokio::time::sleep;

use super::{
    super::member::Member,
    board::{Entry, Feed},
    mirror::{RETRY, follow},
};

const HELP: &str = "install the CRDs (fleetdex crd), or choose other sources with --cluster-source";

/// Follows all `Cluster` objects.
pub(super) async fn run(hub: Client, feed: Feed) -> Infallible {
    loop {
        follow(
            Api::<Cluster>::all(hub.clone()),
            Config::default(),
            &feed,
            HELP,
            |cluster| Some(entry(cluster)),
        )
        .await;
        sleep(RETRY).await;
    }
}

/// A Cluster that is being deleted is no member any more, although it may be there for long.
fn entry(cluster: Cluster) -> Entry {
    let cluster = Arc::new(cluster);
    if cluster.metadata.deletion_timestamp.is_some() {
        return Entry {
            member: Err("it is being deleted".to_owned()),
            cluster: None,
        };
    }
    Entry {
        member: Member::try_from(&*cluster).map_err(|error| error.to_string()),
        cluster: Some(cluster),
    }
}
