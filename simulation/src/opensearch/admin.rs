//! Making, showing, changing and deleting indices.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    alias, aliases,
    answer::{Answer, Refusal, invalid_name, numbered},
    blocks,
    call::Call,
    cluster::{Cluster, Leniency, Moment, named},
    faults::FaultKind,
    index::Index,
    mapping::Mapping,
    settings::{self, Changes, Settings},
    template,
};

/// Shards that a node may have by default.
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

/// What a new index is made with, beside what its template says.
#[derive(Default)]
struct Wanted {
    settings: Changes,
    mappings: Option<Value>,
    aliases: BTreeMap<String, Value>,
}

/// `PUT /<index>`
pub(super) fn create(
    cluster: &mut Cluster,
    moment: &mut Moment<'_>,
    call: &Call,
    name: &str,
) -> Result<Answer, Refusal> {
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
        return Err(Refusal::new(
            400,
            "parse_exception",
            format!("unknown key [{key}] for create index"),
        ));
    }
    let wanted = Wanted {
        settings: body
            .get("settings")
            .map(settings::read)
            .transpose()?
            .unwrap_or_default(),
        mappings: body.get("mappings").cloned(),
        aliases: alias::read_configurations(body.get("aliases"))?,
    };
    make(cluster, moment, name, wanted)?;
    Ok(Answer::ok(
        json!({ "acknowledged": true, "shards_acknowledged": true, "index": name }),
    ))
}

/// Makes an index because something is written to it.
pub(super) fn create_for_write(
    cluster: &mut Cluster,
    moment: &mut Moment<'_>,
    name: &str,
) -> Result<(), Refusal> {
    make(cluster, moment, name, Wanted::default())
}

fn make(
    cluster: &mut Cluster,
    moment: &mut Moment<'_>,
    name: &str,
    wanted: Wanted,
) -> Result<(), Refusal> {
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
    settings.apply(&wanted.settings);
    if let Some(mappings) = &wanted.mappings {
        Mapping::new(mappings).map_err(|refusal| unparsable_mapping(&refusal))?;
        mapping = mapping.overlay(mappings)?;
    }
    named.extend(wanted.aliases);
    if let Some(taken) = named.keys().find_map(|alias| cluster.indices.get(alias)) {
        return Err(aliases::is_an_index(&taken.name, &taken.uuid));
    }
    settings.set_default("number_of_shards", "1");
    settings.set_default("number_of_replicas", "1");
    let uuid = moment.uuid();
    describe(&mut settings, name, &uuid);
    let mut index = Index::new(name, uuid, mapping, settings, moment.now);
    index.aliases = named;
    if moment.suffers(FaultKind::ShardsFull) {
        return Err(no_room(&index));
    }
    cluster.indices.insert(name.to_owned(), index);
    Ok(())
}

fn describe(settings: &mut Settings, name: &str, uuid: &str) {
    settings.set("uuid", uuid);
    settings.set("provided_name", name);
    settings.set("creation_date", "1767225600000");
    settings.set("version.created", VERSION_CREATED);
    settings.set("replication.type", "DOCUMENT");
}

fn unparsable_mapping(refusal: &Refusal) -> Refusal {
    let cause = refusal.error();
    let reason = format!(
        "Failed to parse mapping [_doc]: {}",
        cause["reason"].as_str().unwrap_or_default()
    );
    Refusal::new(400, "mapper_parsing_exception", reason)
        .caused_by(refusal)
        .with_root_causes(vec![cause])
}

fn no_room(index: &Index) -> Refusal {
    let added = index.shards() * index.copies();
    let problem = format!(
        "this action would add [{added}] total LOCAL_ONLY shards, but this cluster currently has \
         [{SHARDS_PER_NODE}]/[{SHARDS_PER_NODE}] maximum LOCAL_ONLY shards open"
    );
    Refusal::new(400, "validation_exception", numbered(&[problem]))
}

