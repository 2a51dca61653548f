//! Compares the stored documents with the objects of the members. It is independent of the
//! operator's implementation.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::model::{ClusterName, IndexPrefix};
use serde_json::Value;

use crate::{
    interpreter::{INTERPRETED_KIND, Rules, built_in},
    selection::{KINDS, Kind, STEADY, Selection},
};
use fakes::{apiserver, opensearch::OpenSearch};

/// Number of differences that are reported in full.
const MAX_REPORTED: usize = 5;

/// The expected documents of a cluster: id → object.
type Expected = BTreeMap<String, (Kind, Value)>;

/// What decides which documents there are, and what they hold.
#[derive(Clone, Copy)]
pub struct Policy<'p> {
    /// The objects that the registry selects.
    pub selection: &'p Selection,
    /// The rules by which they are interpreted.
    pub rules: Rules,
}

/// Returns the expected documents of one cluster.
pub fn expected(server: &apiserver::Server, selection: &Selection) -> Expected {
    let mut expected = Expected::new();
    for kind in KINDS {
        for stored in server.objects(kind.resource, None).unwrap_or_default() {
            let object = server.object(kind.resource, stored.namespace.as_deref(), &stored.name);
            if let Ok(Some(object)) = object
                && selection.selects(kind, &object)
            {
                expected.insert(id(kind, &stored.uid), (kind, object));
            }
        }
    }
    expected
}

/// Returns the document id of an object.
pub fn id(kind: Kind, uid: &str) -> String {
    format!("{}/{}/{uid}", kind.api_version, kind.kind)
}

/// Returns the document ids of the unmodified objects of a cluster.
pub fn steady(server: &apiserver::Server) -> BTreeSet<String> {
    let objects = server
        .objects(KINDS[0].resource, Some(STEADY))
        .unwrap_or_default();
    objects
        .iter()
        .map(|stored| id(KINDS[0], &stored.uid))
        .collect()
}

/// Returns every difference between index and fleet; empty if they are equal.
pub fn differences(
    members: &[ClusterName],
    servers: &BTreeMap<ClusterName, apiserver::Server>,
    hostile: &[&ClusterName],
    store: &OpenSearch,
    prefix: &IndexPrefix,
    policy: Policy<'_>,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut needed = BTreeSet::new();
    for (name, server) in servers {
        let of_cluster = revisions_of(store, prefix, name);
        if !members.contains(name) {
            found.extend(
                of_cluster
                    .iter()
                    .map(|index| format!("{index} belongs to a cluster that is not a member")),
            );
            continue;
        }
        if of_cluster.len() != 1 {
            found.push(format!(
                "cluster {name} has the revisions {of_cluster:?}, not one"
            ));
        }
        for revision in of_cluster {
            let index = store.aliases().remove(&revision);
            needed.extend(index.unwrap_or_else(|| [revision].into()));
        }
        let alias = prefix.cluster_alias(name);
        compare(
            name,
            expected(server, policy.selection),
            stored(store, alias.as_str()),
            policy,
            &mut found,
        );
    }
    // A former store location may wait for hostile members for ever.
    let is_hostile = |index: &String| {
        hostile
            .iter()
            .any(|name| index.contains(&format!("-{name}.")))
    };
    for (index, state) in store.indices() {
        if is_hostile(&index) || state.aliases.iter().any(is_hostile) {
            needed.insert(index);
        }
    }
    for name in members {
        let alias = prefix.cluster_alias(name);
        let foreign_document = stored(store, alias.as_str())
            .into_iter()
            .find(|(_, (_, source))| source["cluster"] != name.as_str());
        found.extend(foreign_document.map(|(id, (_, source))| {
            format!("{alias} has document {id} of cluster {}", source["cluster"])
        }));
    }
    let over_all = stored(store, prefix.as_str()).len();
    let by_cluster: usize = members
        .iter()
        .map(|name| stored(store, prefix.cluster_alias(name).as_str()).len())
        .sum();
    if over_all != by_cluster {
        found.push(format!("{over_all} documents under the alias over all, {by_cluster} under those of the clusters"));
    }
    found.extend(strays(store));
    // A checkpoint that was in flight for long may arrive after its store location has been
    // emptied.
    let is_state = |index: &str| index.rsplit('.').next() == Some("state");
    let unexpected = store
        .indices()
        .into_keys()
        .filter(|index| !is_state(index) && !needed.contains(index));
    found.extend(unexpected.map(|index| format!("index {index} should not exist")));
    found
}

