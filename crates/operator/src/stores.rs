//! Opens the stores of registries: credentials, connection, index template.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use fleetdex_clusters::{certificate, secret_hosts};
use fleetdex_core::{
    kinds,
    model::{FieldPath, Gvk, IndexPrefix, hex},
};
use fleetdex_crds::registry::{Indexing, OpenSearch, Packing};
use fleetdex_store::{
    StoreError,
    changes::Sequence,
    memory::Memory,
    opensearch::{
        AllListContexts, Engine, EngineOptions, Feed, IndexSettings, ListContexts, PlacementRules,
        ResponseBudget, Settings, StoreClosed, StoreConnection, connect,
    },
};
use fleetdex_sync::pipeline::{OpenStore, OpenedStore, Unavailable};
use fleetdex_telemetry::metrics::{CertificateInUse, CertificateUse, Metrics};
use jiff::Timestamp;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::{
    plan::{StorePlan, store_name},
    store_secret::INVALID_SECRET,
    store_settings::{CredentialSource, invalid_settings, store_settings},
    stream_supervisor::Opener,
};

/// Returns what opens the stores of plans: in `memory`, or in OpenSearch with these credentials.
/// `owner` identifies this installation in the indices; `list_contexts` is what users may hold of
/// each OpenSearch.
pub fn opener(
    credentials: CredentialSource,
    owner: String,
    memory: Memory,
    list_contexts: u64,
    metrics: Arc<Metrics>,
) -> Opener {
    let contexts = AllListContexts::new(list_contexts);
    let feeds = Feeds {
        sequence: memory.sequence().clone(),
        feeds: Mutex::default(),
    };
    Arc::new(move |plan| match &plan.config {
        Some(config) => {
            let (feed, answers) = feeds.of(config, &plan.prefix);
            Arc::new(RegistryStore {
                contexts: contexts.of(&config.addresses),
                credentials: credentials.clone(),
                plan: plan.clone(),
                config: config.clone(),
                owner: owner.clone(),
                feed,
                answers,
                connection: StoreConnection::default(),
                engine: OnceLock::new(),
                last_settings: Mutex::default(),
                metrics: Arc::clone(&metrics),
                certificate: Mutex::default(),
            })
        }
        None => Arc::new(EmbeddedStore(memory.shaped(&plan.projection.hash()))),
    })
}

/// The addresses and the prefix of a store in OpenSearch.
type AddressesAndPrefix = (BTreeSet<String>, IndexPrefix);

/// The change logs of all stores in OpenSearch, and the memory for their responses. A store that is
/// reopened, with other credentials or for documents of another shape, continues its log, so that
/// watches are not interrupted. There are as many as there have been registries with other
/// addresses, and one that has no watches takes next to nothing.
struct Feeds {
    sequence: Sequence,
    feeds: Mutex<BTreeMap<AddressesAndPrefix, (Feed, ResponseBudget)>>,
}

impl Feeds {
    fn of(&self, config: &OpenSearch, prefix: &IndexPrefix) -> (Feed, ResponseBudget) {
        let addresses = config
            .addresses
            .iter()
            .map(|address| address.trim_end_matches('/').to_owned())
            .collect();
        let mut feeds = self.feeds.lock();
        let new = || (Feed::new(self.sequence.clone()), ResponseBudget::default());
        feeds
            .entry((addresses, prefix.clone()))
            .or_insert_with(new)
            .clone()
    }
}

/// The embedded store of this process, which is always available.
struct EmbeddedStore(Memory);

#[async_trait]
impl OpenStore for EmbeddedStore {
    async fn open(&self) -> Result<OpenedStore, Unavailable> {
        Ok(Arc::new(self.0.clone()).into())
    }

    async fn changed(&self) -> bool {
        false
    }
}

struct RegistryStore {
    credentials: CredentialSource,
    plan: StorePlan,
    config: OpenSearch,
    owner: String,
    feed: Feed,
    answers: ResponseBudget,
    contexts: ListContexts,
    /// What all requests of the engine go through.
    connection: StoreConnection,
    /// The only engine of this store. Opening the store again replaces its connection, so that
    /// queries and writes always have the same credentials.
    engine: OnceLock<Arc<Engine>>,
    /// What the last attempt to open the store found.
    last_settings: Mutex<Option<Result<Settings, Unavailable>>>,
    metrics: Arc<Metrics>,
    /// The client certificate of these settings.
    certificate: Mutex<Option<CertificateInUse>>,
}

impl RegistryStore {
    async fn settings(&self) -> Result<Settings, Unavailable> {
        store_settings(&self.config, &self.credentials).await
    }

    /// Sends all further requests with these settings.
    fn connect(&self, settings: &Settings) -> Result<(), Unavailable> {
        match connect(settings) {
            Ok(service) => {
                self.connection.replace(service);
                Ok(())
            }
            Err(error) => {
                let unavailable = invalid_settings(&error);
                self.close(&unavailable);
                Err(unavailable)
            }
        }
    }

