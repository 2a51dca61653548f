//! `search --watch`: prints what is found, and then every change until stopped.
//!
//! The watch begins before the objects are read, so that no change between the two is missed. The
//! server ends a watch within a minute; the next one continues at the last resource version.

use super::{
    args::SearchArgs,
    pages::{FoundPages, print_pages},
};
use crate::{
    api::{Api, ListShape, TableEvent, WatchReader},
    console::{CommandError, Console, Warnings},
    output::Printer,
};
use fleetdex_query_api::answer::TableColumn;

/// Prints the objects of a search and their changes; returns with an error only.
pub(super) async fn watch(
    api: &Api,
    args: &SearchArgs,
    query: &str,
    printer: &mut Printer,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let mut warnings = Warnings::default();
    loop {
        let mut watcher = SearchWatcher {
            api,
            query,
            shape: args.output.format.shape(),
            version: None,
            columns: Vec::new(),
        };
        if let Some(opened) = watcher.open(&mut warnings, console).await? {
            let pages = FoundPages::new(api, args, query).showing(&opened.version);
            if print_found(pages, printer, &mut warnings, console).await? {
                watcher
                    .follow(opened.reader, printer, &mut warnings, console)
                    .await?;
            }
        }
        console
            .warn("the resource version has expired, changes may be missing; searching again")?;
    }
}

/// Prints the objects; `false` if the server does not know the version that they have to show.
async fn print_found(
    pages: FoundPages<'_>,
    printer: &mut Printer,
    warnings: &mut Warnings,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    match print_pages(pages, printer, warnings, console).await {
        Err(CommandError::Api(error)) if error.is_expired() => Ok(false),
        Err(error) => Err(error),
        Ok(progress) => {
            if let Some(note) = progress.cut_note() {
                writeln!(console.err, "{note}")?;
            }
            Ok(true)
        }
    }
}

/// A watch that has begun.
struct OpenedWatch {
    reader: WatchReader,
    /// The version from which it shows changes.
    version: String,
}

struct SearchWatcher<'w> {
    api: &'w Api,
    query: &'w str,
    shape: ListShape,
    version: Option<String>,
    columns: Vec<TableColumn>,
}

impl SearchWatcher<'_> {
    /// Begins a watch, at the last version if there is one; `None` if that has expired.
    async fn open(
        &mut self,
        warnings: &mut Warnings,
        console: &mut Console<'_>,
    ) -> Result<Option<OpenedWatch>, CommandError> {
        let mut parameters = vec![("q", self.query.to_owned())];
        if let Some(version) = &self.version {
            parameters.push(("resourceVersion", version.clone()));
        }
        let mut reader = self.api.watch_search(&parameters, self.shape).await?;
        warnings.print(std::mem::take(&mut reader.warnings), console)?;
        let Some(TableEvent::Bookmark(Some(version))) = reader.next().await? else {
            return Ok(None);
        };
        self.version = Some(version.clone());
        Ok(Some(OpenedWatch { reader, version }))
    }

    /// Prints changes until the version expires.
    async fn follow(
        &mut self,
        mut reader: WatchReader,
        printer: &mut Printer,
        warnings: &mut Warnings,
        console: &mut Console<'_>,
    ) -> Result<(), CommandError> {
        loop {
            let (version, columns) = (&mut self.version, &mut self.columns);
            let follow = printer.follow(&mut reader, version, columns, console.out);
            if follow.await? {
                return Ok(());
            }
            match self.open(warnings, console).await? {
                Some(opened) => reader = opened.reader,
                None => return Ok(()),
            }
        }
    }
}