/// The indices of a cluster, and the write aliases of its parts of shared indices.
fn revisions_of(store: &OpenSearch, prefix: &IndexPrefix, cluster: &ClusterName) -> Vec<String> {
    let alias = prefix.cluster_alias(cluster);
    let own = store.indices().into_keys();
    let own = own.filter(|index| index.starts_with(&format!("{alias}.g")));
    let shared = store.aliases().into_keys();
    let shared =
        shared.filter(|name| name.starts_with(&format!("{alias}.w")) && name.contains(".p"));
    own.chain(shared).collect()
}

/// The name of an index, without the numbers by which those of shared indices end.
fn is_shared(index: &str) -> bool {
    index.contains(".shared.")
}

/// What is wrong with the shared indices: documents that no cluster has.
fn strays(store: &OpenSearch) -> Vec<String> {
    let mut found = Vec::new();
    for (index, state) in store.indices() {
        let written = state.aliases.iter().filter(|alias| alias.contains(".w"));
        let written: usize = written.map(|alias| stored(store, alias).len()).sum();
        if is_shared(&index) && written != state.documents {
            found.push(format!(
                "{index} has {} documents, and its clusters have {written}",
                state.documents
            ));
        }
    }
    found
}

/// Returns the documents of an alias, id → version and source; empty if the alias does not exist.
pub fn stored(store: &OpenSearch, alias: &str) -> BTreeMap<String, (u64, Arc<Value>)> {
    store
        .documents(alias)
        .into_iter()
        .map(|document| {
            let id = match document.id.split_once(':') {
                Some((_, id)) if is_shared(&document.index) => id.to_owned(),
                _ => document.id,
            };
            (id, (document.version, document.source))
        })
        .collect()
}

fn compare(
    cluster: &ClusterName,
    mut expected: Expected,
    stored: BTreeMap<String, (u64, Arc<Value>)>,
    policy: Policy<'_>,
    found: &mut Vec<String>,
) {
    let mut count = 0;
    let mut report = |what: String| {
        count += 1;
        if count <= MAX_REPORTED {
            found.push(format!("cluster {cluster}: {what}"));
        }
    };
    for (id, (version, source)) in stored {
        match expected.remove(&id) {
            None => report(format!("document {id} of version {version} has no object")),
            Some((kind, object)) => {
                if let Some(difference) = difference(kind, &object, version, &source, policy) {
                    report(format!("document {id}: {difference}"));
                }
            }
        }
    }
    for (id, (_, object)) in expected {
        let metadata = &object["metadata"];
        report(format!(
            "object {id} ({}) of version {} has no document",
            metadata["name"], metadata["resourceVersion"]
        ));
    }
    if count > MAX_REPORTED {
        found.push(format!("cluster {cluster}: … {count} differences in all"));
    }
}

fn difference(
    kind: Kind,
    object: &Value,
    version: u64,
    source: &Value,
    policy: Policy<'_>,
) -> Option<String> {
    let current = object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    if current != version.to_string() || source["metadata"]["resourceVersion"] != *current {
        return Some(format!(
            "version {version}, source {}, object {current}",
            source["metadata"]["resourceVersion"]
        ));
    }
    if !source["search"]["rejected"].is_null() {
        // The store rejected the object: its document says so and names the object.
        return (source["metadata"]["name"] != object["metadata"]["name"])
            .then(|| "it belongs to another object".to_owned());
    }
    if source["metadata"]["labels"] != object["metadata"]["labels"] {
        return Some("its labels differ from the object's".to_owned());
    }
    if let Some(difference) =
        interpretation_difference(kind, object, &source["search"], policy.rules)
    {
        return Some(difference);
    }
    if kind.kind == "Secret" {
        let text = source.to_string();
        return text
            .contains(super::SECRET_VALUE)
            .then(|| "it contains a Secret's value".to_owned());
    }
    let mut spec = object["spec"].clone();
    if policy.selection.redacts
        && let Some(members) = spec.as_object_mut()
    {
        members.remove("hidden");
    }
    (source["spec"] != spec).then(|| format!("spec is {}, not {spec}", source["spec"]))
}

/// Whether a document says of its object what the rules say of this version.
fn interpretation_difference(
    kind: Kind,
    object: &Value,
    search: &Value,
    rules: Rules,
) -> Option<String> {
    let acceptable = if kind.kind == INTERPRETED_KIND {
        rules.acceptable(object)
    } else {
        vec![built_in(kind.kind)]
    };
    let members = ["health", "interpretedBy", "replicas", "dependencies"];
    let stored: Value = members
        .into_iter()
        .filter(|member| !search[member].is_null())
        .map(|member| (member.to_owned(), search[member].clone()))
        .collect();
    (!acceptable.contains(&stored)).then(|| {
        format!(
            "it is interpreted as {stored} ({}), not as {acceptable:?}",
            search["healthMessage"]
        )
    })
}
