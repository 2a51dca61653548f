//! Alias requests, each of which is atomic.

use serde_json::{Map, Value, json};

use super::{
    alias::{check_name, read_configuration},
    blocks,
    call::Call,
    cluster::{Cluster, Leniency, RequestContext, named},
    faults::FaultKind,
    glob,
    index::Index,
    response::{ApiResponse, Exception},
};

/// A change of one index.
#[derive(Debug)]
enum Change {
    Add {
        index: String,
        alias: String,
        configuration: Value,
    },
    Remove {
        index: String,
        alias: String,
        must_exist: bool,
    },
    RemoveIndex {
        index: String,
    },
}

/// `POST /_aliases`: atomic.
pub(super) fn update(
    cluster: &mut Cluster,
    context: &mut RequestContext<'_>,
    call: &Call,
) -> Result<ApiResponse, Exception> {
    call.allow(&["timeout", "cluster_manager_timeout"])?;
    let body = call.members()?;
    let actions = body
        .get("actions")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    if actions.is_empty() {
        return Err(Exception::illegal_argument("No action specified"));
    }
    let mut changes = Vec::new();
    let mut aliases = Vec::new();
    for action in actions {
        read_action(cluster, action, &mut changes, &mut aliases)?;
    }
    if changes.is_empty() {
        return Err(missing(&aliases));
    }
    check(cluster, context, &changes)?;
    apply(cluster, changes);
    context.counters.alias_changes += 1;
    Ok(ApiResponse::acknowledged())
}

fn read_action(
    cluster: &Cluster,
    action: &Value,
    changes: &mut Vec<Change>,
    aliases: &mut Vec<String>,
) -> Result<(), Exception> {
    let Some((kind, Value::Object(details))) =
        action.as_object().and_then(|members| members.iter().next())
    else {
        return Err(unparsable());
    };
    if !["add", "remove", "remove_index"].contains(&kind.as_str()) {
        let cause = Exception::new(
            400,
            "x_content_parse_exception",
            format!("[alias_action] unknown field [{kind}]"),
        );
        return Err(unparsable()
            .caused_by(&cause)
            .with_root_causes(vec![cause.error()]));
    }
    let expressions = names(details, "index", "indices");
    let aliases_named = names(details, "alias", "aliases");
    if expressions.is_empty() {
        return Err(missing_member("One of [index] or [indices] is required"));
    }
    if kind != "remove_index" && aliases_named.is_empty() {
        return Err(missing_member("One of [alias] or [aliases] is required"));
    }
    aliases.extend(aliases_named.iter().cloned());
    match kind.as_str() {
        "add" => {
            let configuration = read_configuration(details)?;
            for alias in &aliases_named {
                check_name(alias)?;
            }
            for index in cluster.resolve(&expressions.join(","), Leniency::STRICT)? {
                let change = |alias: &String| Change::Add {
                    index: index.clone(),
                    alias: alias.clone(),
                    configuration: configuration.clone(),
                };
                changes.extend(aliases_named.iter().map(change));
            }
        }
        "remove" => {
            let must_exist = details.get("must_exist").and_then(Value::as_bool);
            for index in cluster.resolve(&expressions.join(","), Leniency::STRICT)? {
                removals(cluster, &index, &aliases_named, must_exist, changes);
            }
        }
        _ => {
            let expression = expressions.join(",");
            let indices = cluster.resolve_concrete(&expression)?;
            if indices.is_empty() {
                return Err(Exception::no_such_index(&expression));
            }
            changes.extend(
                indices
                    .into_iter()
                    .map(|index| Change::RemoveIndex { index }),
            );
        }
    }
    Ok(())
}

/// Adds the removals of aliases from an index. A missing alias is ignored unless the action has
/// `must_exist`.
fn removals(
    cluster: &Cluster,
    index: &str,
    aliases: &[String],
    must_exist: Option<bool>,
    changes: &mut Vec<Change>,
) {
    let removal = |alias: &String| Change::Remove {
        index: index.to_owned(),
        alias: alias.clone(),
        must_exist: must_exist == Some(true),
    };
    if must_exist.is_some() {
        changes.extend(aliases.iter().map(removal));
        return;
    }
    let Some(found) = cluster.indices.get(index) else {
        return;
    };
    let is_named = |alias: &&String| aliases.iter().any(|pattern| glob::matches(pattern, alias));
    changes.extend(found.aliases.keys().filter(is_named).map(removal));
}

