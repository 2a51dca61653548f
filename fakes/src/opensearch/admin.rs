//! Requests that create, read, change and delete indices.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    alias, aliases, blocks,
    call::Call,
    cluster::{Cluster, Leniency, RequestContext, named},
    faults::FaultKind,
    index::Index,
    mapping::Mapping,
    response::{ApiResponse, Exception, invalid_name, numbered},
    settings::{self, Changes, Settings},
    template,
};

/// Default limit of shards per node.
const SHARDS_PER_NODE: u64 = 1_000;
/// The internal number of version 3.4.0.
const VERSION_CREATED: &str = "137257827";
const TARGET_PARAMETERS: [&str; 5] = [
    "ignore_unavailable",
    "allow_no_indices",
    "expand_wildcards",
    "timeout",
    "cluster_manager_timeout",
];

/// The definition of a new index, which is added to its template.
#[derive(Default)]
struct IndexDefinition {
    settings: Changes,
    mappings: Option<Value>,
    aliases: BTreeMap<String, Value>,
}

/// `PUT /<index>`
pub(super) fn create(
    cluster: &mut Cluster,
    context: &mut RequestContext<'_>,
    call: &Call,
    name: &str,
) -> Result<ApiResponse, Exception> {
    call.allow(&[
        "wait_for_active_shards",
        "timeout",
        "cluster_manager_timeout",
    ])?;
    let body = call.members_as_map()?;
    if let Some(key) = body
        .keys()
        .find(|key| !["settings", "mappings", "aliases"].contains(&key.as_str()))
    {
        return Err(Exception::new(
            400,
            "parse_exception",
            format!("unknown key [{key}] for create index"),
        ));
    }
    let definition = IndexDefinition {
        settings: body
            .get("settings")
            .map(settings::read)
            .transpose()?
            .unwrap_or_default(),
        mappings: body.get("mappings").cloned(),
        aliases: alias::read_configurations(body.get("aliases"))?,
    };
    create_index(cluster, context, name, definition)?;
    Ok(ApiResponse::ok(
        json!({ "acknowledged": true, "shards_acknowledged": true, "index": name }),
    ))
}

/// Creates an index for a write to a missing index.
pub(super) fn create_for_write(
    cluster: &mut Cluster,
    context: &mut RequestContext<'_>,
    name: &str,
) -> Result<(), Exception> {
    create_index(cluster, context, name, IndexDefinition::default())
}

fn create_index(
    cluster: &mut Cluster,
    context: &mut RequestContext<'_>,
    name: &str,
    definition: IndexDefinition,
) -> Result<(), Exception> {
    check_name(cluster, name)?;
    let template = template::matching(cluster, name);
    let mut settings = Settings::default();
    let mut mapping = Mapping::new(&Value::Object(Map::new()))?;
    let mut named = BTreeMap::new();
    if let Some(template) = template {
        settings.apply(&template.settings);
        mapping = Mapping::new(&template.mappings)?;
        named.extend(template.aliases.clone());
    }
    settings.apply(&definition.settings);
    if let Some(mappings) = &definition.mappings {
        Mapping::new(mappings).map_err(|exception| unparsable_mapping(&exception))?;
        mapping = mapping.overlay(mappings)?;
    }
    named.extend(definition.aliases);
    if let Some(taken) = named.keys().find_map(|alias| cluster.indices.get(alias)) {
        return Err(aliases::is_an_index(&taken.name, &taken.uuid));
    }
    settings.set_default("number_of_shards", "1");
    settings.set_default("number_of_replicas", "1");
    let uuid = context.uuid();
    set_metadata_settings(&mut settings, name, &uuid);
    let mut index = Index::new(name, uuid, mapping, settings, context.now);
    index.aliases = named;
    if context.has_fault(FaultKind::ShardsFull) {
        return Err(too_many_shards(&index));
    }
    cluster.indices.insert(name.to_owned(), index);
    Ok(())
}

fn set_metadata_settings(settings: &mut Settings, name: &str, uuid: &str) {
    settings.set("uuid", uuid);
    settings.set("provided_name", name);
    settings.set("creation_date", "1767225600000");
    settings.set("version.created", VERSION_CREATED);
    settings.set("replication.type", "DOCUMENT");
}

fn unparsable_mapping(exception: &Exception) -> Exception {
    let cause = exception.error();
    let reason = format!(
        "Failed to parse mapping [_doc]: {}",
        cause["reason"].as_str().unwrap_or_default()
    );
    Exception::new(400, "mapper_parsing_exception", reason)
        .caused_by(exception)
        .with_root_causes(vec![cause])
}

