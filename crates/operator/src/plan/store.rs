//! Which registries share a store, and what it takes from each.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::model::{
    FieldPath, Gvk, IndexPrefix, InterpretationLevel, InvalidPrefix, InvalidRedaction, Projection,
    Resource, StoreName, hex,
};
use fleetdex_crds::registry::{
    Indexing, InterpretMode, OpenSearch, ResourceRegistrySpec, ResourceSelector, StoreStatus,
};
use fleetdex_sync::filter::ObjectFilter;
use sha2::{Digest, Sha256};

use super::model::{Plan, RegistryPlan, StorePlan};
use crate::RegistryView;

impl Plan {
    /// Adds what a registry specifies for its store. Older registries come first.
    pub(super) fn join_store(&mut self, registry: &RegistryView) -> RegistryPlan {
        let config = registry
            .spec
            .backend_store
            .as_ref()
            .and_then(|backend| backend.open_search.as_ref());
        let (name, prefix) = match config.map_or_else(
            || Ok((StoreName::embedded(), IndexPrefix::default())),
            named,
        ) {
            Ok(found) => found,
            Err(invalid) => {
                return RegistryPlan {
                    invalid: Some(invalid),
                    ..RegistryPlan::default()
                };
            }
        };
        let (request, invalid) = request(&registry.name, &registry.spec, config, prefix);
        let mut conflict = None;
        match self.stores.get_mut(&name) {
            Some(store) => conflict = store.join(request),
            None => {
                self.stores.insert(name.clone(), request);
            }
        }
        let selects_nothing = registry.spec.resource_selectors.is_empty();
        RegistryPlan {
            store: Some(name),
            invalid,
            conflict,
            selects_nothing,
            namespaces: named_namespaces(&registry.spec.resource_selectors),
            ..RegistryPlan::default()
        }
    }
}

impl StorePlan {
    /// A location that the status of a registry records, which is only to be read and emptied;
    /// `None` if it is not valid.
    pub fn of_recorded_location(location: &StoreStatus) -> Option<(StoreName, Self)> {
        let config = OpenSearch {
            addresses: location.addresses.clone(),
            secret_ref: location.secret_ref.clone(),
            ca_bundle: location.ca_bundle.clone(),
            client_cert_secret_ref: location.client_cert_secret_ref.clone(),
            aws: location.aws.clone(),
            proxy_url: location.proxy_url.clone(),
            insecure_skip_tls_verify: location.insecure_skip_tls_verify,
            index_prefix: Some(location.index_prefix.clone()),
            ..OpenSearch::default()
        };
        let (name, prefix) = named(&config).ok()?;
        let plan = Self {
            config: Some(config),
            prefix,
            ..Self::default()
        };
        Some((name, plan))
    }
}

/// The location in OpenSearch that a registry names, as its status records it; `None` if it names
/// none that is valid.
pub fn store_location(spec: &ResourceRegistrySpec) -> Option<StoreStatus> {
    let config = spec.backend_store.as_ref()?.open_search.as_ref()?;
    let (name, prefix) = named(config).ok()?;
    Some(StoreStatus {
        name: name.to_string(),
        addresses: config.addresses.clone(),
        index_prefix: prefix.as_str().to_owned(),
        never_opened: false,
        secret_ref: config.secret_ref.clone(),
        ca_bundle: config.ca_bundle.clone(),
        client_cert_secret_ref: config.client_cert_secret_ref.clone(),
        aws: config.aws.clone(),
        proxy_url: config.proxy_url.clone(),
        insecure_skip_tls_verify: config.insecure_skip_tls_verify,
    })
}

/// The name and prefix of an OpenSearch store, or why they are not valid.
fn named(config: &OpenSearch) -> Result<(StoreName, IndexPrefix), String> {
    let prefix = prefix(config).map_err(|error| error.to_string())?;
    // The schema refuses such addresses, too; this check is for objects that are older than that
    // rule.
    if config.addresses.iter().any(|address| address.contains('@')) {
        return Err(CREDENTIALS_IN_ADDRESS.to_owned());
    }
    let name = store_name(&config.addresses, &prefix);
    let name =
        name.ok_or("backendStore.openSearch.addresses is empty: name at least one address")?;
    Ok((name, prefix))
}

