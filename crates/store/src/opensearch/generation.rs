//! Generations: which indices there are of each cluster, which one is written to, and which one answers queries.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::{
    model::{ClusterName, IndexName, IndexPrefix},
    query::ResourceName,
};
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    client::parse,
    engine::Engine,
    template::MAPPING_VERSION,
    visible::{Part, filter},
};
use crate::{Generation, StoreError};

/// How often another instance may be faster at making the next generation before it is an error.
const ATTEMPTS: usize = 5;

/// `_meta.fleetdex` of an index: whose documents it holds, and in what shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Identity {
    cluster: ClusterName,
    owner: String,
    /// UID of the cluster's namespace kube-system; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    generation: u64,
    mapping_version: u32,
    projection: String,
}

/// One index of a survey.
pub(super) struct Found {
    pub(super) index: IndexName,
    id: String,
    /// With their configurations.
    aliases: BTreeMap<String, Value>,
    identity: Option<Identity>,
}

#[derive(Deserialize)]
struct RawIndex {
    #[serde(default)]
    aliases: BTreeMap<String, Value>,
    #[serde(default)]
    mappings: RawMappings,
    settings: Option<RawSettings>,
}

#[derive(Deserialize, Default)]
struct RawMappings {
    #[serde(rename = "_meta", default)]
    meta: RawMeta,
}

#[derive(Deserialize, Default)]
struct RawMeta {
    fleetdex: Option<Identity>,
}

#[derive(Deserialize)]
struct RawSettings {
    index: RawIndexSettings,
}

#[derive(Deserialize)]
struct RawIndexSettings {
    uuid: String,
}

impl Found {
    fn is_of(&self, cluster: &ClusterName) -> bool {
        self.identity
            .as_ref()
            .is_some_and(|identity| identity.cluster == *cluster)
    }

    /// Whether an index says that it is a generation under this prefix, of whichever installation.
    pub(super) fn is_generation_under(&self, prefix: &IndexPrefix) -> bool {
        self.identity.as_ref().is_some_and(|identity| {
            self.index == prefix.generation(&identity.cluster, identity.generation)
        })
    }

    /// Whether queries to an alias are answered from it.
    pub(super) fn is_read_through(&self, alias: &IndexName) -> bool {
        self.aliases.contains_key(alias.as_str())
    }
}

impl Engine {
    /// All indices that match a pattern.
    pub(super) async fn survey(&self, pattern: &str) -> Result<Vec<Found>, StoreError> {
        let operation = "reading the indices";
        let path = format!(
            "/{pattern}?allow_no_indices=true&ignore_unavailable=true&filter_path=*.aliases,*.settings.index.uuid,*.mappings._meta"
        );
        let Some(body) = self.get_optional(operation, path).await? else {
            return Ok(Vec::new());
        };
        let indices: BTreeMap<IndexName, RawIndex> = parse(operation, &body)?;
        let found = indices.into_iter().filter_map(|(index, raw)| {
            let id = raw.settings?.index.uuid;
            Some(Found {
                index,
                id,
                aliases: raw.aliases,
                identity: raw.mappings.meta.fleetdex,
            })
        });
        Ok(found.collect())
    }

    /// Every generation of this installation under the engine's prefix.
    pub(super) async fn own_generations(&self) -> Result<Vec<Generation>, StoreError> {
        let found = self
            .survey(self.options.prefix.every_generation().as_str())
            .await?;
        Ok(found
            .iter()
            .filter_map(|found| self.own_generation(found))
            .collect())
    }

    /// The UID of each cluster: that of the generation that answers queries, else that of the newest one.
    pub(super) async fn stored_identities(
        &self,
    ) -> Result<BTreeMap<ClusterName, String>, StoreError> {
        let found = self
            .survey(self.options.prefix.every_generation().as_str())
            .await?;
        let mut own: Vec<(bool, u64, &Identity)> = Vec::new();
        for index in found.iter().filter(|index| self.is_own(index)) {
            own.extend(index.identity.as_ref().map(|identity| {
                (
                    self.is_read(index, &identity.cluster),
                    identity.generation,
                    identity,
                )
            }));
        }
        own.sort_by_key(|(is_read, generation, _)| (*is_read, *generation));
        // A later one takes the place of an earlier one.
        let of_cluster = |(_, _, identity): (bool, u64, &Identity)| {
            Some((identity.cluster.clone(), identity.uid.clone()?))
        };
        Ok(own.into_iter().filter_map(of_cluster).collect())
    }

