use std::time::Duration;

use async_trait::async_trait;
use fleetdex_store::memory::Memory;
use fleetdex_sync::pipeline::{OpenStore, OpenedStore, Unavailable};
use serde_json::json;
use tokio::time::sleep;

use super::*;
use crate::RegistryView;

/// A store that cannot be opened with a wrong certificate authority.
struct Guarded {
    is_trusted: bool,
}

#[async_trait]
impl OpenStore for Guarded {
    async fn open(&self) -> Result<OpenedStore, Unavailable> {
        if self.is_trusted {
            return Ok(Arc::new(Memory::new()).into());
        }
        Err(Unavailable {
            reason: "UnknownAuthority",
            message: "the certificate is not signed by the authority".to_owned(),
        })
    }

    async fn changed(&self) -> bool {
        false
    }
}

fn registry(authority: &str) -> RegistryView {
    let store = json!({ "addresses": ["https://os:9200"], "caBundle": authority });
    let spec = json!({ "resourceSelectors": [], "backendStore": { "openSearch": store } });
    RegistryView {
        name: "demo".to_owned(),
        uid: "u1".to_owned(),
        created: None,
        spec: serde_json::from_value(spec).unwrap(),
    }
}

fn supervisor() -> StreamSupervisor {
    let opener: Opener = Arc::new(|plan| {
        let authority = plan
            .config
            .as_ref()
            .and_then(|config| config.ca_bundle.as_deref());
        Arc::new(Guarded {
            is_trusted: authority == Some("right"),
        })
    });
    let metrics = Arc::new(Metrics::new());
    StreamSupervisor::new(
        opener,
        metrics,
        Arc::default(),
        SupervisorOptions::default(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_deletion_goes_on_when_the_settings_of_its_store_are_corrected() {
    let mut supervisor = supervisor();
    let members = BTreeMap::new();
    let mut deleted = async |authority: &str| {
        let leaving = [registry(authority)];
        let desired = Desired {
            leaving: &leaving,
            ..Desired::new(&[], &members)
        };
        supervisor.reconcile(desired).await;
        sleep(Duration::from_mins(5)).await;
        let stores: Vec<StoreName> = supervisor
            .stores
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        assert_eq!(stores.len(), 1);
        supervisor.locations().is_gc_done(&stores[0])
    };
    assert!(!deleted("wrong").await);
    assert!(deleted("right").await);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_from_a_store_that_has_been_closed() {
    let mut supervisor = supervisor();
    let members = BTreeMap::new();
    let leaving = [registry("wrong")];
    let desired = Desired {
        leaving: &leaving,
        ..Desired::new(&[], &members)
    };
    supervisor.reconcile(desired).await;
    let store = supervisor.stores.iter().next().unwrap().0.clone();
    assert!(supervisor.gc.has_task(&store));
    supervisor.reconcile(Desired::new(&[], &members)).await;
    assert!(!supervisor.gc.has_task(&store));
}
