//! `fleetdex get`: objects of the whole fleet, asked of a running server and shown as kubectl shows them.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
};

use jiff::Timestamp;
use serde_json::value::RawValue;

mod format;
mod identity;
mod list;
mod order;
mod printer;
pub(crate) mod resolve;
pub(super) mod targets;
#[cfg(test)]
mod tests;

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
    api::{Api, Place},
    console::{self, CommandError, Console},
    json_path::Path,
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

    /// How to show it.
    #[command(flatten)]
    pub shown: ShownArgs,

    /// Whom to ask.
    #[command(flatten)]
    pub server: Place,
}

/// How objects are shown.
#[derive(Clone, Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of kubectl")]
pub struct ShownArgs {
    /// table, wide, json, yaml, name, jsonpath=TEMPLATE, jsonpath-file=FILE, custom-columns=HEADER:PATH,… or custom-columns-file=FILE
    #[arg(short, long, value_name = "FORMAT", default_value = "table", env = "FLEETDEX_OUTPUT")]
    pub output: Format,

    /// Sort by the field at this JSONPath, such as .metadata.creationTimestamp
    #[arg(long, value_name = "PATH", env = "FLEETDEX_SORT_BY")]
    pub sort_by: Option<Path>,

    /// Show all labels in the last column
    #[arg(long, env = "FLEETDEX_SHOW_LABELS")]
    pub show_labels: bool,

    /// Show these labels as columns (repeatable, or separated by commas)
    #[arg(short = 'L', long, value_name = "LABEL", value_delimiter = ',', env = "FLEETDEX_LABEL_COLUMNS")]
    pub label_columns: Vec<String>,

    /// Leave the line of titles out
    #[arg(long, env = "FLEETDEX_NO_HEADERS")]
    pub no_headers: bool,

    /// Exit with 0 and say nothing where a named object is not found
    #[arg(long, env = "FLEETDEX_IGNORE_NOT_FOUND")]
    pub ignore_not_found: bool,

    /// Objects to ask for at a time; 0: as many as the server gives
    #[arg(long, value_name = "N", default_value_t = PAGE, env = "FLEETDEX_CHUNK_SIZE")]
    pub chunk_size: usize,
}

/// Everything, unless a limit is given: pages keep memory bounded here.
fn unlimited(limit: clap::Arg) -> clap::Arg {
    limit
        .default_value("0")
        .hide_default_value(true)
        .value_parser(clap::value_parser!(usize))
        .help("At most this many objects; 0: all")
}

