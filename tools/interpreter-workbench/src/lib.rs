//! `fleetdex interpret`: runs an operation of a resource interpreter on objects in files, offline.
//!
//! The flags, the output and the texts are those of `karmadactl interpret`, so that scripts written
//! for it keep working:
//! <https://github.com/karmada-io/karmada/tree/master/pkg/karmadactl/interpret> Beyond it, the
//! built-in rules, Argo CD's health scripts and webhooks answer, and a failed operation exits
//! with 1.

use std::{
    io::{self, Read},
    net::SocketAddr,
    sync::Arc,
};

use fleetdex_cli::{
    console::{CommandError, Console},
    documents::DocumentReader,
};
use fleetdex_interpreter::Operation;
use fleetdex_webhooks::client::CallWebhook;

mod args;
mod check;
mod edit;
mod execute;
mod inputs;
mod key_order;
mod level_sources;
mod output;
mod rules;
mod webhook_level;

pub use self::{args::InterpretArgs, output::ResultFormat};
use self::{
    rules::{CustomizationRule, RULES},
    webhook_level::{WebhookConnector, client, resolve},
};

/// Runs the operation or the check, and prints the result.
pub async fn run(args: &InterpretArgs, console: &mut Console<'_>) -> Result<bool, CommandError> {
    interpret(args, &mut io::stdin().lock(), client, console).await
}

async fn interpret(
    args: &InterpretArgs,
    standard_input: &mut dyn Read,
    client: impl FnOnce(Option<SocketAddr>) -> Arc<dyn CallWebhook>,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let operation = args.operation.as_deref().map(operation).transpose()?;
    let mut reader = DocumentReader::new(standard_input);
    if args.check {
        return run_check(args, &mut reader, console).await;
    }
    if args.edit {
        let editor = edit::editor();
        return edit::edit(
            &args.filenames,
            args.show_doc,
            &editor,
            &mut reader,
            console,
        )
        .await;
    }
    if args.show_doc {
        print_documents(operation, console)?;
        return Ok(true);
    }
    let operation = operation.ok_or_else(|| usage("operation is not set for executing"))?;
    let address = args.webhook_address.as_deref().map(resolve).transpose();
    let address = address.map_err(usage)?;
    let connector = WebhookConnector {
        client: client(address),
        address,
    };
    execute::execute(args, operation, &mut reader, &connector, console).await
}

/// An error that names no flag of its own.
fn usage(text: impl Into<String>) -> CommandError {
    CommandError::Usage(text.into())
}

fn operation(name: &str) -> Result<Operation, CommandError> {
    Operation::from_name(name).ok_or_else(|| {
        let names = rules::names().join(", ");
        usage(format!(
            "operation {name} is not supported. Use one of: {names}"
        ))
    })
}

async fn run_check(
    args: &InterpretArgs,
    reader: &mut DocumentReader<'_>,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    if args.filenames.is_empty() {
        return Err(usage("--check needs customizations: name them with -f"));
    }
    let documents = reader
        .objects(&args.filenames, args.recursive)
        .await
        .map_err(|error| usage(fleetdex_core::model::causes(&error)))?;
    if documents.is_empty() {
        let names = args.filenames.join(", ");
        return Err(usage(format!("there is no customization in {names}")));
    }
    let report = check::check(&documents, &execute::compile);
    write!(console.out, "{}", report.text)?;
    Ok(report.is_valid)
}

/// Prints the documents of all rules, or of one operation, as comments of a Lua file.
fn print_documents(
    operation: Option<Operation>,
    console: &mut Console<'_>,
) -> Result<(), CommandError> {
    let is_asked_for =
        |rule: &&CustomizationRule| operation.is_none_or(|asked| asked == rule.operation);
    for rule in RULES.iter().filter(is_asked_for) {
        writeln!(console.out, "---@rule: {}", rule.operation)?;
        writeln!(console.out, "-- spec.customizations.{}", rule.member())?;
        for line in rule.document.lines() {
            writeln!(console.out, "-- {line}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