fn check_name(cluster: &Cluster, name: &str) -> Result<(), Refusal> {
    if let Some(index) = cluster.indices.get(name) {
        let reason = format!("index [{name}/{}] already exists", index.uuid);
        let refusal = Refusal::new(400, "resource_already_exists_exception", reason);
        return Err(refusal
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

/// `DELETE /<index>`; not by an alias.
pub(super) fn delete(
    cluster: &mut Cluster,
    call: &Call,
    expression: &str,
) -> Result<Answer, Refusal> {
    call.allow(&TARGET_PARAMETERS)?;
    for name in cluster.resolve_concrete(expression)? {
        cluster.indices.remove(&name);
    }
    Ok(Answer::acknowledged())
}

/// `GET /<target>`
pub(super) fn get(cluster: &Cluster, call: &Call, target: &str) -> Result<Answer, Refusal> {
    show(cluster, call, target, |index| {
        json!({
            "aliases": index.aliases,
            "mappings": index.mapping().definition(),
            "settings": index.settings().nested(),
        })
    })
}

/// `GET /<target>/_mapping`
pub(super) fn get_mapping(cluster: &Cluster, call: &Call, target: &str) -> Result<Answer, Refusal> {
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
) -> Result<Answer, Refusal> {
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
) -> Result<Answer, Refusal> {
    call.allow(&TARGET_PARAMETERS)?;
    let names = named(cluster, call, target)?;
    let shown: Map<String, Value> = names
        .into_iter()
        .filter_map(|name| Some((name.clone(), part(cluster.indices.get(&name)?))))
        .collect();
    Ok(Answer::ok(shown.into()))
}

/// `PUT /<target>/_mapping`: adds fields, and replaces `_meta` as a whole. All indices, or none.
pub(super) fn put_mapping(
    cluster: &mut Cluster,
    moment: &mut Moment<'_>,
    call: &Call,
    target: &str,
) -> Result<Answer, Refusal> {
    call.allow(&[&TARGET_PARAMETERS[..], &["write_index_only"]].concat())?;
    let update = Value::Object(call.members()?);
    let leniency = Leniency {
        allow_no_indices: false,
        ..Leniency::of(&call.parameters)?
    };
    let names = cluster
        .resolve(target, leniency)
        .map_err(|_| Refusal::no_such_index(target))?;
    for index in names.iter().filter_map(|name| cluster.indices.get(name)) {
        check_metadata_block(index, moment)?;
        index.mapping().merge(&update)?;
    }
    for name in &names {
        if let Some(index) = cluster.indices.get_mut(name) {
            index.extend_mapping(&update)?;
        }
    }
    Ok(Answer::acknowledged())
}

fn check_metadata_block(index: &Index, moment: &mut Moment<'_>) -> Result<(), Refusal> {
    if moment.suffers(FaultKind::FloodStage) {
        return Err(blocks::refusal(&index.name, blocks::FLOOD_STAGE));
    }
    index
        .metadata_block()
        .map_or(Ok(()), |block| Err(blocks::refusal(&index.name, block)))
}

/// `PUT /<target>/_settings`
pub(super) fn put_settings(
    cluster: &mut Cluster,
    moment: &Moment<'_>,
    call: &Call,
    target: &str,
) -> Result<Answer, Refusal> {
    call.allow(&[&TARGET_PARAMETERS[..], &["preserve_existing"]].concat())?;
    let body = call.members()?;
    let changes = settings::read(body.get("settings").unwrap_or(&Value::Object(body.clone())))?;
    let names = cluster.resolve(target, Leniency::STRICT)?;
    for index in names.iter().filter_map(|name| cluster.indices.get(name)) {
        settings::check_dynamic(&changes, &index.name, &index.uuid)?;
    }
    for name in &names {
        if let Some(index) = cluster.indices.get_mut(name) {
            index.configure(&changes, moment.now);
        }
    }
    Ok(Answer::acknowledged())
}

/// `POST /<target>/_refresh`
pub(super) fn refresh(cluster: &mut Cluster, call: &Call, target: &str) -> Result<Answer, Refusal> {
    call.allow(&TARGET_PARAMETERS)?;
    let (mut total, mut successful) = (0, 0);
    for name in named(cluster, call, target)? {
        if let Some(index) = cluster.indices.get_mut(&name) {
            index.refresh();
            total += index.shards() * index.copies();
            successful += index.shards();
        }
    }
    Ok(Answer::ok(
        json!({ "_shards": { "total": total, "successful": successful, "failed": 0 } }),
    ))
}

/// `GET /<index>/_doc/<id>`: whether searches see the document or not.
pub(super) fn get_document(
    cluster: &Cluster,
    call: &Call,
    name: &str,
    id: &str,
) -> Result<Answer, Refusal> {
    call.allow(&["realtime", "refresh"])?;
    let index = cluster.single_index(name)?;
    let status = if index.get(id).is_some() { 200 } else { 404 };
    Ok(Answer {
        status,
        body: found(index, id),
    })
}

/// `POST /_mget`: the same for several documents, each with an answer of its own.
pub(super) fn get_documents(cluster: &Cluster, call: &Call) -> Result<Answer, Refusal> {
    call.allow(&["realtime", "refresh"])?;
    let body = call.members()?;
    let Some(wanted) = body
        .get("docs")
        .and_then(Value::as_array)
        .filter(|wanted| !wanted.is_empty())
    else {
        return Err(Refusal::invalid(&["no documents to get".to_owned()]));
    };
    let text = |wanted: &Value, key: &str| wanted[key].as_str().unwrap_or_default().to_owned();
    let answer = |wanted: &Value| {
        let (name, id) = (text(wanted, "_index"), text(wanted, "_id"));
        match cluster.single_index(&name) {
            Ok(index) => found(index, &id),
            Err(refusal) => json!({ "_index": name, "_id": id, "error": refusal.body()["error"] }),
        }
    };
    Ok(Answer::ok(
        json!({ "docs": wanted.iter().map(answer).collect::<Vec<_>>() }),
    ))
}

fn found(index: &Index, id: &str) -> Value {
    let Some(document) = index.get(id) else {
        return json!({ "_index": index.name, "_id": id, "found": false });
    };
    json!({
        "_index": index.name,
        "_id": id,
        "_version": document.version,
        "_seq_no": document.sequence,
        "_primary_term": 1,
        "found": true,
        "_source": document.source,
    })
}