/// Asks, shows, and tells how it went: failure if the server refused or a name was not found.
pub async fn run(args: &Args) -> ExitCode {
    console::run(async |console: &mut Console<'_>| get(args, Timestamp::now(), console).await).await
}

/// Whether everything that was named was found.
async fn get(args: &Args, now: Timestamp, console: &mut Console<'_>) -> Result<bool, CommandError> {
    let api = Api::new(&args.server).await?;
    let held = api.held().await?;
    let targets = targets(&args.query.resource, &args.query.names, &held)?;
    let namespace = namespace(&args.query, &api)?;
    let mut printer = Printer::new(layout(args, &targets, namespace.as_deref(), now));
    let mut is_complete = true;
    let mut warned = BTreeSet::new();
    for target in &targets {
        printer.begin(&target.held);
        let mut fetch = Fetch { api: &api, args, target, namespace: namespace.as_deref(), warned: &mut warned };
        let found = fetch.show(&mut printer, console).await?;
        is_complete &= tell_missing(args, target, &found, console)?;
    }
    let nothing = printer.is_empty();
    if nothing && args.shown.ignore_not_found && targets.iter().any(|target| !target.names.is_empty()) {
        return Ok(true);
    }
    printer.finish(console.out)?;
    console.out.flush()?;
    if nothing && is_complete && args.shown.output.is_for_people() && !args.shown.ignore_not_found {
        let is_namespaced = targets.iter().any(|target| target.held.resource.namespaced);
        let place = namespace.filter(|_| is_namespaced).map(|name| format!(" in {name} namespace")).unwrap_or_default();
        writeln!(console.err, "No resources found{place}.")?;
    }
    Ok(is_complete)
}

fn layout(args: &Args, targets: &[Target], namespace: Option<&str>, now: Timestamp) -> Layout {
    let is_namespaced = targets.iter().any(|target| target.held.resource.namespaced);
    Layout {
        format: args.shown.output.clone(),
        with_namespace: is_namespaced && namespace.is_none(),
        with_kind: targets.len() > 1,
        with_headers: !args.shown.no_headers,
        with_labels: args.shown.show_labels,
        label_columns: args.shown.label_columns.clone(),
        is_single: is_single(args, targets, namespace),
        now,
    }
}

/// One name in one cluster, and in one namespace if it has any, is one object at most.
fn is_single(args: &Args, targets: &[Target], namespace: Option<&str>) -> bool {
    let [Target { held, names }] = targets else { return false };
    names.len() == 1 && args.query.clusters.len() == 1 && (namespace.is_some() || !held.resource.namespaced)
}

/// The namespace to look in, by kubectl's habit; nothing for all.
fn namespace(query: &QueryArgs, api: &Api) -> Result<Option<String>, CommandError> {
    if query.all_namespaces {
        return Ok(None);
    }
    let given = query.namespace()?.map(String::from);
    Ok(Some(given.unwrap_or_else(|| api.default_namespace().to_owned())))
}

fn tell_missing(args: &Args, target: &Target, found: &BTreeSet<String>, console: &mut Console<'_>) -> Result<bool, CommandError> {
    if args.shown.ignore_not_found {
        return Ok(true);
    }
    let absent: Vec<&String> = target.names.iter().filter(|name| !found.contains(*name)).collect();
    for name in &absent {
        writeln!(console.err, "Error from server (NotFound): {} {name:?} not found", target.held.qualified_plural())?;
    }
    Ok(absent.is_empty())
}

/// The parameters of a list, except those of paging.
pub(super) fn parameters(query: &QueryArgs, names: &[String]) -> Vec<(&'static str, String)> {
    let all = [
        ("labelSelector", query.selector.clone()),
        ("fieldSelector", query.field_selector.clone()),
        ("clusters", query.clusters.join(",")),
        ("names", names.join(",")),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// The pages of one resource.
struct Fetch<'f> {
    api: &'f Api,
    args: &'f Args,
    target: &'f Target,
    namespace: Option<&'f str>,
    warned: &'f mut BTreeSet<String>,
}

impl Fetch<'_> {
    /// Shows every page, and tells which names came along of those that were asked for.
    async fn show(&mut self, printer: &mut Printer, console: &mut Console<'_>) -> Result<BTreeSet<String>, CommandError> {
        let Target { held, names } = self.target;
        let path = path(held, self.namespace);
        let mut parameters: BTreeMap<&str, String> = parameters(&self.args.query, names).into_iter().collect();
        let mut left = Some(self.args.query.limit).filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let mut found = BTreeSet::new();
        let mut kept: Vec<(Key, Box<RawValue>)> = Vec::new();
        loop {
            let limit = left.min(Some(self.args.shown.chunk_size).filter(|size| *size > 0).unwrap_or(usize::MAX));
            if limit < usize::MAX {
                parameters.insert("limit", limit.to_string());
            }
            let pairs: Vec<(&str, String)> = parameters.iter().map(|(key, value)| (*key, value.clone())).collect();
            let page = self.api.list(&path, &pairs).await?;
            self.warn(page.warnings, console)?;
            left = left.saturating_sub(page.items.len());
            for object in page.items {
                if !names.is_empty() {
                    found.insert(Identity::of(&object)?.name);
                }
                match &self.args.shown.sort_by {
                    Some(path) => kept.push((Key::of(&object, path)?, object)),
                    None => printer.add(&object, console.out)?,
                }
            }
            printer.flush(console.out)?;
            let Some(token) = page.metadata.continue_.filter(|token| !token.is_empty() && left > 0) else { break };
            parameters.insert("continue", token);
        }
        kept.sort_by(|(left, _), (right, _)| left.compare(right));
        for (_, object) in kept {
            printer.add(&object, console.out)?;
        }
        printer.flush(console.out)?;
        Ok(found)
    }

    fn warn(&mut self, warnings: Vec<String>, console: &mut Console<'_>) -> Result<(), CommandError> {
        for warning in warnings {
            if self.warned.insert(warning.clone()) {
                console.warn(&warning)?;
            }
        }
        Ok(())
    }
}

/// The collection's path; without the namespace where the resource has none.
pub(super) fn path(held: &Held, namespace: Option<&str>) -> String {
    held.path(namespace.filter(|_| held.resource.namespaced))
}
