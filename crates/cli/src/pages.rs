//! A list, page by page.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    QueryArgs,
    api::{Api, Item, Page, Shape},
    console::{CommandError, Console},
    get::{resolve::Held, targets::Target},
};

/// The pages of one resource that are left.
pub(super) struct Pages<'p> {
    api: &'p Api,
    path: String,
    parameters: BTreeMap<&'static str, String>,
    shape: Shape,
    left: usize,
    chunk: usize,
    is_over: bool,
}

impl<'p> Pages<'p> {
    /// All that the arguments ask for of one resource; nothing is asked yet.
    pub(super) fn new(
        api: &'p Api,
        query: &QueryArgs,
        target: &Target,
        namespace: Option<&str>,
        shape: Shape,
    ) -> Self {
        let parameters = parameters(query, &target.names).into_iter().collect();
        let left = Some(query.limit)
            .filter(|limit| *limit > 0)
            .unwrap_or(usize::MAX);
        Self {
            api,
            path: path(&target.held, namespace),
            parameters,
            shape,
            left,
            chunk: usize::MAX,
            is_over: false,
        }
    }

    /// The same, so many objects at a time; with 0 as many as the server gives.
    pub(super) fn in_chunks(self, size: usize) -> Self {
        Self {
            chunk: Some(size).filter(|size| *size > 0).unwrap_or(usize::MAX),
            ..self
        }
    }

    /// The same with further parameters.
    pub(super) fn with(mut self, parameters: &[(&'static str, String)]) -> Self {
        self.parameters.extend(parameters.iter().cloned());
        self
    }

    /// The next page; nothing after the last one.
    pub(super) async fn next(
        &mut self,
        warnings: &mut Warnings,
        console: &mut Console<'_>,
    ) -> Result<Option<Page>, CommandError> {
        if self.is_over {
            return Ok(None);
        }
        let limit = self.left.min(self.chunk);
        if limit < usize::MAX {
            self.parameters.insert("limit", limit.to_string());
        }
        let mut page = self
            .api
            .list(&self.path, &self.parameters, self.shape)
            .await?;
        warnings.tell(std::mem::take(&mut page.warnings), console)?;
        self.left = self.left.saturating_sub(page.items.len());
        match page.next.take().filter(|_| self.left > 0) {
            Some(token) => {
                self.parameters.insert("continue", token);
            }
            None => self.is_over = true,
        }
        Ok(Some(page))
    }

    /// Everything that is left.
    pub(super) async fn all(
        mut self,
        warnings: &mut Warnings,
        console: &mut Console<'_>,
    ) -> Result<Vec<Item>, CommandError> {
        let mut items = Vec::new();
        while let Some(page) = self.next(warnings, console).await? {
            items.extend(page.items);
        }
        Ok(items)
    }
}

/// What was warned of: each text is told once.
#[derive(Debug, Default)]
pub(super) struct Warnings(BTreeSet<String>);

impl Warnings {
    /// Tells what is new of it.
    pub(super) fn tell(
        &mut self,
        texts: Vec<String>,
        console: &mut Console<'_>,
    ) -> Result<(), CommandError> {
        for text in texts {
            if self.0.insert(text.clone()) {
                console.warn(&text)?;
            }
        }
        Ok(())
    }
}

/// The parameters of a list, except those of paging.
pub(super) fn parameters(query: &QueryArgs, names: &[String]) -> Vec<(&'static str, String)> {
    let all = [
        ("labelSelector", query.selector.clone()),
        ("fieldSelector", query.field_selector.clone()),
        ("clusters", query.clusters.join(",")),
        ("names", names.join(",")),
    ];
    all.into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

/// The collection's path; without the namespace where the resource has none.
pub(super) fn path(held: &Held, namespace: Option<&str>) -> String {
    held.path(namespace.filter(|_| held.resource.namespaced))
}

/// The namespace to look in, by kubectl's habit; nothing for all.
pub(super) fn namespace(query: &QueryArgs, api: &Api) -> Result<Option<String>, CommandError> {
    if query.all_namespaces {
        return Ok(None);
    }
    let given = query.namespace()?.map(String::from);
    Ok(Some(
        given.unwrap_or_else(|| api.default_namespace().to_owned()),
    ))
}

/// Tells which names were not found, as kubectl does. Whether none is missing.
pub(super) fn tell_missing(
    target: &Target,
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
            target.held.qualified_plural()
        )?;
    }
    Ok(absent.is_empty())
}

/// Everything, unless a limit is given: pages keep memory bounded here.
pub(super) fn unlimited(limit: clap::Arg) -> clap::Arg {
    limit
        .default_value("0")
        .hide_default_value(true)
        .value_parser(clap::value_parser!(usize))
        .help("At most this many objects; 0: all")
}
