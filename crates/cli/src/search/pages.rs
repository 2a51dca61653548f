//! Reads and prints the pages of a search.

use super::args::SearchArgs;
use crate::{
    api::{Api, ListShape, ObjectPage},
    console::{CommandError, Console, Warnings},
    output::Printer,
};
use fleetdex_query_api::answer::FacetCounts;

/// The most objects in one response.
const MAX_PAGE: usize = 500;
/// The properties by which objects are counted.
const FACETS: &str = "kind,cluster,namespace,health";

/// Prints the pages that are wanted; returns what they have beside objects.
pub(super) async fn print_pages(
    mut pages: FoundPages<'_>,
    printer: &mut Printer,
    warnings: &mut Warnings,
    console: &mut Console<'_>,
) -> Result<SearchProgress, CommandError> {
    while let Some(found) = pages.next(warnings, console).await? {
        printer.add_all(&found.items, &found.columns, console.out)?;
    }
    Ok(pages.progress)
}

/// The remaining pages of a search.
pub(super) struct FoundPages<'p> {
    api: &'p Api,
    query: &'p str,
    shape: ListShape,
    /// How many objects are still wanted.
    wanted: usize,
    with_facets: bool,
    /// The resource version that the first page has to show.
    version: Option<&'p str>,
    progress: SearchProgress,
}

/// What the pages so far have shown beside their objects.
#[derive(Default)]
pub(super) struct SearchProgress {
    /// The continue token of the next page.
    next: Option<String>,
    has_begun: bool,
    /// The counts, from the first page.
    pub(super) facets: Vec<FacetCounts>,
    /// How many objects follow the last page, if that is known.
    remaining: Option<u64>,
}

impl<'p> FoundPages<'p> {
    pub(super) fn new(api: &'p Api, args: &SearchArgs, query: &'p str) -> Self {
        Self {
            api,
            query,
            shape: args.output.format.shape(),
            wanted: if args.all { usize::MAX } else { args.limit },
            with_facets: args.facets,
            version: None,
            progress: SearchProgress::default(),
        }
    }

    /// The same, showing at least this resource version.
    pub(super) fn showing(self, version: &'p str) -> Self {
        Self {
            version: Some(version),
            ..self
        }
    }

    /// Returns the next page, or `None` after the last one that is wanted.
    async fn next(
        &mut self,
        warnings: &mut Warnings,
        console: &mut Console<'_>,
    ) -> Result<Option<ObjectPage>, CommandError> {
        let is_done = self.progress.has_begun && self.progress.next.is_none();
        if is_done || self.wanted == 0 {
            return Ok(None);
        }
        let mut found = self.api.search(&self.parameters(), self.shape).await?;
        warnings.print(std::mem::take(&mut found.warnings), console)?;
        self.wanted = self.wanted.saturating_sub(found.items.len());
        let progress = &mut self.progress;
        progress.next = found.take_next();
        progress.remaining = found.metadata.remaining_item_count;
        if !progress.has_begun {
            progress.has_begun = true;
            progress.facets = std::mem::take(&mut found.metadata.facets);
        }
        Ok(Some(found))
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut parameters = vec![
            ("q", self.query.to_owned()),
            ("limit", self.wanted.min(MAX_PAGE).to_string()),
        ];
        if let Some(token) = &self.progress.next {
            parameters.push(("continue", token.clone()));
            return parameters;
        }
        if self.with_facets {
            parameters.push(("facets", FACETS.to_owned()));
        }
        if let Some(version) = self.version {
            parameters.push(("resourceVersion", version.to_owned()));
        }
        parameters
    }
}

impl SearchProgress {
    /// Says how many objects were not shown; `None` if all were.
    pub(super) fn cut_note(&self) -> Option<String> {
        let is_cut = self.next.is_some() || self.remaining.is_some_and(|count| count > 0);
        let count = match self.remaining {
            Some(1) => "1 more object matches".to_owned(),
            Some(count) if count > 0 => format!("{count} more objects match"),
            _ => "More objects match".to_owned(),
        };
        is_cut.then(|| format!("{count}; raise --limit, use --all, or add terms to the query."))
    }
}