    /// Sends nothing any more, neither writes nor queries.
    fn close(&self, Unavailable { reason, message }: &Unavailable) {
        self.connection.close(StoreClosed {
            reason,
            message: message.clone(),
        });
    }

    fn engine(&self) -> Arc<Engine> {
        let engine = || {
            let (service, options) = (self.connection.service(), self.options());
            let feed = self.feed.clone();
            let engine = Engine::reading_into(service, options, feed, self.answers.clone());
            Arc::new(engine.sharing(self.contexts.clone()))
        };
        Arc::clone(self.engine.get_or_init(engine))
    }

    /// The condition of a store that cannot be opened. Only OpenSearch decides whether a token has
    /// expired, as clocks differ; why it refuses one is only known here.
    fn explained(&self, error: StoreError, settings: &Settings) -> Unavailable {
        let refused = matches!(error, StoreError::Unauthorized { .. });
        let expiry = settings.authentication.token_expiry();
        let expired = expiry.filter(|expiry| refused && *expiry <= Timestamp::now());
        let (Some(expired), Some(secret)) = (expired, &self.config.secret_ref) else {
            return error.into();
        };
        Unavailable {
            reason: "TokenExpired",
            message: format!(
                "{error}; the token expired at {expired}: write a new one to the key token of Secret {}/{}",
                secret.namespace, secret.name
            ),
        }
    }

    fn certificate_of(&self, settings: &Settings) -> Option<CertificateInUse> {
        let not_after = certificate::first_not_after(settings.client_certificate.as_deref()?)?;
        let store = store_name(&self.config.addresses, &self.plan.prefix)?;
        let used_for = CertificateUse::StoreClient;
        Some(
            self.metrics
                .certificate_in_use(used_for, store.as_str(), not_after),
        )
    }

    fn options(&self) -> EngineOptions {
        let OpenSearch {
            addresses,
            number_of_shards,
            number_of_replicas,
            refresh_interval,
            packing,
            ..
        } = &self.config;
        let defaults = IndexSettings::default();
        let count = |desired: Option<i32>| desired.and_then(|desired| u32::try_from(desired).ok());
        let fields = mapped_fields(self.plan.projection.field_paths());
        EngineOptions {
            prefix: self.plan.prefix.clone(),
            settings: IndexSettings {
                shards: count(*number_of_shards).unwrap_or(defaults.shards),
                replicas: count(*number_of_replicas),
                refresh_interval: refresh_interval.clone(),
                is_full: self.plan.projection.is_full(),
            },
            projection: shape(&self.plan, &fields),
            fields,
            placement: PlacementRules {
                shares_indices: packing.unwrap_or_default() == Packing::Auto,
                ..PlacementRules::default()
            },
            owner: self.owner.clone(),
            address: addresses.join(", "),
        }
    }
}

/// A hash of everything that decides what a document contains and what of it can be searched.
fn shape(plan: &StorePlan, fields: &[FieldPath]) -> String {
    let fields: Vec<&str> = fields.iter().map(FieldPath::as_str).collect();
    // Another text would make every index be built again.
    let indexing = match plan.indexing {
        Indexing::Selectable => "Selectable",
        Indexing::Full => "Full",
    };
    let text = format!("{} {indexing} {fields:?}", plan.projection.hash());
    hex(&Sha256::digest(text.as_bytes())[..8])
}

/// The paths of the selectable fields of all built-in kinds, and those of the registries.
fn mapped_fields(extra: &[FieldPath]) -> Vec<FieldPath> {
    let built_in = kinds::all().iter().flat_map(|kind| {
        let gvk = Gvk::new(kind.group, kind.version, kind.kind);
        kinds::selectable_fields(&gvk).unwrap_or_default()
    });
    let mut fields: Vec<FieldPath> = built_in
        .filter_map(|field| field.sources.first().cloned())
        .chain(extra.iter().cloned())
        .collect();
    fields.sort();
    fields.dedup();
    fields
}

#[async_trait]
impl OpenStore for RegistryStore {
    async fn open(&self) -> Result<OpenedStore, Unavailable> {
        let found = self.settings().await;
        *self.last_settings.lock() = Some(found.clone());
        let settings = match found {
            Ok(settings) => settings,
            Err(unavailable) => {
                if is_withdrawal(&unavailable) {
                    self.close(&unavailable);
                }
                return Err(unavailable);
            }
        };
        self.connect(&settings)?;
        let engine = self.engine();
        let prepared = engine.prepare().await;
        prepared.map_err(|error| self.explained(error, &settings))?;
        *self.certificate.lock() = self.certificate_of(&settings);
        Ok(engine.into())
    }

