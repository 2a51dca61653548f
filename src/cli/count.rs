//! `fleetdex count`: how many objects there are, in groups.

use std::{collections::BTreeSet, process::ExitCode};

use clap::ValueEnum;
use serde_json::{Value, json};

use super::{
    QueryArgs, aligned,
    api::{Api, Counts, Place},
    console::{self, CommandError, Console},
    get::{self, targets::targets},
    table::NONE,
};

/// Counts objects of the fleet.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_arg("limit", |limit| limit.hide(true)))]
pub struct Args {
    /// What to count; all namespaces unless one is given.
    #[command(flatten)]
    pub query: QueryArgs,

    /// Count by these: cluster, namespace, label:KEY, or a field that selectors know, such as status.phase (separated by commas)
    #[arg(long, value_name = "KEY", value_delimiter = ',', env = "FLEETDEX_BY")]
    pub by: Vec<String>,

    /// Show only the largest groups
    #[arg(long, value_name = "N", env = "FLEETDEX_TOP")]
    pub top: Option<usize>,

    /// How to show it
    #[arg(short, long, value_enum, default_value_t, env = "FLEETDEX_OUTPUT")]
    pub output: Format,

    /// Leave the line of titles out
    #[arg(long, env = "FLEETDEX_NO_HEADERS")]
    pub no_headers: bool,

    /// Whom to ask.
    #[command(flatten)]
    pub server: Place,
}

/// How counts are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One line per group.
    #[default]
    Table,
    /// All groups as JSON.
    Json,
    /// All groups as YAML.
    Yaml,
}

/// Asks, shows, and tells how it went.
pub async fn run(args: &Args) -> ExitCode {
    console::run(async |console: &mut Console<'_>| count(args, console).await).await
}

async fn count(args: &Args, console: &mut Console<'_>) -> Result<bool, CommandError> {
    let api = Api::new(&args.server).await?;
    let held = api.held().await?;
    let namespace = args.query.namespace()?.map(String::from);
    let mut counted = Vec::new();
    let mut warned = BTreeSet::new();
    for target in targets(&args.query.resource, &args.query.names, &held)? {
        let mut parameters = get::parameters(&args.query, &target.names);
        parameters.push(("by", args.by.join(",")));
        parameters.extend(args.top.map(|top| ("top", top.to_string())));
        let mut counts = api.count(&get::path(&target.held, namespace.as_deref()), &parameters).await?;
        for warning in std::mem::take(&mut counts.warnings) {
            if warned.insert(warning.clone()) {
                console.warn(&warning)?;
            }
        }
        counted.push((target.held.qualified_plural(), counts));
    }
    match args.output {
        Format::Table => table(args, &counted, console)?,
        Format::Json => writeln!(console.out, "{:#}", document(counted))?,
        Format::Yaml => {
            let text = serde_saphyr::to_string(&document(counted));
            let text = text.map_err(|error| get::OutputError::Yaml(error.to_string()))?;
            write!(console.out, "{text}")?;
        }
    }
    Ok(true)
}

/// Several resources have a column that tells them apart.
fn table(args: &Args, counted: &[(String, Counts)], console: &mut Console<'_>) -> Result<(), CommandError> {
    let with_resource = counted.len() > 1;
    let mut lines = Vec::new();
    if !args.no_headers {
        let mut titles: Vec<String> = with_resource.then(|| "RESOURCE".to_owned()).into_iter().collect();
        titles.extend(counted.first().into_iter().flat_map(|(_, counts)| counts.by.iter().map(|key| title(key))));
        titles.push("COUNT".to_owned());
        lines.push(titles);
    }
    for (resource, counts) in counted {
        let first = || with_resource.then(|| resource.clone());
        for group in &counts.items {
            let values = group.values.iter().map(|value| value.clone().unwrap_or_else(|| NONE.to_owned()));
            lines.push(first().into_iter().chain(values).chain([group.count.to_string()]).collect());
        }
        // Nothing grouped by nothing is no group, but a count all the same.
        if counts.items.is_empty() && counts.by.is_empty() {
            lines.push(first().into_iter().chain(["0".to_owned()]).collect());
        }
    }
    let is_empty = lines.len() <= usize::from(!args.no_headers);
    if is_empty {
        writeln!(console.err, "No resources found.")?;
        return Ok(());
    }
    aligned::write(console.out, &lines)?;
    for (resource, counts) in counted.iter().filter(|(_, counts)| counts.others > 0) {
        let Counts { others, total, .. } = counts;
        writeln!(console.err, "{others} of {total} {resource} are in further groups; --top shows more of them.")?;
    }
    Ok(())
}

/// `status.phase` has the title PHASE, `label:app` the title APP, as kubectl's columns of labels.
fn title(key: &str) -> String {
    let last = match key.strip_prefix("label:") {
        Some(label) => label.rsplit('/').next(),
        None => key.rsplit('.').next(),
    };
    last.unwrap_or(key).to_uppercase()
}

/// One resource stands for itself, several in a list.
fn document(counted: Vec<(String, Counts)>) -> Value {
    let one = |(resource, counts): (String, Counts)| json!({ "resource": resource, "by": counts.by, "total": counts.total, "others": counts.others, "groups": counts.items });
    let mut all: Vec<Value> = counted.into_iter().map(one).collect();
    if all.len() == 1 { all.remove(0) } else { Value::Array(all) }
}
