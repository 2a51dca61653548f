//! Requests for lists and watches.

use std::{collections::BTreeSet, num::NonZeroUsize};

use fleetdex_core::{
    model::{ClusterName, Namespace, StoreName},
    selector::{FieldSelector, LabelSelector},
};

use super::{
    parameters::{UNSUPPORTED, WITHOUT_EFFECT},
    resource_path::ResourcePath,
    store_kind::StoreKind,
    values::{comma_separated, limit, parsed},
};
use crate::{
    clusterpedia,
    error::QuestionError,
    parameter::{FIELD_SELECTOR, LABEL_SELECTOR},
    search_options::SearchOptions,
    uri::QueryParameter,
    watch_options::WatchOptions,
};

/// A list or watch of objects of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// The resource.
    pub resource: ResourcePath,
    /// The cluster that the path names; it must exist.
    pub path_cluster: Option<ClusterName>,
    /// Only these clusters; empty: all. Includes the path's.
    pub clusters: Vec<ClusterName>,
    /// Only these namespaces; empty: all. Includes the path's.
    pub namespaces: Vec<Namespace>,
    /// Only these names; empty: all. Includes the path's.
    pub names: Vec<String>,
    /// Label selector.
    pub labels: LabelSelector,
    /// Field selector.
    pub fields: FieldSelector,
    /// Objects in one page at most; `None`: the whole list.
    pub limit: Option<NonZeroUsize>,
    /// The continue token.
    pub continue_token: Option<String>,
    /// The store to query, where several hold the resource.
    pub store: Option<StoreName>,
    /// The kind of store that the path names.
    pub store_kind: Option<StoreKind>,
    /// Parameters that Kubernetes does not have.
    pub options: SearchOptions,
    /// Where a list or watch starts, and how a watch runs.
    pub watch_options: WatchOptions,
    /// Whether objects have the fleet's resource version in place of their member's: below
    /// `proxying/`.
    pub rewrites_version: bool,
    /// The text of the search over all kinds that it is a part of.
    pub search: Option<String>,
    /// Whether it is a part of a search of several kinds. Its version and namespaces were not
    /// chosen for this kind, so there are no warnings about them.
    pub is_across_kinds: bool,
    /// Unknown parameters.
    pub ignored: Vec<String>,
}

impl ListRequest {
    pub(super) fn of(
        path: &str,
        segments: &[&str],
        path_cluster: Option<ClusterName>,
    ) -> Result<Self, QuestionError> {
        let resource = ResourcePath::parse(path, segments)?;
        Ok(Self {
            clusters: path_cluster.iter().cloned().collect(),
            namespaces: resource.namespace.iter().cloned().collect(),
            names: resource.name.iter().cloned().collect(),
            path_cluster,
            resource,
            ..Self::default()
        })
    }

    /// The part of the request that decides which stores answer: neither names nor selectors.
    #[must_use]
    pub fn of_stores(&self) -> Self {
        Self {
            resource: self.resource.clone(),
            path_cluster: self.path_cluster.clone(),
            clusters: self.clusters.clone(),
            namespaces: self.namespaces.clone(),
            store: self.store.clone(),
            store_kind: self.store_kind,
            ..Self::default()
        }
    }

    pub(super) fn from(self, engine: StoreKind) -> Self {
        Self {
            store_kind: Some(engine),
            ..self
        }
    }

    pub(super) fn with(mut self, parameters: &[QueryParameter<'_>]) -> Result<Self, QuestionError> {
        for QueryParameter { key, value, .. } in parameters {
            self.set(key, value)?;
        }
        self.read_labels(parameters)?;
        retain_first(&mut self.clusters);
        retain_first(&mut self.namespaces);
        retain_first(&mut self.names);
        self.options.check().map_err(QuestionError::invalid)?;
        self.watch_options.check(self.continue_token.is_some())?;
        self.check_watch()?;
        Ok(self)
    }

    /// Applies the search labels of the label selector; parameters of the URL win.
    pub(super) fn read_labels(
        &mut self,
        parameters: &[QueryParameter<'_>],
    ) -> Result<(), QuestionError> {
        let (labels, search_labels) = clusterpedia::take(std::mem::take(&mut self.labels))
            .map_err(|problem| QuestionError::parameter(LABEL_SELECTOR, problem))?;
        self.labels = labels;
        for (parameter, value) in search_labels {
            let is_given = parameters
                .iter()
                .any(|given| given.key == parameter && !given.value.is_empty());
            if !is_given {
                self.set(parameter, &value)?;
            }
        }
        Ok(())
    }

    /// Refuses parameters that a watch does not support.
    fn check_watch(&self) -> Result<(), QuestionError> {
        let SearchOptions {
            order_by,
            owner,
            explain,
            ..
        } = &self.options;
        if !self.watch_options.watch {
            return Ok(());
        }
        QuestionError::first_of([
            (
                !owner.names.is_empty(),
                "parameter ownerName: owners are looked up once, so a watch cannot follow them",
            ),
            (
                !owner.uids.is_empty(),
                "parameter ownerUID: owners are looked up once, so a watch cannot follow them",
            ),
            (
                !order_by.is_empty(),
                "parameter orderBy: a watch sends changes in the order in which they happen",
            ),
            (
                *explain,
                "parameter explain: only lists and counts are explained",
            ),
        ])
    }

    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), QuestionError> {
        let refused = |problem: String| QuestionError::parameter(key, problem);
        if self.watch_options.set(key, value).map_err(refused)? {
            return Ok(());
        }
        match key {
            LABEL_SELECTOR => {
                self.labels = value
                    .parse()
                    .map_err(|error| refused(format!("{value:?}: {error}")))?;
            }
            FIELD_SELECTOR => {
                self.fields = value
                    .parse()
                    .map_err(|error| refused(format!("{value:?}: {error}")))?;
            }
            "limit" => self.limit = limit(value).map_err(refused)?,
            "continue" => {
                self.continue_token = Some(value.to_owned()).filter(|token| !token.is_empty());
            }
            "clusters" => comma_separated(value, &mut self.clusters).map_err(refused)?,
            "namespaces" => comma_separated(value, &mut self.namespaces).map_err(refused)?,
            "names" => comma_separated(value, &mut self.names).map_err(refused)?,
            "store" if value.is_empty() => {}
            "store" => self.store = Some(parsed(key, value)?),
            known if WITHOUT_EFFECT.contains(&known) => {}
            unsupported if UNSUPPORTED.contains(&unsupported) => {
                if !value.is_empty() {
                    return Err(QuestionError::not_yet(&format!("parameter {unsupported}")));
                }
            }
            other => {
                if !self.options.set(other, value).map_err(refused)? {
                    self.ignored.push(other.to_owned());
                }
            }
        }
        Ok(())
    }
}

/// Keeps the first occurrence of each value.
fn retain_first<T: Ord + Clone>(values: &mut Vec<T>) {
    let mut found = BTreeSet::new();
    values.retain(|value| found.insert(value.clone()));
}