    fn own_generation(&self, found: &Found) -> Option<Generation> {
        let identity = found
            .identity
            .as_ref()
            .filter(|identity| identity.owner == self.options.owner)?;
        let prefix = &self.options.prefix;
        // In earlier releases the name of a longer prefix matched the pattern of a shorter one.
        let of_prefix = found.index == prefix.generation(&identity.cluster, identity.generation);
        of_prefix.then(|| self.generation_of(found, identity))
    }

    fn generation_of(&self, found: &Found, identity: &Identity) -> Generation {
        let (live, shown) = match self.part(found, &identity.cluster) {
            Part::All => (true, BTreeSet::new()),
            Part::Only(resources) => (false, resources),
        };
        Generation {
            cluster: identity.cluster.clone(),
            number: identity.generation,
            id: found.id.as_str().into(),
            index: found.index.clone(),
            target: self
                .options
                .prefix
                .write_alias(&identity.cluster, identity.generation),
            live,
            shown,
            replaces: None,
        }
    }

    /// What queries see of an index, whether they ask for the cluster or for all.
    fn part(&self, found: &Found, cluster: &ClusterName) -> Part {
        let [of_cluster, over_all] = self
            .read_aliases(cluster)
            .map(|alias| Part::of(found.aliases.get(alias.as_str())));
        of_cluster.and(over_all)
    }

    /// Whether any queries of a cluster are answered from an index.
    fn is_read(&self, found: &Found, cluster: &ClusterName) -> bool {
        self.read_aliases(cluster)
            .iter()
            .any(|alias| found.is_read_through(alias))
    }

    fn read_aliases(&self, cluster: &ClusterName) -> [IndexName; 2] {
        [
            self.options.prefix.cluster_alias(cluster),
            self.options.prefix.all(),
        ]
    }

    /// The clusters of those generations that are gone, or without the aliases that they should have.
    pub(super) async fn lost_generations(
        &self,
        generations: &[Generation],
    ) -> Result<BTreeSet<ClusterName>, StoreError> {
        let found = self
            .survey(self.options.prefix.every_generation().as_str())
            .await?;
        let as_it_should_be = |wanted: &Generation| {
            found.iter().any(|found| {
                let written = found.aliases.contains_key(wanted.target.as_str());
                let read = || match self.part(found, &wanted.cluster) {
                    Part::All => true,
                    Part::Only(shown) => !wanted.live && shown.is_superset(&wanted.shown),
                };
                found.index == wanted.index && *found.id == *wanted.id && written && read()
            })
        };
        Ok(generations
            .iter()
            .filter(|wanted| !as_it_should_be(wanted))
            .map(|wanted| wanted.cluster.clone())
            .collect())
    }

