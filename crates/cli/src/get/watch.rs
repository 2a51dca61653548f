//! `get --watch`: prints the list, and then every change until stopped.
//!
//! The server ends a watch within a minute, because Kubernetes' aggregation layer would. The next
//! watch continues at the last resource version.

use fleetdex_query_api::answer::TableColumn;
use std::collections::BTreeMap;

use super::{args::GetArgs, lists::print_list};
use crate::{
    api::{Api, TableEvent},
    console::{CommandError, Console, Warnings},
    output::Printer,
    pages::{Pages, parameters, path},
    targets::ResourceTarget,
};

/// How a watch ended.
enum WatchEnd {
    /// The server closed it; another one can continue.
    Closed,
    /// The resource version has expired; changes may be missing.
    Expired,
}

/// Prints one resource and its changes; returns with an error only.
pub(super) async fn watch(
    api: &Api,
    args: &GetArgs,
    target: &ResourceTarget,
    namespace: Option<&str>,
    printer: &mut Printer,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let mut warnings = Warnings::default();
    loop {
        let shape = args.print.output.format.shape();
        let pages =
            Pages::new(api, &args.query, target, namespace, shape).in_chunks(args.print.chunk_size);
        let list = print_list(pages, target, printer, &mut warnings, console).await?;
        let mut watcher = Watcher {
            path: path(&target.resource, namespace),
            version: list.version,
            columns: list.columns,
        };
        while let WatchEnd::Closed = watcher.watch(api, args, target, printer, console).await? {}
        console.warn("the resource version has expired, changes may be missing; listing again")?;
    }
}

struct Watcher {
    path: String,
    version: String,
    columns: Vec<TableColumn>,
}

impl Watcher {
    /// Prints changes until the watch ends.
    async fn watch(
        &mut self,
        api: &Api,
        args: &GetArgs,
        target: &ResourceTarget,
        printer: &mut Printer,
        console: &mut Console<'_>,
    ) -> Result<WatchEnd, CommandError> {
        let mut parameters: BTreeMap<&'static str, String> =
            parameters(&args.query, &target.names).into_iter().collect();
        parameters.insert("resourceVersion", self.version.clone());
        let started = api
            .watch(&self.path, &parameters, args.print.output.format.shape())
            .await;
        let mut watch = match started {
            Err(error) if error.is_expired() => return Ok(WatchEnd::Expired),
            started => started?,
        };
        while let Some(event) = watch.next().await? {
            match event {
                TableEvent::Expired => return Ok(WatchEnd::Expired),
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
                    printer.add_all(&[item], &self.columns, console.out)?;
                }
            }
        }
        Ok(WatchEnd::Closed)
    }

    fn advance(&mut self, version: Option<String>) {
        if let Some(version) = version.filter(|version| !version.is_empty()) {
            self.version = version;
        }
    }
}
