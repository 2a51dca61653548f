//! `fleetdex get`: objects of the whole fleet, asked of a running server and shown as kubectl shows them.

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
};

mod args;
mod error;
mod follow;
mod format;
mod identity;
mod list;
mod order;
mod printer;
pub mod resolve;
mod show;
pub(super) mod targets;
#[cfg(test)]
mod tests;

pub use args::{Args, BeyondArgs, ShownArgs};
pub use error::OutputError;
pub use format::{CustomColumn, Format, FormatError};
pub use identity::Identity;

use self::{
    printer::{Layout, Printer},
    show::{shape, show},
    targets::{Target, targets},
};
use super::{
    api::Api,
    console::{self, CommandError, Console},
    pages::{Pages, Warnings, namespace, tell_missing},
};

/// Asks, shows, and tells how it went: failure if the server refused or a name was not found.
pub async fn run(args: &Args) -> ExitCode {
    console::run(async |console: &mut Console<'_>| get(args, console).await).await
}

/// Whether everything that was named was found.
async fn get(args: &Args, console: &mut Console<'_>) -> Result<bool, CommandError> {
    let api = Api::new(&args.server).await?;
    let held = api.held().await?;
    let beyond = args.beyond.parameters(&held)?;
    let targets = targets(&args.query.resource, &args.query.names, &held)?;
    let namespace = namespace(&args.query, &api)?;
    let mut printer = Printer::new(layout(args, &targets, namespace.as_deref()));
    if args.shown.follows() {
        if !beyond.is_empty() {
            return Err(CommandError::Usage(
                "--owner and --order-by cannot be watched".to_owned(),
            ));
        }
        let [target] = targets.as_slice() else {
            return Err(CommandError::Usage(
                "one resource can be watched at a time".to_owned(),
            ));
        };
        if args.shown.sort_by.is_some() {
            console.warn(
                "changes are shown as they come: --sort-by is about what there is at the beginning",
            )?;
        }
        printer.begin(&target.held);
        return follow::follow(
            &api,
            args,
            target,
            namespace.as_deref(),
            &mut printer,
            console,
        )
        .await;
    }
    let mut is_complete = true;
    let mut warnings = Warnings::default();
    for target in &targets {
        printer.begin(&target.held);
        let pages = Pages::new(&api, &args.query, target, namespace.as_deref(), shape(args))
            .in_chunks(args.shown.chunk_size)
            .with(&beyond);
        let shown = show(pages, args, target, &mut printer, &mut warnings, console).await?;
        is_complete &= args.shown.ignore_not_found || tell_missing(target, &shown.found, console)?;
    }
    let nothing = printer.is_empty();
    if nothing
        && args.shown.ignore_not_found
        && targets.iter().any(|target| !target.names.is_empty())
    {
        return Ok(true);
    }
    printer.finish(console.out)?;
    console.out.flush()?;
    if nothing && is_complete && args.shown.output.is_for_people() && !args.shown.ignore_not_found {
        let is_namespaced = targets.iter().any(|target| target.held.resource.namespaced);
        let place = namespace
            .filter(|_| is_namespaced)
            .map(|name| format!(" in {name} namespace"))
            .unwrap_or_default();
        writeln!(console.err, "No resources found{place}.")?;
    }
    Ok(is_complete)
}

fn layout(args: &Args, targets: &[Target], namespace: Option<&str>) -> Layout {
    Layout {
        format: args.shown.output.clone(),
        with_namespace: namespace.is_none(),
        with_kind: targets.len() > 1,
        with_headers: !args.shown.no_headers,
        with_labels: args.shown.show_labels,
        label_columns: args.shown.label_columns.clone(),
        is_bare: args.shown.follows() || is_single(args, targets, namespace),
        with_events: args.shown.follows() && args.shown.output_watch_events,
        is_for_terminal: io::stdout().is_terminal(),
    }
}

/// One name in one cluster, and in one namespace if it has any, is one object at most.
fn is_single(args: &Args, targets: &[Target], namespace: Option<&str>) -> bool {
    let [Target { held, names }] = targets else {
        return false;
    };
    names.len() == 1
        && args.query.clusters.len() == 1
        && (namespace.is_some() || !held.resource.namespaced)
}
