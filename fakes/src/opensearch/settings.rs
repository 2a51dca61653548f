//! Settings of an index.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value};

use super::response::Exception;

/// Supported settings without `index.`; a trailing dot includes all settings below it.
const KNOWN: [&str; 18] = [
    "number_of_shards",
    "number_of_replicas",
    "refresh_interval",
    "gc_deletes",
    "blocks.write",
    "blocks.read_only",
    "blocks.read_only_allow_delete",
    "max_result_window",
    "max_terms_count",
    "auto_expand_replicas",
    "default_pipeline",
    "final_pipeline",
    "hidden",
    "codec",
    "mapping.",
    "translog.",
    "merge.",
    "search.",
];
/// Settings that can only be set at index creation.
const FINAL: [&str; 2] = ["number_of_shards", "codec"];

/// Changes of settings; `None` resets to the default.
pub(super) type Changes = BTreeMap<String, Option<String>>;

/// Settings by their name without `index.`.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings(BTreeMap<String, String>);

impl Settings {
    /// Applies changes.
    pub fn apply(&mut self, changes: &Changes) {
        for (name, value) in changes {
            match value {
                Some(value) => self.0.insert(name.clone(), value.clone()),
                None => self.0.remove(name),
            };
        }
    }

    /// Sets a setting.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Sets a setting that has no value.
    pub fn set_default(&mut self, name: &str, value: &str) {
        self.0
            .entry(name.to_owned())
            .or_insert_with(|| value.to_owned());
    }

    /// Returns a number.
    pub fn number(&self, name: &str, default: u64) -> u64 {
        self.0
            .get(name)
            .and_then(|value| value.parse().ok())
            .unwrap_or(default)
    }

    /// Whether a setting is `true`.
    pub fn is_set(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| value == "true")
    }

    /// Returns a duration; `None` for `-1`, never.
    pub fn duration(&self, name: &str, default: Duration) -> Option<Duration> {
        match self.0.get(name).map(String::as_str) {
            None => Some(default),
            Some("-1") => None,
            Some(text) => Some(parse_duration(text).unwrap_or(default)),
        }
    }

    /// Returns the settings as responses contain them.
    pub fn nested(&self) -> Value {
        let mut index = Map::new();
        for (name, value) in &self.0 {
            insert(&mut index, name, value);
        }
        serde_json::json!({ "index": index })
    }
}

fn insert(into: &mut Map<String, Value>, name: &str, value: &str) {
    match name.split_once('.') {
        None => {
            into.insert(name.to_owned(), value.into());
        }
        Some((parent, rest)) => {
            let child = into
                .entry(parent)
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(members) = child {
                insert(members, rest, value);
            }
        }
    }
}

/// Parses the settings of a request: nested or dotted, with or without `index.`.
pub(super) fn read(settings: &Value) -> Result<Changes, Exception> {
    let mut changes = Changes::new();
    flatten("", settings, &mut changes);
    let named: Changes = changes
        .into_iter()
        .map(|(name, value)| {
            (
                name.strip_prefix("index.").unwrap_or(&name).to_owned(),
                value,
            )
        })
        .collect();
    for (name, value) in &named {
        check(name, value.as_deref())?;
    }
    Ok(named)
}

/// Rejects changes that an open index does not accept.
pub(super) fn check_dynamic(changes: &Changes, index: &str, uuid: &str) -> Result<(), Exception> {
    let Some(name) = changes.keys().find(|name| FINAL.contains(&name.as_str())) else {
        return Ok(());
    };
    Err(Exception::illegal_argument(format!(
        "Can't update non dynamic settings [[index.{name}]] for open indices [[{index}/{uuid}]]"
    )))
}

fn flatten(name: &str, value: &Value, into: &mut Changes) {
    let text = match value {
        Value::Object(members) => {
            for (key, member) in members {
                let path = if name.is_empty() {
                    key.clone()
                } else {
                    format!("{name}.{key}")
                };
                flatten(&path, member, into);
            }
            return;
        }
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    into.insert(name.to_owned(), text);
}

fn check(name: &str, value: Option<&str>) -> Result<(), Exception> {
    let is_known = |known: &str| known == name || known.ends_with('.') && name.starts_with(known);
    if !KNOWN.iter().any(|known| is_known(known)) {
        return Err(Exception::new(
            400,
            "settings_exception",
            format!(
                "unknown setting [index.{name}] please check that any required plugins are installed, or check the breaking \
                 changes documentation for removed settings"
            ),
        ));
    }
    let is_time = matches!(name, "refresh_interval" | "gc_deletes");
    match value {
        Some(text) if is_time && text != "-1" => parse_duration(text).map(drop),
        _ => Ok(()),
    }
}

/// Parses a duration such as `5m` or `100ms`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, Exception> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let exception = || {
        // OpenSearch takes the last letter for the unit.
        let digits = text.get(..text.len().saturating_sub(1)).unwrap_or_default();
        let cause = Exception::new(
            400,
            "number_format_exception",
            format!("For input string: \"{digits}\""),
        );
        Exception::illegal_argument(format!("failed to parse [{text}]")).caused_by(&cause)
    };
    let number: u64 = number.parse().map_err(|_| exception())?;
    match unit {
        "micros" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_mins(number)),
        "h" => Ok(Duration::from_hours(number)),
        "d" => Ok(Duration::from_hours(number * 24)),
        "" if number == 0 => Ok(Duration::ZERO),
        _ => Err(exception()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_and_dotted_settings_are_returned_nested() {
        let mut settings = Settings::default();
        settings.apply(
            &read(&json!({ "index": { "gc_deletes": "15m" }, "number_of_shards": 2 })).unwrap(),
        );
        settings.apply(&read(&json!({ "index.blocks.write": true })).unwrap());
        assert_eq!(
            settings.duration("gc_deletes", Duration::ZERO),
            Some(Duration::from_mins(15))
        );
        assert!(settings.is_set("blocks.write"));
        let expected = json!({ "index": { "gc_deletes": "15m", "number_of_shards": "2", "blocks": { "write": "true" } } });
        assert_eq!(settings.nested(), expected);
        settings.apply(&read(&json!({ "index.blocks.write": null })).unwrap());
        assert!(!settings.is_set("blocks.write"));
    }

    #[test]
    fn unknown_settings_and_durations_without_unit_are_rejected() {
        assert!(read(&json!({ "bogus": 1 })).is_err());
        assert!(read(&json!({ "refresh_interval": "5" })).is_err());
        assert!(read(&json!({ "refresh_interval": "-1" })).is_ok());
    }
}
