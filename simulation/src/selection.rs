//! The selectors of a registry, and which objects they select. The matching is independent of the
//! operator's.

use fleetdex_crds::registry::ResourceRegistrySpec;
use fleetdex_operator::RegistryView;
use rand::{RngExt, rngs::StdRng};
use serde_json::{Value, json};

/// The namespaces of the objects.
pub const NAMESPACES: [&str; 3] = ["red", "green", "blue"];
/// A namespace whose objects are never modified.
pub const STEADY: &str = "steady";

/// An indexed kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// `apiVersion`
    pub api_version: &'static str,
    /// `kind`
    pub kind: &'static str,
    /// The resource name that the fake API server uses.
    pub resource: &'static str,
}

/// The kinds of the objects: of the core and another group, a Secret and a custom resource.
pub const KINDS: [Kind; 5] = [
    Kind {
        api_version: "v1",
        kind: "ConfigMap",
        resource: "configmaps",
    },
    Kind {
        api_version: "v1",
        kind: "Pod",
        resource: "pods",
    },
    Kind {
        api_version: "v1",
        kind: "Secret",
        resource: "secrets",
    },
    Kind {
        api_version: "apps/v1",
        kind: "Deployment",
        resource: "deployments.apps",
    },
    Kind {
        api_version: "example.com/v1",
        kind: "Widget",
        resource: "widgets.example.com",
    },
];

/// The selector of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KindSelector {
    kind: Kind,
    /// Empty: all namespaces.
    namespaces: Vec<&'static str>,
    /// Only objects whose label `tier` has this value.
    tier: Option<&'static str>,
}

/// The selectors of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    kind_selectors: Vec<KindSelector>,
    /// Whether `spec.hidden` is redacted.
    pub redacts: bool,
}

impl Selection {
    /// Selects `ConfigMap`s of all namespaces, and random other kinds.
    pub fn random(random: &mut StdRng) -> Self {
        let mut kind_selectors = vec![KindSelector {
            kind: KINDS[0],
            namespaces: Vec::new(),
            tier: None,
        }];
        for kind in &KINDS[1..] {
            if random.random_ratio(2, 3) {
                kind_selectors.push(KindSelector::random(*kind, random));
            }
        }
        Self {
            kind_selectors,
            redacts: random.random_ratio(1, 4),
        }
    }

    /// Returns a registry with these selectors.
    pub fn registry(&self, prefix: &str) -> Result<RegistryView, serde_json::Error> {
        let selectors: Vec<Value> = self
            .kind_selectors
            .iter()
            .map(KindSelector::selector)
            .collect();
        let redact = if self.redacts {
            json!(["spec.hidden"])
        } else {
            json!([])
        };
        let spec: ResourceRegistrySpec = serde_json::from_value(json!({
            "resourceSelectors": selectors,
            "redact": redact,
            "backendStore": { "openSearch": { "addresses": ["http://opensearch.example.com:9200"], "indexPrefix": prefix } },
        }))?;
        Ok(RegistryView {
            name: "everything".to_owned(),
            uid: "everything".to_owned(),
            created: None,
            spec,
        })
    }

    /// Whether an object of a kind should have a document.
    pub fn selects(&self, kind: Kind, object: &Value) -> bool {
        let metadata = &object["metadata"];
        self.kind_selectors
            .iter()
            .filter(|selector| selector.kind == kind)
            .any(|selector| {
                let namespace = metadata["namespace"].as_str().unwrap_or_default();
                let in_namespace =
                    selector.namespaces.is_empty() || selector.namespaces.contains(&namespace);
                in_namespace
                    && selector
                        .tier
                        .is_none_or(|tier| metadata["labels"]["tier"] == tier)
            })
    }
}

impl KindSelector {
    fn random(kind: Kind, random: &mut StdRng) -> Self {
        let namespaces = match random.random_range(0..3) {
            0 => NAMESPACES[..random.random_range(1..NAMESPACES.len())].to_vec(),
            _ => Vec::new(),
        };
        let tier = random.random_ratio(1, 4).then_some("web");
        Self {
            kind,
            namespaces,
            tier,
        }
    }

    fn selector(&self) -> Value {
        let mut selector = json!({ "apiVersion": self.kind.api_version, "kind": self.kind.kind, "namespaces": self.namespaces });
        if let Some(tier) = self.tier {
            selector["labelSelector"] = json!({ "matchLabels": { "tier": tier } });
        }
        selector
    }
}