fn too_many_shards(index: &Index) -> Exception {
    let added = index.shards() * index.copies();
    let problem = format!(
        "this action would add [{added}] total LOCAL_ONLY shards, but this cluster currently has \
         [{SHARDS_PER_NODE}]/[{SHARDS_PER_NODE}] maximum LOCAL_ONLY shards open"
    );
    Exception::new(400, "validation_exception", numbered(&[problem]))
}

fn check_name(cluster: &Cluster, name: &str) -> Result<(), Exception> {
    if let Some(index) = cluster.indices.get(name) {
        let reason = format!("index [{name}/{}] already exists", index.uuid);
        let exception = Exception::new(400, "resource_already_exists_exception", reason);
        return Err(exception
            .with("index", name)
            .with("index_uuid", index.uuid.as_str()));
    }
    if name.starts_with(['_', '-', '+']) {
        return Err(invalid_name(name, "must not start with '_', '-', or '+'"));
    }
    if name.chars().any(char::is_uppercase) {
        return Err(invalid_name(name, "must be lowercase"));
    }
    if name.contains(|letter: char| " \"*\\<|,>/?#:".contains(letter)) {
        return Err(invalid_name(
            name,
            "must not contain the following characters [ , \", *, \\, <, |, ,, >, /, ?]",
        ));
    }
    if cluster.is_alias(name) {
        return Err(invalid_name(name, "already exists as alias"));
    }
    Ok(())
}

/// `DELETE /<index>`; aliases are rejected.
pub(super) fn delete(
    cluster: &mut Cluster,
    call: &Call,
    expression: &str,
) -> Result<ApiResponse, Exception> {
    call.allow(&TARGET_PARAMETERS)?;
    for name in cluster.resolve_concrete(expression)? {
        cluster.indices.remove(&name);
    }
    Ok(ApiResponse::acknowledged())
}

/// `GET /<target>`
pub(super) fn get(cluster: &Cluster, call: &Call, target: &str) -> Result<ApiResponse, Exception> {
    show(cluster, call, target, |index| {
        json!({
            "aliases": index.aliases,
            "mappings": index.mapping().definition(),
            "settings": index.settings().nested(),
        })
    })
}

/// `GET /<target>/_mapping`
pub(super) fn get_mapping(
    cluster: &Cluster,
    call: &Call,
    target: &str,
) -> Result<ApiResponse, Exception> {
    show(
        cluster,
        call,
        target,
        |index| json!({ "mappings": index.mapping().definition() }),
    )
}

/// `GET /<target>/_settings`
pub(super) fn get_settings(
    cluster: &Cluster,
    call: &Call,
    target: &str,
) -> Result<ApiResponse, Exception> {
    show(
        cluster,
        call,
        target,
        |index| json!({ "settings": index.settings().nested() }),
    )
}

fn show(
    cluster: &Cluster,
    call: &Call,
    target: &str,
    part: impl Fn(&Index) -> Value,
) -> Result<ApiResponse, Exception> {
    call.allow(&TARGET_PARAMETERS)?;
    let names = named(cluster, call, target)?;
    let shown: Map<String, Value> = names
        .into_iter()
        .filter_map(|name| Some((name.clone(), part(cluster.indices.get(&name)?))))
        .collect();
    Ok(ApiResponse::ok(shown.into()))
}

/// `PUT /<target>/_mapping`: adds fields and replaces `_meta` as a whole, in all indices or none.
pub(super) fn put_mapping(
    cluster: &mut Cluster,
    context: &mut RequestContext<'_>,
    call: &Call,
    target: &str,
) -> Result<ApiResponse, Exception> {
    call.allow(&[&TARGET_PARAMETERS[..], &["write_index_only"]].concat())?;
    let update = Value::Object(call.members()?);
    let leniency = Leniency {
        allow_no_indices: false,
        ..Leniency::of(&call.parameters)?
    };
    let names = cluster
        .resolve(target, leniency)
        .map_err(|_| Exception::no_such_index(target))?;
    for index in names.iter().filter_map(|name| cluster.indices.get(name)) {
        check_metadata_block(index, context)?;
        index.mapping().merge(&update)?;
    }
    for name in &names {
        if let Some(index) = cluster.indices.get_mut(name) {
            index.extend_mapping(&update)?;
        }
    }
    Ok(ApiResponse::acknowledged())
}

fn check_metadata_block(index: &Index, context: &mut RequestContext<'_>) -> Result<(), Exception> {
    if context.has_fault(FaultKind::FloodStage) {
        return Err(blocks::exception(&index.name, blocks::FLOOD_STAGE));
    }
    index
        .metadata_block()
        .map_or(Ok(()), |block| Err(blocks::exception(&index.name, block)))
}

