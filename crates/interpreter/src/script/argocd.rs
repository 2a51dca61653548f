//! Argo CD's health scripts: from the `ConfigMap` `argocd-cm`, and by kind.
//!
//! Sources: `util/settings/settings.go`, `util/lua/lua.go` and `util/glob/glob.go` of Argo CD,
//! <https://argo-cd.readthedocs.io/en/stable/operator-manual/health/>.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value};

mod health_script;
mod keys;

pub use health_script::HealthScript;
pub use keys::ArgoHealthError;

use super::error::ScriptError;
use crate::value;
use keys::Pattern;

const CONFIG_MAP: &str = "ConfigMap";

/// The health scripts of an Argo CD.
#[derive(Clone, Debug, Default)]
pub struct ArgoHealth {
    /// By `<group>/<Kind>`, or `<Kind>` in the core group.
    exact: BTreeMap<String, Arc<HealthScript>>,
    /// The best one first.
    wildcards: Vec<(Pattern, Arc<HealthScript>)>,
    problems: Vec<(String, ScriptError)>,
}

impl ArgoHealth {
    /// The scripts of a `ConfigMap`. A script that does not compile judges its objects Unknown, as
    /// in Argo CD, and is listed in [`Self::problems`]; a key that Argo CD refuses is an error,
    /// because Argo CD then loads none of them.
    pub fn from_config_map(config_map: &Value) -> Result<Self, ArgoHealthError> {
        if value::text(config_map, &["kind"]) != CONFIG_MAP {
            return Err(ArgoHealthError::NoConfigMap);
        }
        match config_map.get("data").and_then(Value::as_object) {
            Some(data) => Self::from_data(data),
            None => Ok(Self::default()),
        }
    }

    /// The scripts of a `ConfigMap`'s data.
    pub fn from_data(data: &Map<String, Value>) -> Result<Self, ArgoHealthError> {
        let mut health = Self::default();
        for (key, text) in keys::scripts(data)? {
            health.add(key, &text);
        }
        health
            .wildcards
            .sort_by(|(one, _), (other, _)| one.rank().cmp(&other.rank()));
        Ok(health)
    }

    /// The script for a kind, whatever its version: the one under its name; else the one of the
    /// wildcard with the longest literal part, the first in the alphabet among several. (Argo CD
    /// takes any of them.)
    pub fn script_for(&self, group: &str, kind: &str) -> Option<&Arc<HealthScript>> {
        let key = match group {
            "" => kind.to_owned(),
            group => format!("{group}/{kind}"),
        };
        self.exact.get(&key).or_else(|| {
            let mut wildcards = self.wildcards.iter();
            wildcards
                .find(|(pattern, _)| pattern.matches(&key))
                .map(|(_, script)| script)
        })
    }

    /// The scripts that do not compile, and why.
    pub fn problems(&self) -> &[(String, ScriptError)] {
        &self.problems
    }

    /// Whether there are no scripts.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty()
    }

    fn add(&mut self, key: String, text: &str) {
        let script = HealthScript::compile(text).unwrap_or_else(|error| {
            self.problems.push((key.clone(), error.clone()));
            HealthScript::broken(text, error)
        });
        let script = Arc::new(script);
        if let Some(pattern) = Pattern::parse(&key) {
            self.wildcards.push((pattern, Arc::clone(&script)));
        }
        self.exact.insert(key, script);
    }
}

#[cfg(test)]
mod tests;
