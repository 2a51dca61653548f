//! `search --watch`: prints what is found, and then every change until stopped.

use super::{args::SearchArgs, output::FoundPrinter, pages::print_pages};
use crate::{
    api::{Api, ClientError, TableColumn, TableEvent},
    console::{CommandError, Console},
    pages::Warnings,
};

/// HTTP status of an expired resource version.
const GONE: i32 = 410;

/// Prints what is found and its changes; returns with an error only.
pub(super) async fn watch(
    api: &Api,
    args: &SearchArgs,
    query: &str,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let mut printer = FoundPrinter::new(args);
    let mut warnings = Warnings::default();
    loop {
        let (progress, columns) =
            print_pages(api, args, query, &mut printer, &mut warnings, console).await?;
        let mut watcher = SearchWatcher {
            api,
            args,
            query,
            version: progress.version,
            columns,
        };
        while watcher.watch(&mut printer, console).await? {}
        console
            .warn("the resource version has expired, changes may be missing; searching again")?;
    }
}

struct SearchWatcher<'w> {
    api: &'w Api,
    args: &'w SearchArgs,
    query: &'w str,
    version: String,
    columns: Vec<TableColumn>,
}

impl SearchWatcher<'_> {
    /// Prints changes until the server ends the watch; returns whether another one can continue.
    async fn watch(
        &mut self,
        printer: &mut FoundPrinter,
        console: &mut Console<'_>,
    ) -> Result<bool, CommandError> {
        let parameters = [
            ("q", self.query.to_owned()),
            ("resourceVersion", self.version.clone()),
        ];
        let shape = self.args.output.output.shape();
        let mut events = match self.api.watch_search(&parameters, shape).await {
            Err(ClientError::Refused { status, .. }) if status.code == Some(GONE) => {
                return Ok(false);
            }
            started => started?,
        };
        while let Some(event) = events.next().await? {
            match event {
                TableEvent::Expired => return Ok(false),
                TableEvent::Bookmark(version) => self.advance(version),
                TableEvent::Object {
                    item,
                    columns,
                    version,
                } => {
                    self.advance(version);
                    if !columns.is_empty() {
                        self.columns = columns;
                    }
                    printer.add(&[item], &self.columns, console)?;
                }
            }
        }
        Ok(true)
    }

    fn advance(&mut self, version: Option<String>) {
        if let Some(version) = version.filter(|version| !version.is_empty()) {
            self.version = version;
        }
    }
}
