//! What a webhook answers.

use std::collections::BTreeSet;

use fleetdex_core::model::Resource;
use serde_json::{Value, json};

use crate::{value, webhook::dialect::Dialect};

/// Operations on resources. It matches if each part does; `*` stands for everything, also beside
/// other names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookRule {
    operations: AllowedNames,
    groups: AllowedNames,
    versions: AllowedNames,
    subjects: Subjects,
}

/// Some names, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AllowedNames {
    All,
    These(BTreeSet<String>),
}

/// What a rule applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subjects {
    Kinds(AllowedNames),
    /// Plural names, and the scope if only one is meant.
    Resources {
        plurals: AllowedNames,
        namespaced: Option<bool>,
    },
}

impl WebhookRule {
    /// The rule that a value is. Without a part it matches nothing.
    pub(super) fn parse(dialect: Dialect, rule: &Value) -> Self {
        let names = |member| AllowedNames::new(texts(rule, member));
        Self {
            operations: names("operations"),
            groups: names("apiGroups"),
            versions: names("apiVersions"),
            subjects: match dialect {
                Dialect::Released => Subjects::Kinds(names("kinds")),
                Dialect::Proposal => Subjects::Resources {
                    plurals: AllowedNames::new(texts(rule, "resources").filter_map(whole_resource)),
                    namespaced: match value::text(rule, &["scope"]) {
                        "Namespaced" => Some(true),
                        "Cluster" => Some(false),
                        _ => None,
                    },
                },
            },
        }
    }

    /// Whether it matches an operation, by its name in the dialect, on objects of a resource.
    pub(super) fn matches(&self, operation: &str, resource: &Resource) -> bool {
        self.operations.allow(operation)
            && self.groups.allow(&resource.gvk.group)
            && self.versions.allow(&resource.gvk.version)
            && match &self.subjects {
                Subjects::Kinds(kinds) => kinds.allow(&resource.gvk.kind),
                Subjects::Resources {
                    plurals,
                    namespaced,
                } => {
                    plurals.allow(&resource.plural)
                        && namespaced.is_none_or(|wanted| wanted == resource.namespaced)
                }
            }
    }

    /// All that identifies it, in a form that no change of the code changes.
    pub(super) fn identity(&self) -> Value {
        let Self {
            operations,
            groups,
            versions,
            subjects,
        } = self;
        let subjects = match subjects {
            Subjects::Kinds(kinds) => json!(["kinds", kinds.identity()]),
            Subjects::Resources {
                plurals,
                namespaced,
            } => json!(["resources", plurals.identity(), namespaced]),
        };
        json!([
            operations.identity(),
            groups.identity(),
            versions.identity(),
            subjects
        ])
    }
}

impl AllowedNames {
    fn identity(&self) -> Value {
        match self {
            Self::All => json!("*"),
            Self::These(names) => json!(names),
        }
    }

    fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let names: BTreeSet<String> = names.map(str::to_owned).collect();
        if names.contains("*") {
            Self::All
        } else {
            Self::These(names)
        }
    }

    fn allow(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.contains(name),
        }
    }
}

fn texts<'v>(rule: &'v Value, member: &str) -> impl Iterator<Item = &'v str> {
    value::list(rule, &[member])
        .iter()
        .filter_map(Value::as_str)
}

/// The resource of an entry that applies to whole objects. `pods/*` does, as in the matcher of
/// admission webhooks; `pods/log` does not.
fn whole_resource(entry: &str) -> Option<&str> {
    match entry.split_once('/') {
        None => Some(entry),
        Some((resource, "" | "*")) => Some(resource),
        Some(_) => None,
    }
}