    /// The newest generation if it fits, else the next one.
    pub(super) async fn open_generation(
        &self,
        cluster: &ClusterName,
        uid: Option<&str>,
        above: u64,
    ) -> Result<Generation, StoreError> {
        let remembered = self
            .stored_checkpoints(cluster)
            .await?
            .map_or(0, |checkpoints| checkpoints.generation);
        for _ in 0..ATTEMPTS {
            let indices = self.indices_of(cluster).await?;
            let newest = indices
                .iter()
                .max_by_key(|found| found.identity.as_ref().map(|identity| identity.generation));
            if let Some(found) = newest
                && let Some(identity) = &found.identity
                && identity.generation > above
                && self.fits(identity, uid)
            {
                let others = indices
                    .iter()
                    .filter(|other| other.index != found.index && self.is_read(other, cluster));
                let read = others
                    .filter_map(|other| self.own_generation(other))
                    .max_by_key(|other| other.number);
                let replaces = read.map(Box::new);
                let adopted = self.adopt(found, identity, uid).await?;
                if adopted.is_read() {
                    self.feed.note_live(
                        cluster,
                        &adopted.target,
                        (!adopted.live).then(|| adopted.shown.clone()),
                    );
                }
                return Ok(Generation {
                    replaces,
                    ..adopted
                });
            }
            let highest = newest
                .and_then(|found| found.identity.as_ref())
                .map_or(0, |identity| identity.generation);
            let number = highest.max(above).max(remembered) + 1;
            if self.create_generation(cluster, uid, number).await? {
                tracing::info!(%cluster, number, "created a generation");
            }
        }
        Err(StoreError::Busy {
            status: 409,
            reason: format!(
                "the indices of cluster {cluster} keep changing; is another installation at work?"
            ),
        })
    }

    /// Every index of a cluster. An error if another installation or another cluster has an index under one of these names or answers under
    /// the cluster's alias.
    async fn indices_of(&self, cluster: &ClusterName) -> Result<Vec<Found>, StoreError> {
        let prefix = &self.options.prefix;
        let indices = self
            .survey(&format!(
                "{},{}",
                prefix.generations(cluster),
                prefix.cluster_alias(cluster)
            ))
            .await?;
        match indices
            .iter()
            .find(|found| !self.is_own(found) || !found.is_of(cluster))
        {
            Some(found) => Err(self.foreign(found)),
            None => Ok(indices),
        }
    }

    /// Whether an index is a generation of this installation and of this prefix.
    pub(super) fn is_own(&self, found: &Found) -> bool {
        self.own_generation(found).is_some()
    }

    /// The error that says whose an index is.
    pub(super) fn foreign(&self, found: &Found) -> StoreError {
        let owner = match &found.identity {
            Some(identity) if identity.owner == self.options.owner => {
                format!("cluster {}", identity.cluster)
            }
            Some(identity) => format!("another installation ({})", identity.owner),
            None => "something else than Fleetdex".to_owned(),
        };
        StoreError::Foreign {
            index: found.index.to_string(),
            owner,
        }
    }

    /// Whether documents of today's shape of that cluster are in there. A UID that is not known on either side is no difference.
    fn fits(&self, identity: &Identity, uid: Option<&str>) -> bool {
        let same_cluster =
            uid.is_none() || identity.uid.is_none() || identity.uid.as_deref() == uid;
        same_cluster
            && identity.mapping_version == MAPPING_VERSION
            && identity.projection == self.options.projection
    }

    /// Completes what is missing of a generation that fits: its write alias, and the cluster's UID when that was not known before.
    async fn adopt(
        &self,
        found: &Found,
        identity: &Identity,
        uid: Option<&str>,
    ) -> Result<Generation, StoreError> {
        let cluster = &identity.cluster;
        let target = self
            .options
            .prefix
            .write_alias(cluster, identity.generation);
        if !found.aliases.contains_key(target.as_str()) {
            let action = json!({ "add": { "index": found.index, "alias": target } });
            self.change_aliases("restoring an alias", &[action]).await?;
        }
        if identity.uid.is_none() && uid.is_some() {
            let known = Identity {
                uid: uid.map(str::to_owned),
                ..identity.clone()
            };
            let body = json!({ "_meta": { "fleetdex": known } });
            self.send(
                "naming the cluster of an index",
                Method::PUT,
                format!("/{}/_mapping", found.index),
                Some(&body),
            )
            .await?;
        }
        Ok(self.generation_of(found, identity))
    }