/// What to do about an address that shows a password to everybody who may read the registry.
const CREDENTIALS_IN_ADDRESS: &str = "backendStore.openSearch.addresses holds a user or a password before '@': put them into a Secret with the keys \
                                      username and password, and name it in secretRef";

impl StorePlan {
    /// The projection that all registries together ask for.
    fn united_projection(&self) -> Result<Projection, InvalidRedaction> {
        let redact: Vec<String> = self.redact.iter().cloned().collect();
        let field_paths: Vec<FieldPath> = self.field_paths.iter().cloned().collect();
        let projection =
            Projection::new(&redact, &field_paths)?.and_interpretation(self.interpretation);
        Ok(if self.indexing == Indexing::Full {
            projection.and_every_path()
        } else {
            projection
        })
    }

    /// Unites what can be united. Returns what cannot.
    fn join(&mut self, younger: StorePlan) -> Option<String> {
        self.redact.extend(younger.redact);
        self.field_paths.extend(younger.field_paths);
        self.indexing = self.indexing.max(younger.indexing);
        self.interpretation = self.interpretation.max(younger.interpretation);
        // The redactions of each registry have been parsed before.
        if let Ok(projection) = self.united_projection() {
            self.projection = projection;
        }
        let conflict = self
            .config
            .as_ref()
            .zip(younger.config.as_ref())
            .and_then(|(own, other)| self.conflict(own, other));
        self.registries.extend(younger.registries);
        conflict
    }

    fn conflict(&self, own: &OpenSearch, other: &OpenSearch) -> Option<String> {
        let differing: Vec<&str> = [
            ("secretRef", own.secret_ref != other.secret_ref),
            ("caBundle", own.ca_bundle != other.ca_bundle),
            (
                "clientCertSecretRef",
                own.client_cert_secret_ref != other.client_cert_secret_ref,
            ),
            ("aws", own.aws != other.aws),
            ("proxyURL", own.proxy_url != other.proxy_url),
            (
                "insecureSkipTLSVerify",
                own.insecure_skip_tls_verify != other.insecure_skip_tls_verify,
            ),
            (
                "numberOfShards",
                own.number_of_shards != other.number_of_shards,
            ),
            (
                "numberOfReplicas",
                own.number_of_replicas != other.number_of_replicas,
            ),
            (
                "refreshInterval",
                own.refresh_interval != other.refresh_interval,
            ),
            ("packing", own.packing != other.packing),
        ]
        .into_iter()
        .filter_map(|(field, differs)| differs.then_some(field))
        .collect();
        let oldest = self.registries.first()?;
        (!differing.is_empty()).then(|| {
            format!(
                "ResourceRegistry {oldest} is older and shares this store, so its {} count{}: give both the same, or set another indexPrefix",
                differing.join(", "),
                if differing.len() == 1 { "s" } else { "" },
            )
        })
    }
}

/// What one registry specifies for its store, and why nothing of it can be stored, if so. Valid
/// redactions apply even then, for the registries that share the store.
fn request(
    name: &str,
    spec: &ResourceRegistrySpec,
    config: Option<&OpenSearch>,
    prefix: IndexPrefix,
) -> (StorePlan, Option<String>) {
    let mut invalid = unreadable_selector(spec);
    let mut redact = BTreeSet::new();
    for path in &spec.redact {
        match Projection::new(std::slice::from_ref(path), &[]) {
            Ok(_) => {
                redact.insert(path.clone());
            }
            Err(error) => invalid = Some(error.to_string()),
        }
    }
    let field_paths = config.map_or(&[][..], |config| &config.field_paths);
    let field_paths: BTreeSet<FieldPath> = field_paths
        .iter()
        .map(|path| FieldPath::new(path))
        .collect();
    let indexing = config
        .and_then(|config| config.indexing)
        .unwrap_or_default();
    let mut plan = StorePlan {
        config: config.cloned(),
        prefix,
        redact,
        field_paths,
        projection: Projection::default(),
        indexing,
        interpretation: interpretation_level(spec),
        registries: vec![name.to_owned()],
    };
    plan.projection = plan.united_projection().unwrap_or_default();
    (plan, invalid)
}

