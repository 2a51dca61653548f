//! What a registry asks for, and, by other means than the operator's, which objects that are.

use fleetdex_api::registry::ResourceRegistrySpec;
use fleetdex_operator::RegistryView;
use rand::{RngExt, rngs::StdRng};
use serde_json::{Value, json};

/// The namespaces of the objects.
pub const NAMESPACES: [&str; 3] = ["red", "green", "blue"];
/// A namespace whose objects nobody touches.
pub const STEADY: &str = "steady";

/// A kind that is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// `apiVersion`
    pub api_version: &'static str,
    /// `kind`
    pub kind: &'static str,
    /// As the apiserver names it.
    pub resource: &'static str,
}

/// The kinds of the objects: core and other groups, a Secret, a custom resource.
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

/// What is asked for of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    kind: Kind,
    /// Empty: all.
    namespaces: Vec<&'static str>,
    /// Only objects whose label `tier` has this value.
    tier: Option<&'static str>,
}

/// What a registry asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    parts: Vec<Part>,
    /// Whether `spec.hidden` is not stored.
    pub redacts: bool,
}

impl Selection {
    /// Config maps of all namespaces, and some other kinds.
    pub fn random(random: &mut StdRng) -> Self {
        let mut parts = vec![Part {
            kind: KINDS[0],
            namespaces: Vec::new(),
            tier: None,
        }];
        for kind in &KINDS[1..] {
            if random.random_ratio(2, 3) {
                parts.push(Part::random(*kind, random));
            }
        }
        Self {
            parts,
            redacts: random.random_ratio(1, 4),
        }
    }

    /// As a registry.
    pub fn registry(&self, prefix: &str) -> Result<RegistryView, serde_json::Error> {
        let selectors: Vec<Value> = self.parts.iter().map(Part::selector).collect();
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
    pub fn wants(&self, kind: Kind, object: &Value) -> bool {
        let metadata = &object["metadata"];
        self.parts
            .iter()
            .filter(|part| part.kind == kind)
            .any(|part| {
                let namespace = metadata["namespace"].as_str().unwrap_or_default();
                let in_namespace =
                    part.namespaces.is_empty() || part.namespaces.contains(&namespace);
                in_namespace
                    && part
                        .tier
                        .is_none_or(|tier| metadata["labels"]["tier"] == tier)
            })
    }
}

impl Part {
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
