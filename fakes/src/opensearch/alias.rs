//! Aliases: valid names and configurations.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    query::Query,
    response::{Exception, invalid_name},
};

/// Parses the aliases of a new index or of a template.
pub(super) fn read_configurations(
    aliases: Option<&Value>,
) -> Result<BTreeMap<String, Value>, Exception> {
    let Some(Value::Object(members)) = aliases else {
        return Ok(BTreeMap::new());
    };
    let mut read = BTreeMap::new();
    for (alias, details) in members {
        check_name(alias)?;
        let details = details.as_object().cloned().unwrap_or_default();
        read.insert(alias.clone(), read_configuration(&details)?);
    }
    Ok(read)
}

/// Parses the configuration of an alias.
pub(super) fn read_configuration(details: &Map<String, Value>) -> Result<Value, Exception> {
    let mut configuration = Map::new();
    for (key, value) in details {
        match key.as_str() {
            "index" | "indices" | "alias" | "aliases" => {}
            "is_write_index" | "index_routing" | "search_routing" => {
                configuration.insert(key.clone(), value.clone());
            }
            "routing" => {
                for routing in ["index_routing", "search_routing"] {
                    configuration.insert(routing.to_owned(), value.clone());
                }
            }
            "filter" => {
                Query::read(value)?;
                configuration.insert(key.clone(), value.clone());
            }
            other => {
                let reason = format!("this fake does not support aliases with [{other}]");
                return Err(Exception::new(400, "x_content_parse_exception", reason));
            }
        }
    }
    Ok(configuration.into())
}

/// Rejects an invalid alias name.
pub(super) fn check_name(alias: &str) -> Result<(), Exception> {
    let is_forbidden = |letter: char| " \"*\\<|,>/?".contains(letter);
    if alias.contains(is_forbidden) {
        let reason = format!(
            "Invalid alias name [{alias}]: must not contain the following characters [ , \", *, \\, <, |, ,, >, /, ?]"
        );
        return Err(Exception::new(400, "invalid_alias_name_exception", reason));
    }
    if alias.is_empty() || alias.starts_with('_') {
        return Err(invalid_name(alias, "must not start with '_', '-', or '+'"));
    }
    Ok(())
}
