//! Checks that the documents of a store are exactly the objects of the clusters.
//!
//! It is independent of Fleetdex: it lists objects from the API servers, reads every document
//! through the read alias, and compares both. It also checks that one index revision per cluster is
//! left.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use fleetdex_core::model::IndexPrefix;
use serde_json::{Value, json};

use crate::{fleet::ApiServer, objects::Objects, opensearch::OpenSearch};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Differences that an error lists.
const SHOWN: usize = 10;

/// What the names of indices have that clusters share.
const SHARED: &str = ".shared.";

/// Cluster, and id of the document.
type DocumentKey = (String, String);

/// The expected contents of a store.
#[derive(Debug)]
pub struct Oracle {
    opensearch: OpenSearch,
    prefix: String,
    parts: Vec<ExpectedCollection>,
}

#[derive(Debug)]
struct ExpectedCollection {
    cluster: String,
    objects: Result<Objects>,
    collection: String,
    left_out: Vec<String>,
}

#[derive(Debug, PartialEq)]
struct ObjectState {
    version: String,
    name: String,
}

impl Oracle {
    /// Expects nothing yet under an index prefix.
    pub fn new(opensearch: &OpenSearch, prefix: &str) -> Self {
        Self {
            opensearch: opensearch.clone(),
            prefix: prefix.to_owned(),
            parts: Vec::new(),
        }
    }

    /// Expects the objects of a collection, such as `api/v1/configmaps` or
    /// `apis/apps/v1/namespaces/web/deployments?labelSelector=app%3Dweb`, as documents of
    /// `cluster`.
    #[must_use]
    pub fn expects(self, cluster: &str, server: &ApiServer, collection: &str) -> Self {
        self.expects_outside(cluster, server, collection, &[])
    }

