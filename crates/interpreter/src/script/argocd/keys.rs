//! The keys under which a `ConfigMap` has scripts.

use std::{cmp::Reverse, collections::BTreeMap};

use globset::{GlobBuilder, GlobMatcher};
use serde_json::{Map, Value};

const PREFIX: &str = "resource.customizations";
const WILDCARDS: &[char] = &['*', '?', '[', ']', '{', '}'];
/// The customizations that Argo CD has beside `health` and `useOpenLibs`.
const OTHER_TYPES: [&str; 4] = [
    "actions",
    "ignoreDifferences",
    "ignoreResourceUpdates",
    "knownTypeFields",
];
/// What Go's `strconv.ParseBool` takes.
const BOOLEANS: [&str; 12] = [
    "1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False",
];

/// Why a `ConfigMap` has no health scripts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgoHealthError {
    /// It is another kind of object.
    #[error("the object is no ConfigMap")]
    NoConfigMap,
    /// The map of customizations is no YAML, or no map of maps.
    #[error("resource.customizations: {0}")]
    Yaml(String),
    /// The key names neither a known type nor `<group>_<Kind>` or `<Kind>`.
    #[error("{key}: {reason}")]
    Key {
        /// The key of the `ConfigMap`.
        key: String,
        /// What is wrong.
        reason: &'static str,
    },
}

/// The scripts by `<group>/<Kind>`, with wildcards. A key of its own overrides the entry of the
/// map.
pub fn scripts(data: &Map<String, Value>) -> Result<BTreeMap<String, String>, ArgoHealthError> {
    let mut scripts = match data.get(PREFIX).and_then(Value::as_str) {
        Some(yaml) => scripts_of_map(yaml)?,
        None => BTreeMap::new(),
    };
    for (key, text) in data {
        if let (Some(group_kind), Some(text)) = (health_key(key, text)?, text.as_str()) {
            scripts.insert(group_kind, text.to_owned());
        }
    }
    scripts.retain(|_, text| !text.is_empty());
    Ok(scripts)
}

/// Form 1: one YAML map for all kinds.
fn scripts_of_map(yaml: &str) -> Result<BTreeMap<String, String>, ArgoHealthError> {
    if yaml.trim().is_empty() {
        return Ok(BTreeMap::new());
    }
    let map: Option<BTreeMap<String, Value>> =
        serde_saphyr::from_str(yaml).map_err(|error| ArgoHealthError::Yaml(first_line(&error)))?;
    let entries = map.unwrap_or_default().into_iter();
    Ok(entries
        .filter_map(|(key, customization)| {
            let text = customization.get("health.lua")?.as_str()?.to_owned();
            Some((key, text))
        })
        .collect())
}

fn first_line(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(256)
        .collect()
}

/// Form 2: a key for each kind, `resource.customizations.health.<group>_<Kind>`. `None` for keys
/// without a script.
fn health_key(key: &str, value: &Value) -> Result<Option<String>, ArgoHealthError> {
    let Some(("", rest)) = key.split_once(PREFIX) else {
        return Ok(None);
    };
    let Some((kind_of_customization, group_kind)) =
        rest.strip_prefix('.').and_then(|rest| rest.split_once('.'))
    else {
        return Ok(None);
    };
    let refuse = |reason| {
        Err(ArgoHealthError::Key {
            key: key.chars().take(256).collect(),
            reason,
        })
    };
    let Some(group_kind) = group_and_kind(group_kind) else {
        return refuse("must end with <group>_<Kind> or <Kind>");
    };
    match kind_of_customization {
        "health" => Ok(Some(group_kind)),
        "useOpenLibs" if !is_go_boolean(value) => refuse("must be true or false"),
        "useOpenLibs" => Ok(None),
        other if OTHER_TYPES.contains(&other) => Ok(None),
        _ => refuse("is no known type of customization"),
    }
}

fn is_go_boolean(value: &Value) -> bool {
    value.as_str().is_some_and(|text| BOOLEANS.contains(&text))
}

fn group_and_kind(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('_').collect();
    match parts.as_slice() {
        ["all"] => Some("*/*".to_owned()),
        [""] => None,
        [kind] => Some((*kind).to_owned()),
        [group, kind] => Some(format!("{group}/{kind}")),
        _ => None,
    }
}

/// A key with wildcards.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    matcher: GlobMatcher,
}

impl Pattern {
    /// A pattern over the whole key, in which `*` spans everything; `None` if the key has no
    /// wildcard or is no pattern.
    pub fn parse(text: &str) -> Option<Self> {
        if !text.contains(WILDCARDS) {
            return None;
        }
        let glob = GlobBuilder::new(text)
            .literal_separator(false)
            .backslash_escape(true)
            .empty_alternates(true)
            .build()
            .ok()?;
        Some(Self {
            text: text.to_owned(),
            matcher: glob.compile_matcher(),
        })
    }

    /// Whether a key matches.
    pub fn matches(&self, key: &str) -> bool {
        self.matcher.is_match(key)
    }

    /// The order among patterns that match the same key: the longest literal part, then the
    /// alphabet.
    pub fn rank(&self) -> (Reverse<usize>, &str) {
        let literal = self.text.chars().filter(|c| !WILDCARDS.contains(c)).count();
        (Reverse(literal), &self.text)
    }
}
