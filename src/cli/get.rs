//! `fleetdex get`: objects of the whole fleet, asked of a running server and shown as kubectl shows them.

use std::{
    collections::BTreeSet,
    error::Error as _,
    fmt::Write as _,
    io::{self, Write},
    process::ExitCode,
};

use jiff::Timestamp;

mod output;
pub(crate) mod resolve;
#[cfg(test)]
mod tests;

pub use output::{Format, OutputError};

use self::{
    output::{Identity, Layout, Output},
    resolve::{Held, resolve},
};
use super::{
    ArgsError, QueryArgs, ServerFlags,
    api::{Api, ApiError},
};

/// Objects asked for at a time.
const PAGE: usize = 500;
/// Where kubectl looks unless told otherwise.
const DEFAULT_NAMESPACE: &str = "default";

/// Shows objects of the fleet.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_arg("limit", unlimited))]
pub struct Args {
    /// What to look for.
    #[command(flatten)]
    pub query: QueryArgs,

    /// How to show it
    #[arg(short, long, value_enum, default_value_t, env = "FLEETDEX_OUTPUT")]
    pub output: Format,

    /// Whom to ask.
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Everything, unless a limit is given: pages keep memory bounded here.
fn unlimited(limit: clap::Arg) -> clap::Arg {
    limit
        .default_value("0")
        .hide_default_value(true)
        .value_parser(clap::value_parser!(usize))
        .help("At most this many objects; 0: all")
}

/// Nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// The server cannot be asked, or refused.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The arguments make no query.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// The server's answer cannot be shown.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// As kubectl words it, and why that is so here.
    #[error("the server doesn't have a resource type {0:?}: no ResourceRegistry selects it")]
    UnknownResource(String),
    /// Standard error is closed.
    #[error("cannot write to standard error")]
    Stderr(#[from] io::Error),
}

/// Asks, shows, and tells how it went: failure if the server refused or a name was not found.
pub async fn run(args: &Args) -> ExitCode {
    let (mut out, mut err) = (io::stdout(), io::stderr());
    match get(args, Timestamp::now(), &mut out, &mut err).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever reads our output has seen enough, as `head` does.
        Err(GetError::Output(OutputError::Write(error))) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing more can be done where standard error is closed, too.
            let _told = writeln!(err, "{}", explanation(&error));
            ExitCode::FAILURE
        }
    }
}

/// A refusal as kubectl prints it, anything else with its causes.
fn explanation(error: &GetError) -> String {
    if let GetError::Api(ApiError::Refused(_)) = error {
        return error.to_string();
    }
    let mut text = format!("error: {error}");
    let mut cause = error.source();
    while let Some(source) = cause {
        let written = write!(text, ": {source}");
        debug_assert!(written.is_ok(), "writing to a String cannot fail");
        cause = source.source();
    }
    text
}

/// Whether everything that was named was found.
async fn get(args: &Args, now: Timestamp, out: &mut dyn Write, err: &mut dyn Write) -> Result<bool, GetError> {
    let (resource, names) = resource_and_names(&args.query);
    let api = Api::new(&args.server)?;
    let held = api.held().await?;
    let Some(wanted) = resolve(&resource, &held) else { return Err(GetError::UnknownResource(resource)) };
    let namespace = namespace(&args.query, wanted)?;
    let with_namespace = wanted.resource.namespaced && namespace.is_none();
    let mut output = Output::new(Layout { format: args.output, with_namespace, now }, wanted);
    let parameters = parameters(&args.query, &names);
    let found = fetch(&api, &wanted.path(namespace.as_deref()), parameters, args.query.limit, &mut output, err).await?;
    let nothing = output.is_empty();
    output.write(out)?;
    let absent: Vec<&String> = names.iter().filter(|name| !found.contains(*name)).collect();
    for name in &absent {
        writeln!(err, "Error from server (NotFound): {} {name:?} not found", wanted.qualified_plural())?;
    }
    if nothing && absent.is_empty() && matches!(args.output, Format::Table | Format::Wide | Format::Name) {
        let place = namespace.map(|name| format!(" in {name} namespace")).unwrap_or_default();
        writeln!(err, "No resources found{place}.")?;
    }
    Ok(absent.is_empty())
}

/// `pods a b` and `pod/a` are both fine.
fn resource_and_names(query: &QueryArgs) -> (String, Vec<String>) {
    let mut names = query.names.clone();
    match query.resource.split_once('/') {
        Some((resource, name)) => {
            names.insert(0, name.to_owned());
            (resource.to_owned(), names)
        }
        None => (query.resource.clone(), names),
    }
}

/// The namespace to look in, by kubectl's habit; nothing for all, and for resources that live in none.
fn namespace(query: &QueryArgs, wanted: &Held) -> Result<Option<String>, GetError> {
    if !wanted.resource.namespaced || query.all_namespaces {
        return Ok(None);
    }
    let given = query.namespace()?.map(String::from);
    Ok(Some(given.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())))
}

fn parameters(query: &QueryArgs, names: &[String]) -> Vec<(&'static str, String)> {
    let all = [
        ("labelSelector", query.selector.clone()),
        ("fieldSelector", query.field_selector.clone()),
        ("clusters", query.clusters.join(",")),
        ("names", names.join(",")),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// Pages through a list, and tells which names came along.
async fn fetch(
    api: &Api,
    path: &str,
    mut parameters: Vec<(&'static str, String)>,
    limit: usize,
    output: &mut Output,
    err: &mut dyn Write,
) -> Result<BTreeSet<String>, GetError> {
    let mut left = if limit == 0 { usize::MAX } else { limit };
    let mut names = BTreeSet::new();
    let mut warned = BTreeSet::new();
    loop {
        parameters.retain(|(key, _)| *key != "limit");
        parameters.push(("limit", left.min(PAGE).to_string()));
        let page = api.list(path, &parameters).await?;
        for warning in page.warnings {
            if warned.insert(warning.clone()) {
                writeln!(err, "Warning: {warning}")?;
            }
        }
        left = left.saturating_sub(page.items.len());
        for object in page.items {
            names.insert(Identity::of(&object)?.name);
            output.add(object)?;
        }
        let Some(token) = page.metadata.continue_.filter(|token| !token.is_empty() && left > 0) else {
            return Ok(names);
        };
        parameters.retain(|(key, _)| *key != "continue");
        parameters.push(("continue", token));
    }
}