    /// Expects the objects of these collections of each of these clusters.
    #[must_use]
    pub fn expects_all<'a>(
        mut self,
        clusters: impl IntoIterator<Item = (&'a str, &'a ApiServer)>,
        collections: &[&str],
    ) -> Self {
        for (cluster, server) in clusters {
            for collection in collections {
                self = self.expects(cluster, server, collection);
            }
        }
        self
    }

    /// As [`expects`](Self::expects), without the objects of some namespaces.
    #[must_use]
    pub fn expects_outside(
        mut self,
        cluster: &str,
        server: &ApiServer,
        collection: &str,
        namespaces: &[&str],
    ) -> Self {
        self.parts.push(ExpectedCollection {
            cluster: cluster.to_owned(),
            objects: Objects::of(server),
            collection: collection.to_owned(),
            left_out: namespaces
                .iter()
                .map(|&namespace| namespace.to_owned())
                .collect(),
        });
        self
    }

    /// Fails with the documents that are missing, superfluous or of another version; otherwise
    /// returns the number of documents.
    pub async fn compare(&self) -> Result<usize> {
        let expected = self.expected().await?;
        let differences = self.differences(&expected).await?;
        if differences.is_empty() {
            self.check_revisions().await?;
            return Ok(expected.len());
        }
        let mut text = format!(
            "{} objects, {} differences",
            expected.len(),
            differences.len()
        );
        for difference in differences.iter().take(SHOWN) {
            let _ = write!(text, "\n  {difference}");
        }
        bail!(text)
    }

    /// How many documents are missing, superfluous or of another version.
    pub async fn drift(&self) -> Result<usize> {
        let expected = self.expected().await?;
        Ok(self.differences(&expected).await?.len())
    }

    async fn differences(
        &self,
        expected: &BTreeMap<DocumentKey, ObjectState>,
    ) -> Result<Vec<String>> {
        let found = self.found().await?;
        let mut differences = Vec::new();
        for ((cluster, id), object) in expected {
            match found.get(&(cluster.clone(), id.clone())) {
                None => differences.push(format!(
                    "missing: {cluster} {id} {} at {}",
                    object.name, object.version
                )),
                Some(document) if document != object => {
                    differences.push(format!(
                        "differs: {cluster} {id} is {document:?}, the object is {object:?}"
                    ));
                }
                Some(_) => {}
            }
        }
        let extra = found.iter().filter(|(key, _)| !expected.contains_key(*key));
        differences.extend(extra.map(|((cluster, id), seen)| {
            format!("extra: {cluster} {id} {} at {}", seen.name, seen.version)
        }));
        Ok(differences)
    }

    /// Each cluster has one index, and its own alias stands for that index.
    async fn check_revisions(&self) -> Result<()> {
        let clusters: BTreeSet<&str> = self
            .parts
            .iter()
            .map(|part| part.cluster.as_str())
            .collect();
        for cluster in clusters {
            let revisions = revisions(&self.opensearch, &self.prefix, cluster).await?;
            ensure!(
                revisions.len() == 1,
                "{cluster} has the indices {revisions:?}, not one"
            );
            let alias = read_alias(&self.prefix, cluster)?;
            let behind = self.opensearch.get(&format!("_alias/{alias}")).await?;
            let is_right = behind
                .as_object()
                .is_some_and(|indices| indices.keys().eq(&revisions));
            ensure!(
                is_right,
                "the alias {alias} stands for {behind}, not for {revisions:?}"
            );
        }
        Ok(())
    }

    async fn expected(&self) -> Result<BTreeMap<DocumentKey, ObjectState>> {
        let mut all = BTreeMap::new();
        for part in &self.parts {
            let objects = part
                .objects
                .as_ref()
                .map_err(|error| anyhow!("{error:#}"))?;
            let list = objects.get(&part.collection).await?;
            let api_version = text(&list, "/apiVersion")?;
            let list_kind = text(&list, "/kind")?;
            let kind = list_kind
                .strip_suffix("List")
                .with_context(|| format!("{list_kind} is no list"))?;
            let items = list["items"]
                .as_array()
                .with_context(|| format!("no items in {}", part.collection))?;
            for item in items {
                if part
                    .left_out
                    .iter()
                    .any(|namespace| item["metadata"]["namespace"] == **namespace)
                {
                    continue;
                }
                let id = format!("{api_version}/{kind}/{}", text(item, "/metadata/uid")?);
                all.insert((part.cluster.clone(), id), ObjectState::of(item)?);
            }
        }
        Ok(all)
    }

    async fn found(&self) -> Result<BTreeMap<DocumentKey, ObjectState>> {
        let mut all = BTreeMap::new();
        for hit in documents(&self.opensearch, &self.prefix).await? {
            let document = &hit["_source"];
            let version = hit["_version"].to_string();
            ensure!(
                version == text(document, "/metadata/resourceVersion")?,
                "the version of {hit} is not that of its object"
            );
            let (id, index) = (text(&hit, "/_id")?, text(&hit, "/_index")?);
            // In an index that clusters share, an id begins with a number and a colon.
            let id = match id.split_once(':') {
                Some((_, id)) if index.contains(SHARED) => id,
                _ => id,
            };
            let key = (text(document, "/cluster")?.to_owned(), id.to_owned());
            ensure!(
                all.insert(key, ObjectState::of(document)?).is_none(),
                "there are two documents like {hit}"
            );
        }
        Ok(all)
    }
}

impl ObjectState {
    fn of(object: &Value) -> Result<Self> {
        let name = text(object, "/metadata/name")?;
        let name = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        Ok(Self {
            version: text(object, "/metadata/resourceVersion")?.to_owned(),
            name,
        })
    }
}

/// All documents of a prefix; none when nothing has that prefix.
pub async fn documents(opensearch: &OpenSearch, prefix: &str) -> Result<Vec<Value>> {
    let alias = opensearch
        .send(reqwest::Method::GET, &format!("_alias/{prefix}"), None)
        .await?;
    if alias.status == 404 {
        return Ok(Vec::new());
    }
    opensearch.documents(prefix).await
}

/// The document of one object.
pub async fn document(opensearch: &OpenSearch, prefix: &str, object: &Value) -> Result<Value> {
    let uid = text(object, "/metadata/uid")?;
    let mut hits = opensearch
        .search_all(prefix, &json!({ "term": { "metadata.uid": uid } }))
        .await?;
    ensure!(
        hits.len() <= 1,
        "{} documents of one object: {hits:?}",
        hits.len()
    );
    let hit = hits
        .pop()
        .with_context(|| format!("no document of {}", object["metadata"]["name"]))?;
    let version = text(object, "/metadata/resourceVersion")?;
    let stored_version = hit["_version"].to_string();
    ensure!(
        stored_version == version,
        "the document is at {}, the object at {version}",
        hit["_version"]
    );
    Ok(hit["_source"].clone())
}

