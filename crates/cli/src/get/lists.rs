//! Prints the pages of one resource.

use std::collections::BTreeSet;

use super::{fleet_name::FleetName, printer::Printer};
use crate::{
    api::TableColumn,
    console::{CommandError, Console},
    pages::{Pages, Warnings},
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
            list.version = page.version.unwrap_or_default();
        }
        for item in page.items {
            if !target.names.is_empty() {
                list.found.insert(FleetName::of(&item.object)?.name);
            }
            printer.add(&item, &list.columns, console.out)?;
        }
        printer.flush(console.out)?;
    }
    Ok(list)
}
