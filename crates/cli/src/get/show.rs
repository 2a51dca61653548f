//! Shows the pages of one resource.

use std::collections::BTreeSet;

use super::{Args, Format, Identity, order::Key, printer::Printer, targets::Target};
use crate::{
    api::{Item, Shape, TableColumn},
    console::{CommandError, Console},
    pages::{Pages, Warnings},
};

/// Tables come from the server: it knows the columns of every kind.
pub(super) fn shape(args: &Args) -> Shape {
    match (&args.shown.output, &args.shown.sort_by) {
        (Format::Table | Format::Wide, None) => Shape::Table,
        (Format::Table | Format::Wide, Some(_)) => Shape::TableWithObjects,
        _ => Shape::Objects,
    }
}

/// What a list told beside its objects.
#[derive(Default)]
pub(super) struct Shown {
    /// The names that came along of those that were asked for.
    pub(super) found: BTreeSet<String>,
    /// Where a watch can go on.
    pub(super) version: String,
    pub(super) columns: Vec<TableColumn>,
}

/// Shows every page of one resource.
pub(super) async fn show(
    mut pages: Pages<'_>,
    args: &Args,
    target: &Target,
    printer: &mut Printer,
    warnings: &mut Warnings,
    console: &mut Console<'_>,
) -> Result<Shown, CommandError> {
    let mut shown = Shown::default();
    let mut kept: Vec<(Key, Item)> = Vec::new();
    while let Some(page) = pages.next(warnings, console).await? {
        shown.columns = page.columns;
        if shown.version.is_empty() {
            shown.version = page.version.unwrap_or_default();
        }
        for item in page.items {
            if !target.names.is_empty() {
                shown.found.insert(Identity::of(&item.object)?.name);
            }
            match &args.shown.sort_by {
                Some(path) => kept.push((Key::of(&item.object, path)?, item)),
                None => printer.add(&item, &shown.columns, console.out)?,
            }
        }
        printer.flush(console.out)?;
    }
    kept.sort_by(|(left, _), (right, _)| left.compare(right));
    for (_, item) in kept {
        printer.add(&item, &shown.columns, console.out)?;
    }
    printer.flush(console.out)?;
    Ok(shown)
}