/// The namespaces that selectors name; none if a selector names none.
fn named_namespaces(selectors: &[ResourceSelector]) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for selector in selectors {
        if selector.namespace.is_empty() && selector.namespaces.is_empty() {
            return BTreeSet::new();
        }
        named.extend(selector.namespaces.iter().cloned());
        named.extend((!selector.namespace.is_empty()).then(|| selector.namespace.clone()));
    }
    named
}

/// Stops every registry of a store while one of them has a redaction that cannot be read. The
/// redactions of all registries hold for all objects of their store, so the others would store what
/// that one removes.
pub(super) fn stop_beside_unreadable_redactions(joined: &mut [(&RegistryView, RegistryPlan)]) {
    let mut unreadable: BTreeMap<StoreName, &str> = BTreeMap::new();
    for (registry, plan) in joined.iter() {
        if let Some(store) = &plan.store
            && Projection::new(&registry.spec.redact, &[]).is_err()
        {
            unreadable.entry(store.clone()).or_insert(&registry.name);
        }
    }
    for (_, plan) in joined.iter_mut().filter(|(_, plan)| plan.invalid.is_none()) {
        let culprit = plan.store.as_ref().and_then(|store| unreadable.get(store));
        plan.invalid = culprit.map(|name| {
            format!("ResourceRegistry {name} shares this store and has a redaction that cannot be read, which would hold here, too: correct it")
        });
    }
}

fn prefix(config: &OpenSearch) -> Result<IndexPrefix, InvalidPrefix> {
    config
        .index_prefix
        .as_deref()
        .map_or_else(|| Ok(IndexPrefix::default()), str::parse)
}

/// Which rules say what the objects of a registry mean.
fn interpretation_level(spec: &ResourceRegistrySpec) -> InterpretationLevel {
    match spec.interpret.unwrap_or_default() {
        InterpretMode::Off => InterpretationLevel::Off,
        InterpretMode::BuiltIn => InterpretationLevel::BuiltIn,
        InterpretMode::All => InterpretationLevel::All,
    }
}

/// The first label or field selector that cannot be parsed. An `exclude` that cannot be parsed must
/// not let its objects through.
fn unreadable_selector(spec: &ResourceRegistrySpec) -> Option<String> {
    let any = Resource {
        gvk: Gvk::new("", "", ""),
        plural: "".into(),
        namespaced: true,
    };
    let nothing_else = ResourceRegistrySpec::default();
    let mut selectors = spec.resource_selectors.iter().chain(&spec.exclude);
    selectors
        .find_map(|selector| ObjectFilter::new(selector, &nothing_else, &any).err())
        .map(|error| error.to_string())
}

/// The name of the store at these addresses under this prefix, or `None` without an address.
/// Registries with the same set of addresses and the same prefix share a store.
///
/// Users of the query API see the name and may ask for it, so it has a hash in place of the
/// addresses: `<prefix>-<16 hexadecimal digits>`.
pub fn store_name(addresses: &[String], prefix: &IndexPrefix) -> Option<StoreName> {
    let nodes: BTreeSet<String> = addresses.iter().map(|address| node(address)).collect();
    if nodes.is_empty() {
        return None;
    }
    let nodes: Vec<String> = nodes.into_iter().collect();
    let hash = hex(&Sha256::digest(nodes.join(",").as_bytes())[..8]);
    format!("{}-{hash}", prefix.as_str()).parse().ok()
}

/// An address in its canonical spelling.
fn node(address: &str) -> String {
    let trimmed = address.trim_end_matches('/');
    let Some((scheme, rest)) = trimmed.split_once("://") else {
        return trimmed.to_owned();
    };
    let (authority, path) = rest
        .find('/')
        .map_or((rest, ""), |slash| rest.split_at(slash));
    format!(
        "{}://{}{path}",
        scheme.to_ascii_lowercase(),
        authority.to_ascii_lowercase()
    )
}
