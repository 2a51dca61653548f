//! Prints lists and documents: as a table, names, JSON or YAML.

mod args;
pub mod columns;
mod error;
mod format;
mod list_writer;
mod object_name;
mod printer;

use fleetdex_core::{
    terminal::{escaped_json, escaped_line},
    yaml,
};
use serde::Deserialize as _;
use serde_json::Value;

pub use self::{
    args::OutputArgs,
    error::OutputError,
    format::{OutputFormat, UnknownFormat},
};
pub(crate) use self::{
    object_name::ObjectName,
    printer::{Layout, Printer},
};
use crate::{
    api::Api,
    console::{CommandError, Console, Warnings},
};

/// Requests a list across kinds and prints it: the server's Table, or the whole document. `path` is
/// below the API's group; parameters without a value are left out.
pub(crate) async fn print(
    api: &Api,
    path: &str,
    mut parameters: Vec<(&str, String)>,
    args: &OutputArgs,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    parameters.retain(|(_, value)| !value.is_empty());
    let mut warnings = Warnings::default();
    if !args.format.is_table() {
        let (document, texts) = api.document(path, &parameters).await?;
        warnings.print(texts, console)?;
        print_document(&document, args.format, console)?;
        return Ok(true);
    }
    let page = api.table(path, &parameters).await?;
    warnings.print(page.warnings, console)?;
    let mut printer = Printer::new(args.layout());
    printer.add_all(&page.items, &page.columns, console.out)?;
    if printer.count() == 0 {
        writeln!(console.err, "No resources found.")?;
    }
    printer.finish(console.out)?;
    Ok(true)
}

/// Prints a whole document, or the names of its items.
pub fn print_document(
    document: &Value,
    format: OutputFormat,
    console: &mut Console<'_>,
) -> Result<(), CommandError> {
    match format {
        OutputFormat::Yaml => {
            let text = yaml::to_string(document).map_err(OutputError::from)?;
            write!(console.out, "{text}")?;
        }
        OutputFormat::Name => {
            for item in document["items"].as_array().into_iter().flatten() {
                let name = ObjectName::deserialize(item).map_err(OutputError::NoObject)?;
                writeln!(console.out, "{}", escaped_line(&name.to_string()))?;
            }
        }
        OutputFormat::Json | OutputFormat::Table | OutputFormat::Wide => {
            writeln!(console.out, "{}", escaped_json(&format!("{document:#}")))?;
        }
    }
    Ok(())
}