/// The indices that begin with a prefix.
pub async fn indices(opensearch: &OpenSearch, prefix: &str) -> Result<Vec<String>> {
    let answer = opensearch
        .get(&format!(
            "_cat/indices/{prefix}-*,{prefix}{SHARED}*?format=json&h=index"
        ))
        .await?;
    let rows = answer
        .as_array()
        .with_context(|| format!("no rows in {answer}"))?;
    Ok(rows
        .iter()
        .filter_map(|row| row["index"].as_str())
        .map(str::to_owned)
        .collect())
}

/// The indices that hold documents of a cluster, finished or not, also those that it shares.
pub async fn revisions(
    opensearch: &OpenSearch,
    prefix: &str,
    cluster: &str,
) -> Result<Vec<String>> {
    let alias = read_alias(prefix, cluster)?;
    let pattern = format!("{alias}.g*");
    let answer = opensearch
        .get(&format!(
            "_cat/indices/{pattern}?format=json&h=index&s=index"
        ))
        .await?;
    let rows = answer
        .as_array()
        .with_context(|| format!("no rows in {answer}"))?;
    let own = rows.iter().filter_map(|row| row["index"].as_str());
    let written = opensearch.get(&format!("_alias/{alias}.w*")).await?;
    let written = written.as_object().into_iter().flatten();
    let shared = written
        .map(|(index, _)| index.as_str())
        .filter(|index| index.contains(SHARED));
    Ok(own.chain(shared).map(str::to_owned).collect())
}

/// The alias of one cluster's documents.
pub fn read_alias(prefix: &str, cluster: &str) -> Result<String> {
    Ok(prefix
        .parse::<IndexPrefix>()?
        .cluster_alias(&cluster.parse()?)
        .to_string())
}

/// Fails unless a document holds every field of an object, but for those that are never stored.
pub fn same_fields(document: &Value, object: &Value) -> Result<()> {
    let mut stored = document.clone();
    let mut native = object.clone();
    let search = stored
        .as_object_mut()
        .and_then(|members| members.remove("search"))
        .context("a document without `search`")?;
    stored
        .as_object_mut()
        .map(|members| members.remove("cluster"));
    // Members that a document needs for itself are kept beside.
    for (key, value) in search["native"].as_object().into_iter().flatten() {
        stored[key] = value.clone();
    }
    ensure!(
        stored["metadata"].get("managedFields").is_none(),
        "managedFields are stored"
    );
    ensure!(
        stored["metadata"]["annotations"]
            .get(LAST_APPLIED)
            .is_none(),
        "{LAST_APPLIED} is stored"
    );
    let metadata = native["metadata"]
        .as_object_mut()
        .context("an object without metadata")?;
    metadata.remove("managedFields");
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(LAST_APPLIED);
    }
    if metadata
        .get("annotations")
        .is_some_and(|annotations| *annotations == json!({}))
    {
        metadata.remove("annotations");
    }
    ensure!(
        stored == native,
        "the document is\n{stored}\nthe object is\n{native}"
    );
    Ok(())
}

fn text<'v>(value: &'v Value, pointer: &str) -> Result<&'v str> {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .with_context(|| format!("no text at {pointer} of {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_documents_with_all_fields_of_the_object_are_equal() {
        let object = json!({ "kind": "A", "metadata": { "name": "a", "managedFields": [], "annotations": { LAST_APPLIED: "{}" } },
            "spec": { "b": 1 }, "search": "own" });
        let mut document = json!({ "cluster": "c", "search": { "native": { "search": "own" } }, "kind": "A",
            "metadata": { "name": "a" }, "spec": { "b": 1 } });
        same_fields(&document, &object).unwrap();
        document["spec"]["b"] = json!(2);
        same_fields(&document, &object).unwrap_err();
        document["spec"]["b"] = json!(1);
        document["metadata"]["managedFields"] = json!([]);
        same_fields(&document, &object).unwrap_err();
    }
}
