//! Prints the pages of one resource.

use fleetdex_query_api::answer::TableColumn;
use std::collections::BTreeSet;

use crate::{
    console::{CommandError, Console, Warnings},
    output::{ObjectName, Printer},
    pages::Pages,
    targets::ResourceTarget,
};

/// What a list returned beside its objects.
#[derive(Default)]
pub(super) struct PrintedList {
    /// The requested names that exist.
    pub(super) found: BTreeSet<String>,
    /// The resource version at which a watch continues.
    pub(super) version: String,
    pub(super) columns: Vec<TableColumn>,
}

/// Prints every page of one resource.
pub(super) async fn print_list(
    mut pages: Pages<'_>,
    target: &ResourceTarget,
    printer: &mut Printer,
    warnings: &mut Warnings,
    console: &mut Console<'_>,
) -> Result<PrintedList, CommandError> {
    let mut list = PrintedList::default();
    while let Some(page) = pages.next(warnings, console).await? {
        list.columns = page.columns;
        if list.version.is_empty() {
            list.version = page.metadata.resource_version;
        }
        if !target.names.is_empty() {
            for item in &page.items {
                list.found.insert(ObjectName::of(&item.object)?.name);
            }
        }
        printer.add_all(&page.items, &list.columns, console.out)?;
    }
    Ok(list)
}
