//! Prints the result of a search across kinds: the server's Table, or the whole document.

use fleetdex_core::{
    model::{CLUSTER_ANNOTATION, split_api_version},
    terminal::{escaped_json, escaped_line},
};
use serde_json::Value;

use super::{
    api::{Api, ObjectPage},
    columns::{cell_text, write_aligned},
    console::{CommandError, Console},
    get::{OutputError, OutputFormat},
    pages::Warnings,
};

/// How the result is printed.
#[derive(Clone, Debug, clap::Args)]
pub struct SearchOutputArgs {
    /// table, wide, json, yaml or name
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: OutputFormat,

    /// Print tables without the header line
    #[arg(long)]
    pub no_headers: bool,
}

/// Sends a search and prints its result. `path` is below the API's group.
pub(super) async fn print(
    api: &Api,
    path: &str,
    parameters: &[(&str, String)],
    args: &SearchOutputArgs,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let is_table = matches!(args.output, OutputFormat::Table | OutputFormat::Wide);
    if is_table {
        let page = api.table(path, parameters).await?;
        print_table(page, args, console)?;
        return Ok(true);
    }
    let (document, warnings) = api.document(path, parameters).await?;
    Warnings::default().print(warnings, console)?;
    print_document(&document, args.output, console)?;
    Ok(true)
}

/// Prints a whole document, or the names of its items.
pub(super) fn print_document(
    document: &Value,
    output: OutputFormat,
    console: &mut Console<'_>,
) -> Result<(), CommandError> {
    match output {
        OutputFormat::Yaml => {
            let text = serde_saphyr::to_string(document);
            let text = text.map_err(|error| OutputError::Yaml(error.to_string()))?;
            write!(console.out, "{text}")?;
        }
        OutputFormat::Name => {
            for item in document["items"].as_array().into_iter().flatten() {
                writeln!(console.out, "{}", escaped_line(&name(item)))?;
            }
        }
        OutputFormat::Json | OutputFormat::Table | OutputFormat::Wide => {
            writeln!(console.out, "{}", escaped_json(&format!("{document:#}")))?;
        }
    }
    Ok(())
}

fn print_table(
    page: ObjectPage,
    args: &SearchOutputArgs,
    console: &mut Console<'_>,
) -> Result<(), CommandError> {
    Warnings::default().print(page.warnings, console)?;
    if page.items.is_empty() {
        writeln!(console.err, "No resources found.")?;
        return Ok(());
    }
    let is_wide = args.output == OutputFormat::Wide;
    let is_shown = |position: &usize| is_wide || page.columns[*position].priority == 0;
    let shown: Vec<usize> = (0..page.columns.len()).filter(is_shown).collect();
    let header = |position: &usize| page.columns[*position].name.to_uppercase();
    let mut lines: Vec<Vec<String>> = Vec::new();
    if !args.no_headers {
        lines.push(shown.iter().map(header).collect());
    }
    for item in &page.items {
        let cell = |position: &usize| item.cells.get(*position).map(cell_text);
        lines.push(
            shown
                .iter()
                .map(|position| cell(position).unwrap_or_default())
                .collect(),
        );
    }
    write_aligned(console.out, &lines)?;
    Ok(())
}

/// `<cluster>/<kind>/<name>`, as `fleetdex get -o name` prints it.
pub(super) fn name(item: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &item["metadata"];
    let api_version = text(&item["apiVersion"]);
    let (group, _) = split_api_version(&api_version);
    let kind = text(&item["kind"]).to_ascii_lowercase();
    let kind = if group.is_empty() {
        kind
    } else {
        format!("{kind}.{group}")
    };
    let cluster = text(&metadata["annotations"][CLUSTER_ANNOTATION]);
    format!("{cluster}/{kind}/{}", text(&metadata["name"]))
}
