//! Reads a list page by page.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_query_api::parameter::{FIELD_SELECTOR, LABEL_SELECTOR};

use super::{
    QueryArgs,
    api::{Api, ListShape, ObjectPage},
    console::{CommandError, Console, Warnings},
    resources::DiscoveredResource,
    targets::ResourceTarget,
};

/// The remaining pages of one resource.
pub(super) struct Pages<'p> {
    api: &'p Api,
    path: String,
    parameters: BTreeMap<&'static str, String>,
    shape: ListShape,
    remaining: usize,
    chunk: usize,
    is_done: bool,
}

impl<'p> Pages<'p> {
    /// Prepares the list that the arguments select; sends no request.
    pub(super) fn new(
        api: &'p Api,
        query: &QueryArgs,
        target: &ResourceTarget,
        namespace: Option<&str>,
        shape: ListShape,
    ) -> Self {
        let parameters = parameters(query, &target.names).into_iter().collect();
        let remaining = Some(query.limit)
            .filter(|limit| *limit > 0)
            .unwrap_or(usize::MAX);
        Self {
            api,
            path: path(&target.resource, namespace),
            parameters,
            shape,
            remaining,
            chunk: usize::MAX,
            is_done: false,
        }
    }

    /// Limits one request to `size` objects; 0 means as many as the server returns.
    pub(super) fn in_chunks(self, size: usize) -> Self {
        Self {
            chunk: Some(size).filter(|size| *size > 0).unwrap_or(usize::MAX),
            ..self
        }
    }

    /// Adds query parameters.
    pub(super) fn with(mut self, parameters: &[(&'static str, String)]) -> Self {
        self.parameters.extend(parameters.iter().cloned());
        self
    }

    /// Returns the next page, or `None` after the last one.
    pub(super) async fn next(
        &mut self,
        warnings: &mut Warnings,
        console: &mut Console<'_>,
    ) -> Result<Option<ObjectPage>, CommandError> {
        if self.is_done {
            return Ok(None);
        }
        let limit = self.remaining.min(self.chunk);
        if limit < usize::MAX {
            self.parameters.insert("limit", limit.to_string());
        }
        let mut page = self
            .api
            .list(&self.path, &self.parameters, self.shape)
            .await?;
        warnings.print(std::mem::take(&mut page.warnings), console)?;
        self.remaining = self.remaining.saturating_sub(page.items.len());
        match page.take_next().filter(|_| self.remaining > 0) {
            Some(token) => {
                self.parameters.insert("continue", token);
            }
            None => self.is_done = true,
        }
        Ok(Some(page))
    }
}

/// Returns the query parameters of a list, without those of paging.
pub(super) fn parameters(query: &QueryArgs, names: &[String]) -> Vec<(&'static str, String)> {
    let all = [
        (LABEL_SELECTOR, query.selector.clone()),
        (FIELD_SELECTOR, query.field_selector.clone()),
        ("clusters", query.clusters.join(",")),
        ("names", names.join(",")),
    ];
    all.into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

/// Returns the path of the collection, without a namespace for a cluster-scoped resource.
pub(super) fn path(resource: &DiscoveredResource, namespace: Option<&str>) -> String {
    resource.path(namespace.filter(|_| resource.api.namespaced))
}

/// Returns the namespace to list as kubectl chooses it: `-n`, or that of the context; `None` for
/// all.
pub(super) fn namespace(query: &QueryArgs, api: &Api) -> Result<Option<String>, CommandError> {
    if query.all_namespaces {
        return Ok(None);
    }
    let named = query.namespace()?.map(String::from);
    Ok(Some(
        named.unwrap_or_else(|| api.default_namespace().to_owned()),
    ))
}

/// Prints the names that do not exist, as kubectl does; returns whether all exist.
pub(super) fn print_missing(
    target: &ResourceTarget,
    found: &BTreeSet<String>,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let absent: Vec<&String> = target
        .names
        .iter()
        .filter(|name| !found.contains(*name))
        .collect();
    for name in &absent {
        writeln!(
            console.err,
            "Error from server (NotFound): {} {name:?} not found",
            target.resource.qualified_plural()
        )?;
    }
    Ok(absent.is_empty())
}

/// Makes `--limit` unlimited by default: paging bounds the memory.
pub(super) fn unlimited(limit: clap::Arg) -> clap::Arg {
    limit
        .default_value("0")
        .hide_default_value(true)
        .value_parser(clap::value_parser!(usize))
        .help("Maximum number of objects; 0: all")
}
