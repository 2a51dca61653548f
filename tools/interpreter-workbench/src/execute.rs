//! Runs an operation on the objects of the command line, and prints its results.

use std::collections::BTreeSet;

use fleetdex_cli::{
    console::{CommandError, Console},
    documents::DocumentReader,
};
use fleetdex_core::{model::causes, terminal::escaped_line};
use fleetdex_interpreter::{
    InterpretError, Operation, Request, Response,
    customization::ScriptConflict,
    levels::{AnsweringLevel, LevelAnswer},
    script::Script,
    value::text,
    webhook::configuration::{FailurePolicy, guessed_resource},
};

use super::{
    args::InterpretArgs,
    inputs::{ITEM_MEMBERS, InputError, OperationInputs, read_items, read_object},
    level_sources::{NamedLevels, levels},
    output,
    webhook_level::{WebhookConnector, ask},
};

/// Runs an operation and prints its results; returns whether it succeeded. An error of the
/// operation is printed as `karmadactl` prints it.
pub async fn execute(
    args: &InterpretArgs,
    operation: Operation,
    reader: &mut DocumentReader<'_>,
    connector: &WebhookConnector,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let levels = levels(args, reader)
        .await
        .map_err(|error| CommandError::Usage(causes(&error)))?;
    let inputs = read_inputs(args, reader, console).await?;
    match response(operation, &inputs, &levels, connector, console).await {
        Ok(response) => {
            let with_health = args.filenames.is_empty();
            let text = output::text(&response, args.output, with_health).map_err(|error| {
                CommandError::Usage(format!("cannot write the results as YAML: {error}"))
            })?;
            write!(console.out, "{text}")?;
            Ok(true)
        }
        Err(error) => {
            let text = format!("Execute {operation} error: {error}");
            writeln!(console.err, "{}", escaped_line(&text))?;
            Ok(false)
        }
    }
}

/// Why a script does not compile.
pub fn compile(operation: Operation, script: &str) -> Result<(), String> {
    Script::compile(operation, script)
        .map(drop)
        .map_err(|error| causes(&error))
}

async fn read_inputs(
    args: &InterpretArgs,
    reader: &mut DocumentReader<'_>,
    console: &mut Console<'_>,
) -> Result<OperationInputs, CommandError> {
    let mut inputs = OperationInputs {
        replicas: args.desired_replica.into(),
        ..OperationInputs::default()
    };
    let failed = |error: InputError| CommandError::Usage(causes(&error));
    if let Some(name) = &args.desired_file {
        let object = read_object("desired", name, reader).await;
        inputs.desired = Some(object.map_err(failed)?);
    }
    if let Some(name) = &args.observed_file {
        let object = read_object("observed", name, reader).await;
        inputs.observed = Some(object.map_err(failed)?);
    }
    if let Some(name) = &args.status_file {
        let (items, unknown) = read_items(name, reader).await.map_err(failed)?;
        inputs.items = items;
        if !unknown.is_empty() {
            // Nothing is left to do if standard error is closed.
            drop(console.warn(&unknown_members_warning(name, &unknown)));
        }
    }
    Ok(inputs)
}

/// Asks the levels, and the webhook that they name.
async fn response(
    operation: Operation,
    inputs: &OperationInputs,
    named: &NamedLevels,
    connector: &WebhookConnector,
    console: &mut Console<'_>,
) -> Result<Response, InterpretError> {
    let request = inputs
        .request(operation)
        .map_err(|problem| InterpretError(problem.to_owned()))?;
    let resource = guessed_resource(request.object());
    let levels = &named.levels;
    for conflict in &named.conflicts {
        if conflict.operation == operation && conflict.target == resource.gvk {
            // Nothing is left to do if standard error is closed.
            drop(console.warn(&conflict_warning(conflict)));
        }
    }
    let answer = match levels.answer(&request, &resource) {
        LevelAnswer::AskWebhook(webhook) => {
            let result = ask(webhook, &request, connector).await;
            if let (Err(reason), FailurePolicy::Ignore) = (&result, webhook.failure_policy) {
                let warning = format!("webhook {} is ignored: {reason}", webhook.id);
                // Nothing is left to do if standard error is closed.
                drop(console.warn(&warning));
            }
            levels.after_webhook(webhook, &request, result)
        }
        answer => answer,
    };
    match answer {
        LevelAnswer::Decided { by, result } if named.has_several_customizations => {
            result.map_err(|error| name_customization(&by, error))
        }
        LevelAnswer::Decided { result, .. } => result,
        LevelAnswer::NoRule if levels.has_built_in_rules() => Err(no_built_in_rule(&request)),
        LevelAnswer::NoRule | LevelAnswer::AskWebhook(_) => {
            Err(InterpretError("rule is not enabled".to_owned()))
        }
    }
}

/// The error with the customization that has failed. Of several scripts for dependencies it names
/// that already.
fn name_customization(by: &AnsweringLevel, error: InterpretError) -> InterpretError {
    let AnsweringLevel::Customizations(names) = by else {
        return error;
    };
    match &**names {
        [name] => InterpretError(format!("customization {name}: {error}")),
        _ => error,
    }
}

fn unknown_members_warning(source: &str, unknown: &BTreeSet<String>) -> String {
    let unknown: Vec<&str> = unknown.iter().map(String::as_str).collect();
    format!(
        "{source}: {} is ignored: an aggregated status item has {}",
        unknown.join(", "),
        ITEM_MEMBERS.join(", ")
    )
}

fn conflict_warning(conflict: &ScriptConflict) -> String {
    let ScriptConflict {
        target,
        operation,
        used,
        unused,
    } = conflict;
    format!(
        "customization {unused} is not asked for {operation} of {} {}: customization {used} precedes it by name",
        target.api_version(),
        target.kind,
    )
}

fn no_built_in_rule(request: &Request<'_>) -> InterpretError {
    let object = request.object();
    InterpretError(format!(
        "no built-in rule for {} of {} {}",
        request.operation(),
        text(object, &["apiVersion"]),
        text(object, &["kind"]),
    ))
}
