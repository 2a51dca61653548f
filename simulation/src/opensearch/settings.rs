//! Settings of an index.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value};

use super::answer::Refusal;

/// Settings that are known, without `index.`; those that end in a dot stand for all below them.
const KNOWN: [&str; 16] = [
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
    "hidden",
    "codec",
    "mapping.",
    "translog.",
    "merge.",
    "search.",
];
/// Settings that only the creation of an index can set.
const FINAL: [&str; 2] = ["number_of_shards", "codec"];

/// What to set; nothing resets to the default.
pub(super) type Changes = BTreeMap<String, Option<String>>;

/// Settings by their name without `index.`.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings(BTreeMap<String, String>);

impl Settings {
    /// Sets and resets.
    pub fn apply(&mut self, changes: &Changes) {
        for (name, value) in changes {
            match value {
                Some(value) => self.0.insert(name.clone(), value.clone()),
                None => self.0.remove(name),
            };
        }
    }

    /// Sets one.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Sets one that is not set.
    pub fn set_default(&mut self, name: &str, value: &str) {
        self.0
            .entry(name.to_owned())
            .or_insert_with(|| value.to_owned());
    }

    /// A number.
    pub fn number(&self, name: &str, default: u64) -> u64 {
        self.0
            .get(name)
            .and_then(|value| value.parse().ok())
            .unwrap_or(default)
    }

    /// Whether it is `true`.
    pub fn is_set(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| value == "true")
    }

    /// A time; nothing stands for `-1`, never.
    pub fn duration(&self, name: &str, default: Duration) -> Option<Duration> {
        match self.0.get(name).map(String::as_str) {
            None => Some(default),
            Some("-1") => None,
            Some(text) => Some(parse_duration(text).unwrap_or(default)),
        }
    }

    /// The settings as answers show them.
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

/// Reads the settings of a request, nested or with dots, with or without `index.`.
pub(super) fn read(settings: &Value) -> Result<Changes, Refusal> {
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

/// Whether an open index can be given these.
pub(super) fn check_dynamic(changes: &Changes, index: &str, uuid: &str) -> Result<(), Refusal> {
    let Some(name) = changes.keys().find(|name| FINAL.contains(&name.as_str())) else {
        return Ok(());
    };
    Err(Refusal::illegal_argument(format!(
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

fn check(name: &str, value: Option<&str>) -> Result<(), Refusal> {
    let is_known = |known: &str| known == name || known.ends_with('.') && name.starts_with(known);
    if !KNOWN.iter().any(|known| is_known(known)) {
        return Err(Refusal::new(
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

/// A time such as `5m` or `100ms`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, Refusal> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let refusal = || {
        // The last letter is taken for the unit.
        let digits = text.get(..text.len().saturating_sub(1)).unwrap_or_default();
        let cause = Refusal::new(
            400,
            "number_format_exception",
            format!("For input string: \"{digits}\""),
        );
        Refusal::illegal_argument(format!("failed to parse [{text}]")).caused_by(&cause)
    };
    let number: u64 = number.parse().map_err(|_| refusal())?;
    match unit {
        "micros" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_mins(number)),
        "h" => Ok(Duration::from_hours(number)),
        "d" => Ok(Duration::from_hours(number * 24)),
        "" if number == 0 => Ok(Duration::ZERO),
        _ => Err(refusal()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_read_nested_and_with_dots_and_shown_nested() {
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
    fn unknown_settings_and_times_without_unit_are_refused() {
        assert!(read(&json!({ "bogus": 1 })).is_err());
        assert!(read(&json!({ "refresh_interval": "5" })).is_err());
        assert!(read(&json!({ "refresh_interval": "-1" })).is_ok());
    }
}