/// `PUT /<target>/_settings`
pub(super) fn put_settings(
    cluster: &mut Cluster,
    context: &RequestContext<'_>,
    call: &Call,
    target: &str,
) -> Result<ApiResponse, Exception> {
    call.allow(&[&TARGET_PARAMETERS[..], &["preserve_existing"]].concat())?;
    let body = call.members()?;
    let changes = settings::read(body.get("settings").unwrap_or(&Value::Object(body.clone())))?;
    let names = cluster.resolve(target, Leniency::STRICT)?;
    for index in names.iter().filter_map(|name| cluster.indices.get(name)) {
        settings::check_dynamic(&changes, &index.name, &index.uuid)?;
    }
    for name in &names {
        if let Some(index) = cluster.indices.get_mut(name) {
            index.configure(&changes, context.now);
        }
    }
    Ok(ApiResponse::acknowledged())
}

/// `POST /<target>/_refresh`
pub(super) fn refresh(
    cluster: &mut Cluster,
    call: &Call,
    target: &str,
) -> Result<ApiResponse, Exception> {
    call.allow(&TARGET_PARAMETERS)?;
    let (mut total, mut successful) = (0, 0);
    for name in named(cluster, call, target)? {
        if let Some(index) = cluster.indices.get_mut(&name) {
            index.refresh();
            total += index.shards() * index.copies();
            successful += index.shards();
        }
    }
    Ok(ApiResponse::ok(
        json!({ "_shards": { "total": total, "successful": successful, "failed": 0 } }),
    ))
}

/// `GET /<index>/_doc/<id>`: real-time, so an index refresh is not required.
pub(super) fn get_document(
    cluster: &Cluster,
    call: &Call,
    name: &str,
    id: &str,
) -> Result<ApiResponse, Exception> {
    call.allow(&["realtime", "refresh"])?;
    let index = cluster.single_index(name)?;
    let status = if index.get(id).is_some() { 200 } else { 404 };
    Ok(ApiResponse {
        status,
        body: found(index, id),
    })
}

/// `GET /_cluster/health`, of one node.
pub(super) fn health(cluster: &Cluster, call: &Call) -> Result<ApiResponse, Exception> {
    call.allow(&[])?;
    let shards = |index: &Index| index.shards();
    let copies = |index: &Index| index.shards() * (index.copies() - 1);
    let indices = cluster.indices.values();
    Ok(ApiResponse::ok(json!({
        "number_of_data_nodes": 1,
        "active_shards": indices.clone().map(shards).sum::<u64>(),
        "initializing_shards": 0,
        // There is no other node for the copies.
        "unassigned_shards": indices.map(copies).sum::<u64>(),
    })))
}

/// `GET /_cluster/settings`: the defaults that Fleetdex reads.
pub(super) fn cluster_settings(call: &Call) -> Result<ApiResponse, Exception> {
    call.allow(&["include_defaults"])?;
    let limit = json!({ "cluster": { "max_shards_per_node": SHARDS_PER_NODE.to_string() } });
    Ok(ApiResponse::ok(
        json!({ "persistent": {}, "transient": {}, "defaults": limit }),
    ))
}

/// `POST /_mget`: gets several documents, each with its own result.
pub(super) fn get_documents(cluster: &Cluster, call: &Call) -> Result<ApiResponse, Exception> {
    call.allow(&["realtime", "refresh"])?;
    let body = call.members()?;
    let Some(requested) = body
        .get("docs")
        .and_then(Value::as_array)
        .filter(|requested| !requested.is_empty())
    else {
        return Err(Exception::invalid(&["no documents to get".to_owned()]));
    };
    let text =
        |requested: &Value, key: &str| requested[key].as_str().unwrap_or_default().to_owned();
    let response = |requested: &Value| {
        let (name, id) = (text(requested, "_index"), text(requested, "_id"));
        match cluster.single_index(&name) {
            Ok(index) => found(index, &id),
            Err(exception) => {
                json!({ "_index": name, "_id": id, "error": exception.body()["error"] })
            }
        }
    };
    Ok(ApiResponse::ok(
        json!({ "docs": requested.iter().map(response).collect::<Vec<_>>() }),
    ))
}

fn found(index: &Index, id: &str) -> Value {
    let Some(document) = index.get(id) else {
        return json!({ "_index": index.name, "_id": id, "found": false });
    };
    let mut found = json!({
        "_index": index.name,
        "_id": id,
        "_version": document.version,
        "_seq_no": document.sequence,
        "_primary_term": 1,
        "found": true,
        "_source": document.source,
    });
    if let Some(routing) = document.routing() {
        found["_routing"] = routing.as_ref().into();
    }
    found
}