    async fn changed(&self) -> bool {
        let now = self.settings().await;
        match &now {
            Err(unavailable) if is_withdrawal(unavailable) => self.close(unavailable),
            // A Secret that was deleted, or cannot be read now, is reported when the credentials
            // are needed again.
            Err(_) => return false,
            Ok(_) => {}
        }
        self.last_settings.lock().as_ref() != Some(&now)
    }
}

/// Whether the owner of a Secret no longer lets the store have its former credentials: the Secret
/// may not be sent there, or holds something else now.
fn is_withdrawal(unavailable: &Unavailable) -> bool {
    matches!(unavailable.reason, secret_hosts::REASON | INVALID_SECRET)
}

#[cfg(test)]
mod tests {
    use fleetdex_clusters::secret_hosts::{ALLOWED_HOSTS_ANNOTATION, SecretHosts};
    use fleetdex_crds::registry::SecretReference;
    use fleetdex_store::opensearch::LIST_CONTEXTS;
    use http::{Request, Response};
    use kube::{Client, client::Body};
    use tower::{BoxError, service_fn};

    use serde_json::json;

    use super::*;

    /// A store whose Secrets may be sent to these hosts.
    fn store(hosts: &'static str, addresses: &[&str], field: &str) -> RegistryStore {
        let service = service_fn(move |_: Request<Body>| async move {
            let data = ["username", "password", "tls.crt", "tls.key"].map(|key| (key, "eA=="));
            let data: BTreeMap<&str, &str> = data.into_iter().collect();
            let secret = json!({ "metadata": { "name": "s", "annotations": { ALLOWED_HOSTS_ANNOTATION: hosts } }, "data": data });
            Ok::<_, BoxError>(Response::new(Body::from(serde_json::to_vec(&secret)?)))
        });
        let config =
            json!({ "addresses": addresses, field: { "namespace": "search", "name": "s" } });
        RegistryStore {
            credentials: CredentialSource::Secrets(
                Client::new(service, "default"),
                SecretHosts::default(),
            ),
            plan: StorePlan::default(),
            config: serde_json::from_value(config).unwrap(),
            owner: String::new(),
            feed: Feed::new(Sequence::default()),
            answers: ResponseBudget::default(),
            contexts: ListContexts::new(LIST_CONTEXTS),
            connection: StoreConnection::default(),
            engine: OnceLock::new(),
            last_settings: Mutex::default(),
            metrics: Arc::default(),
            certificate: Mutex::default(),
        }
    }

    #[tokio::test]
    async fn credentials_are_sent_only_to_addresses_that_their_secret_allows() {
        for field in ["secretRef", "clientCertSecretRef"] {
            let addresses = ["https://a.example.com:9200", "https://b.example.com"];
            assert!(
                store("a.example.com, b.example.com:443", &addresses, field)
                    .settings()
                    .await
                    .is_ok()
            );
            let refused = store("a.example.com", &addresses, field)
                .settings()
                .await
                .err()
                .unwrap();
            assert_eq!(refused.reason, "HostNotAllowed");
            let expected = format!(
                "backendStore.openSearch.{field}: Secret search/s may not be sent to b.example.com:443: "
            );
            assert!(
                refused.message.starts_with(&expected),
                "{}",
                refused.message
            );
        }
    }

    #[tokio::test]
    async fn a_proxy_is_a_host_that_receives_credentials() {
        for (proxy, destination) in [
            ("http://proxy.example.com:3128", "proxy.example.com:3128"),
            ("https://proxy.example.com", "proxy.example.com:443"),
            ("socks5://proxy.example.com", "proxy.example.com:1080"),
        ] {
            for (hosts, is_allowed) in [("a, proxy.example.com", true), ("a", false)] {
                let mut proxied = store(hosts, &["https://a"], "secretRef");
                proxied.config.proxy_url = Some(proxy.to_owned());
                let settings = proxied.settings().await;
                assert_eq!(settings.is_ok(), is_allowed, "{hosts}");
                if let Err(refused) = settings {
                    assert_eq!(refused.reason, "HostNotAllowed");
                    assert!(refused.message.contains(destination), "{}", refused.message);
                }
            }
        }
    }

    #[tokio::test]
    async fn a_secret_whose_permission_is_withdrawn_is_not_used_any_longer() {
        assert!(store("b", &["https://a"], "secretRef").changed().await);
    }

    #[tokio::test]
    async fn an_invalid_secret_reference_is_not_used_as_a_path() {
        let mut odd = store("*", &["https://a"], "secretRef");
        odd.config.secret_ref = Some(SecretReference {
            namespace: "search".to_owned(),
            name: "../x".to_owned(),
        });
        assert_eq!(
            odd.settings().await.err().unwrap().reason,
            "InvalidSecretRef"
        );
    }
}