    /// Whether it was made by this request; otherwise it was there already.
    async fn create_generation(
        &self,
        cluster: &ClusterName,
        uid: Option<&str>,
        number: u64,
    ) -> Result<bool, StoreError> {
        let identity = Identity {
            cluster: cluster.clone(),
            owner: self.options.owner.clone(),
            uid: uid.map(str::to_owned),
            generation: number,
            mapping_version: MAPPING_VERSION,
            projection: self.options.projection.clone(),
        };
        let index = self.options.prefix.generation(cluster, number);
        let target = self.options.prefix.write_alias(cluster, number);
        let body = json!({ "aliases": { target.as_str(): {} }, "mappings": { "_meta": { "fleetdex": identity } } });
        match self
            .send(
                "creating an index",
                Method::PUT,
                format!("/{index}"),
                Some(&body),
            )
            .await
        {
            Ok(_) => Ok(true),
            // Another instance was faster.
            Err(StoreError::Refused { reason, .. })
                if reason.contains("resource_already_exists_exception") =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Lets queries see a part of a generation, or all of it. With all of it the cluster's other indices go, in one request that is done as a whole
    /// or not at all.
    pub(super) async fn swap_to(
        &self,
        generation: &Generation,
        part: Part,
    ) -> Result<(), StoreError> {
        let Generation {
            cluster,
            index,
            target,
            ..
        } = generation;
        let found = self
            .survey(self.options.prefix.generations(cluster).as_str())
            .await?;
        let own: Vec<Generation> = found
            .iter()
            .filter_map(|found| self.own_generation(found))
            .collect();
        let earlier: Vec<&Generation> = own
            .iter()
            .filter(|other| other.cluster == *cluster && other.number < generation.number)
            .collect();
        let current = own.iter().find(|other| other.index == *index);
        // What is shown stays shown.
        let wanted = match (part, current) {
            (Part::Only(resources), Some(current)) if !current.live => {
                Some(resources.union(&current.shown).cloned().collect())
            }
            (Part::Only(resources), None) => Some(resources),
            (Part::All, _) | (Part::Only(_), Some(_)) => None,
        };
        let replaced = if wanted.is_none() {
            earlier.as_slice()
        } else {
            &[]
        };
        if current.is_some_and(|current| current.live) {
            self.swap_aliases(generation, wanted.as_ref(), replaced, &found)
                .await?;
            self.feed.note_live(cluster, target, wanted);
            return Ok(());
        }
        let Some(mut swap) = self.feed.begin_swap(cluster, Some(target), wanted.clone()) else {
            self.swap_aliases(generation, wanted.as_ref(), replaced, &found)
                .await?;
            self.feed.end_untold(cluster, Some(target), wanted);
            return Ok(());
        };
        let current = current.filter(|current| current.is_read());
        let old = earlier.iter().find(|other| other.is_read()).copied();
        if swap.old.as_ref() != current.or(old).map(|seen| &seen.target)
            || current.is_some() && old.is_some()
        {
            swap.give_up();
        }
        swap.settled().await;
        // What is not refreshed yet would not be told.
        self.refresh_index(index).await?;
        if let Some(old) = old
            && self.refresh_index(&old.index).await.is_err()
        {
            swap.give_up();
        }
        let difference = |resource: &ResourceName| {
            let is_new = wanted
                .as_ref()
                .is_none_or(|wanted| wanted.contains(resource));
            let to = Some(index).filter(|_| is_new);
            let from = current
                .or(old)
                .filter(|seen| seen.shows(resource))
                .map(|seen| &seen.index);
            (from, to)
        };
        self.tell_difference(&mut swap, difference).await;
        self.swap_aliases(generation, wanted.as_ref(), replaced, &found)
            .await?;
        swap.finish();
        Ok(())
    }

    async fn refresh_index(&self, index: &IndexName) -> Result<(), StoreError> {
        self.send(
            "refreshing an index",
            Method::POST,
            format!("/{index}/_refresh"),
            None,
        )
        .await
        .map(drop)
    }

    /// `shown`: the resources that the aliases show; none: everything. An alias shows no less than it did: one that was there alone when the other
    /// one was lost still shows everything.
    async fn swap_aliases(
        &self,
        generation: &Generation,
        shown: Option<&BTreeSet<ResourceName>>,
        earlier: &[&Generation],
        found: &[Found],
    ) -> Result<(), StoreError> {
        let Generation { cluster, index, .. } = generation;
        // What is not refreshed yet would be missing from the answers.
        self.refresh_index(index).await?;
        let current = found.iter().find(|found| found.index == *index);
        let add = |alias: &IndexName| {
            let before = Part::of(current.and_then(|current| current.aliases.get(alias.as_str())));
            let mut action = json!({ "add": { "index": index, "alias": alias } });
            if let Part::Only(shown) = shown
                .map_or(Part::All, |shown| Part::Only(shown.clone()))
                .or(before)
            {
                action["add"]["filter"] = filter(&shown);
            }
            action
        };
        let mut actions: Vec<Value> = self.read_aliases(cluster).iter().map(add).collect();
        actions.extend(
            earlier
                .iter()
                .map(|other| json!({ "remove_index": { "index": other.index } })),
        );
        self.change_aliases("making a generation the live one", &actions)
            .await?;
        match shown {
            None => {
                tracing::info!(%cluster, %index, removed = earlier.len(), "queries are answered from this generation");
            }
            Some(shown) => {
                tracing::info!(%cluster, %index, resources = shown.len(), "queries of the resources that are complete are answered from this generation");
            }
        }
        Ok(())
    }

    async fn change_aliases(&self, operation: &str, actions: &[Value]) -> Result<(), StoreError> {
        let body = json!({ "actions": actions });
        self.send(operation, Method::POST, "/_aliases".to_owned(), Some(&body))
            .await
            .map(drop)
    }

    /// Deletes the index of checkpoints, by its exact name, unless some index may be under the prefix. The templates stay: a request that arrives late
    /// must not take them from a registry that names the place again.
    pub(super) async fn remove_rest(&self) -> Result<(), StoreError> {
        let prefix = &self.options.prefix;
        let may_be_under =
            |found: &Found| found.identity.is_none() || found.is_generation_under(prefix);
        if self
            .survey(prefix.every_generation().as_str())
            .await?
            .iter()
            .any(may_be_under)
        {
            return Ok(());
        }
        let path = format!("/{}?ignore_unavailable=true", prefix.state());
        match self
            .send(
                "deleting the index of checkpoints",
                Method::DELETE,
                path,
                None,
            )
            .await
        {
            // It is gone already.
            Ok(_) | Err(StoreError::Refused { status: 404, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes every generation of a cluster, by its exact name.
    pub(super) async fn delete_generations(&self, cluster: &ClusterName) -> Result<(), StoreError> {
        for generation in self
            .own_generations()
            .await?
            .iter()
            .filter(|generation| generation.cluster == *cluster)
        {
            self.delete_generation(generation).await?;
        }
        Ok(())
    }

    /// Deletes one generation. Those who watch are told what goes with it, if queries are answered from it.
    pub(super) async fn delete_generation(
        &self,
        generation: &Generation,
    ) -> Result<(), StoreError> {
        let cluster = &generation.cluster;
        if !generation.is_read() && !self.feed.is_live(generation) {
            return self.delete_index(generation).await;
        }
        let Some(mut swap) = self.feed.begin_swap(cluster, None, None) else {
            self.delete_index(generation).await?;
            self.feed.end_untold(cluster, None, None);
            return Ok(());
        };
        swap.settled().await;
        // An index that is gone already has nothing to tell from.
        match self.refresh_index(&generation.index).await {
            Ok(()) => {
                let seen = |resource: &ResourceName| {
                    (
                        Some(&generation.index).filter(|_| generation.shows(resource)),
                        None,
                    )
                };
                self.tell_difference(&mut swap, seen).await;
            }
            Err(_) => swap.give_up(),
        }
        self.delete_index(generation).await?;
        swap.finish();
        Ok(())
    }

    async fn delete_index(&self, generation: &Generation) -> Result<(), StoreError> {
        let path = format!("/{}?ignore_unavailable=true", generation.index);
        self.send("deleting an index", Method::DELETE, path, None)
            .await?;
        tracing::info!(cluster = %generation.cluster, index = %generation.index, "deleted an index");
        Ok(())
    }
}
