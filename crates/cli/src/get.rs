//! `fleetdex get`: objects of the whole fleet, asked of a running server and shown as kubectl shows them.

use std::{
    collections::BTreeSet,
    io::{self, IsTerminal as _},
    process::ExitCode,
};

mod follow;
mod format;
mod identity;
mod list;
mod order;
mod printer;
pub mod resolve;
pub(super) mod targets;
#[cfg(test)]
mod tests;

use fleetdex_core::json_path::Path;
pub use format::{CustomColumn, Format, FormatError};
pub use identity::Identity;
pub use printer::OutputError;

use self::{
    order::Key,
    printer::{Layout, Printer},
    resolve::Held,
    targets::{Target, targets},
};
use super::{
    QueryArgs,
    api::{Api, Item, Place, Shape, TableColumn},
    console::{self, CommandError, Console},
    pages::{Pages, Warnings, namespace, tell_missing, unlimited},
};

/// Objects asked for at a time.
const PAGE: usize = 500;

/// Shows objects of the fleet.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_arg("limit", unlimited))]
pub struct Args {
    /// What to look for.
    #[command(flatten)]
    pub query: QueryArgs,

    /// What to look for beyond what kubectl knows.
    #[command(flatten)]
    pub beyond: BeyondArgs,

    /// How to show it.
    #[command(flatten)]
    pub shown: ShownArgs,

    /// Whom to ask.
    #[command(flatten)]
    pub server: Place,
}

/// What kubectl cannot ask an apiserver for.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct BeyondArgs {
    /// Only objects that this one owns, directly or through others, such as deployment/web; it is found by its name
    #[arg(long, value_name = "TYPE/NAME", env = "FLEETDEX_OWNER")]
    pub owner: Option<String>,

    /// Let the index order by these fields, such as 'spec.nodeName,metadata.creationTimestamp desc'
    #[arg(
        long,
        value_name = "FIELDS",
        env = "FLEETDEX_ORDER_BY",
        conflicts_with = "sort_by"
    )]
    pub order_by: Option<String>,
}

impl BeyondArgs {
    /// The parameters of a list.
    fn parameters(&self, held: &[Held]) -> Result<Vec<(&'static str, String)>, CommandError> {
        let mut parameters: Vec<(&str, String)> = self
            .order_by
            .iter()
            .map(|order| ("orderBy", order.clone()))
            .collect();
        if let Some(owner) = &self.owner {
            let owners = targets(owner, &[], held)?;
            let [Target { held, names }] = owners.as_slice() else {
                return Err(not_one_owner(owner));
            };
            let [name] = names.as_slice() else {
                return Err(not_one_owner(owner));
            };
            parameters.push(("ownerName", name.clone()));
            parameters.push(("ownerGR", held.qualified_plural()));
            parameters.push(("ownerSeniority", "any".to_owned()));
        }
        Ok(parameters)
    }
}

fn not_one_owner(owner: &str) -> CommandError {
    CommandError::Usage(format!(
        "--owner {owner:?}: expected TYPE/NAME, such as deployment/web"
    ))
}

/// How objects are shown.
#[derive(Clone, Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of kubectl")]
pub struct ShownArgs {
    /// table, wide, json, yaml, name, jsonpath=TEMPLATE, jsonpath-file=FILE, custom-columns=HEADER:PATH,… or custom-columns-file=FILE
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "table",
        env = "FLEETDEX_OUTPUT"
    )]
    pub output: Format,

    /// Sort by the field at this `JSONPath`, such as .metadata.creationTimestamp
    #[arg(long, value_name = "PATH", env = "FLEETDEX_SORT_BY")]
    pub sort_by: Option<Path>,

    /// Show all labels in the last column
    #[arg(long, env = "FLEETDEX_SHOW_LABELS")]
    pub show_labels: bool,

    /// Show these labels as columns (repeatable, or separated by commas)
    #[arg(
        short = 'L',
        long,
        value_name = "LABEL",
        value_delimiter = ',',
        env = "FLEETDEX_LABEL_COLUMNS"
    )]
    pub label_columns: Vec<String>,

    /// Leave the line of titles out
    #[arg(long, env = "FLEETDEX_NO_HEADERS")]
    pub no_headers: bool,

    /// Exit with 0 and say nothing where a named object is not found
    #[arg(long, env = "FLEETDEX_IGNORE_NOT_FOUND")]
    pub ignore_not_found: bool,

    /// Then show every change until stopped
    #[arg(short, long, env = "FLEETDEX_WATCH")]
    pub watch: bool,

    /// Show changes only, not what there is
    #[arg(long, env = "FLEETDEX_WATCH_ONLY")]
    pub watch_only: bool,

    /// Tell with --watch or --watch-only what happened: ADDED, MODIFIED or DELETED
    #[arg(long, env = "FLEETDEX_OUTPUT_WATCH_EVENTS")]
    pub output_watch_events: bool,

    /// Objects to ask for at a time; 0: as many as the server gives
    #[arg(long, value_name = "N", default_value_t = PAGE, env = "FLEETDEX_CHUNK_SIZE")]
    pub chunk_size: usize,
}

impl ShownArgs {
    fn follows(&self) -> bool {
        self.watch || self.watch_only
    }
}

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

/// Tables come from the server: it knows the columns of every kind.
fn shape(args: &Args) -> Shape {
    match (&args.shown.output, &args.shown.sort_by) {
        (Format::Table | Format::Wide, None) => Shape::Table,
        (Format::Table | Format::Wide, Some(_)) => Shape::TableWithObjects,
        _ => Shape::Objects,
    }
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

/// What a list told beside its objects.
#[derive(Default)]
struct Shown {
    /// The names that came along of those that were asked for.
    found: BTreeSet<String>,
    /// Where a watch can go on.
    version: String,
    columns: Vec<TableColumn>,
}

/// Shows every page of one resource.
async fn show(
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