fn check(
    cluster: &Cluster,
    context: &mut RequestContext<'_>,
    changes: &[Change],
) -> Result<(), Exception> {
    let removed = |name: &str| {
        changes
            .iter()
            .any(|change| matches!(change, Change::RemoveIndex { index } if index == name))
    };
    for change in changes {
        let (Change::Add { index, .. }
        | Change::Remove { index, .. }
        | Change::RemoveIndex { index }) = change;
        let by_setting = cluster.indices.get(index).and_then(Index::metadata_block);
        let by_fault = context
            .has_fault(FaultKind::FloodStage)
            .then_some(blocks::FLOOD_STAGE);
        if let Some(block) = by_setting.or(by_fault) {
            return Err(blocks::exception(index, block));
        }
    }
    for change in changes {
        match change {
            // Indices are removed first.
            Change::Add { index, .. } | Change::Remove { index, .. } if removed(index) => {
                let reason = format!("no such index [{index}]");
                let exception = Exception::new(404, "index_not_found_exception", reason);
                return Err(exception
                    .with("index", index.as_str())
                    .with("index_uuid", "_na_"));
            }
            Change::Add { alias, .. } => match cluster.indices.get(alias) {
                Some(index) if !removed(alias) => return Err(is_an_index(alias, &index.uuid)),
                _ => {}
            },
            Change::Remove {
                index,
                alias,
                must_exist: true,
            } => {
                let exists = cluster
                    .indices
                    .get(index)
                    .is_some_and(|index| index.aliases.contains_key(alias));
                if !exists {
                    return Err(missing(std::slice::from_ref(alias)));
                }
            }
            Change::Remove { .. } | Change::RemoveIndex { .. } => {}
        }
    }
    Ok(())
}

fn apply(cluster: &mut Cluster, changes: Vec<Change>) {
    for change in &changes {
        if let Change::RemoveIndex { index } = change {
            cluster.indices.remove(index);
        }
    }
    for change in changes {
        match change {
            Change::Add {
                index,
                alias,
                configuration,
            } => {
                if let Some(index) = cluster.indices.get_mut(&index) {
                    index.aliases.insert(alias, configuration);
                }
            }
            Change::Remove { index, alias, .. } => {
                if let Some(index) = cluster.indices.get_mut(&index) {
                    index.aliases.remove(&alias);
                }
            }
            Change::RemoveIndex { .. } => {}
        }
    }
}

/// `GET /_alias`, `GET /_alias/<pattern>`, `GET /<target>/_alias/<pattern>`. If a name is missing,
/// the response is a 404 that contains the others.
pub(super) fn get(
    cluster: &Cluster,
    call: &Call,
    target: &str,
    patterns: Option<&str>,
) -> Result<ApiResponse, Exception> {
    call.allow(&[
        "ignore_unavailable",
        "allow_no_indices",
        "expand_wildcards",
        "local",
    ])?;
    let patterns: Vec<&str> = patterns.unwrap_or("*").split(',').collect();
    let mut shown = Map::new();
    for name in named(cluster, call, target)? {
        let Some(index) = cluster.indices.get(&name) else {
            continue;
        };
        let is_named =
            |alias: &&String| patterns.iter().any(|pattern| glob::matches(pattern, alias));
        let aliases: Map<String, Value> = index
            .aliases
            .iter()
            .filter(|(alias, _)| is_named(alias))
            .map(|(alias, configuration)| (alias.clone(), configuration.clone()))
            .collect();
        if !aliases.is_empty() {
            shown.insert(name, json!({ "aliases": aliases }));
        }
    }
    let absent: Vec<&str> = patterns
        .iter()
        .copied()
        .filter(|pattern| !pattern.contains('*') && !cluster.is_alias(pattern))
        .collect();
    if absent.is_empty() {
        return Ok(ApiResponse::ok(shown.into()));
    }
    let word = if absent.len() == 1 {
        "alias"
    } else {
        "aliases"
    };
    let mut body = Map::new();
    body.insert(
        "error".to_owned(),
        format!("{word} [{}] missing", absent.join(",")).into(),
    );
    body.insert("status".to_owned(), 404.into());
    body.extend(shown);
    Ok(ApiResponse {
        status: 404,
        body: body.into(),
    })
}

/// 400: the alias has the name of an index.
pub(super) fn is_an_index(alias: &str, uuid: &str) -> Exception {
    let reason =
        format!("Invalid alias name [{alias}], an index exists with the same name as the alias");
    Exception::new(400, "invalid_alias_name_exception", reason)
        .with("index", alias)
        .with("index_uuid", uuid)
}

fn names(details: &Map<String, Value>, one: &str, several: &str) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let named = details.get(one).and_then(text).into_iter();
    let listed = details
        .get(several)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(text);
    named.chain(listed).collect()
}

fn missing_member(reason: &str) -> Exception {
    unparsable().caused_by(&Exception::illegal_argument(reason))
}

fn unparsable() -> Exception {
    Exception::new(
        400,
        "x_content_parse_exception",
        "[aliases] failed to parse field [actions]",
    )
}

fn missing(aliases: &[String]) -> Exception {
    let names = aliases.join(", ");
    Exception::new(
        404,
        "aliases_not_found_exception",
        format!("aliases [{names}] missing"),
    )
    .with("resource.id", names)
    .with("resource.type", "aliases")
}
