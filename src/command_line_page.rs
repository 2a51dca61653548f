//! docs/command-line.md is generated from the arguments of the program.
//!
//! `make reference` writes it.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{env, fmt::Write as _, fs, path::Path};

use clap::{Arg, Command, CommandFactory as _};

use super::Arguments;

const HEAD: &str = "# Command-line reference

<!-- Generated from the program: `make reference` writes this page. -->

Every subcommand with its arguments, as `fleetdex COMMAND --help` prints them. A flag takes precedence over its environment variable. [The command line](cli.md) explains them with examples.
";

#[test]
fn the_page_of_the_command_line_is_generated_from_the_arguments() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/command-line.md");
    let mut program = Arguments::command();
    program.build();
    let mut expected = HEAD.to_owned();
    add_subcommands(&mut expected, &program, "fleetdex");
    if env::var_os("FLEETDEX_WRITE_REFERENCE").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == expected,
        "{} is not what the arguments say; regenerate it with `make reference`",
        path.display()
    );
}

/// Variables of commands that end by themselves: where something is, who asks, and how the operator
/// is installed, which `doctor` and `migrate` look at. What a command
/// does and prints is said by its arguments alone, so that an exported word changes no later one.
const ENVIRONMENT: [&str; 28] = [
    "FLEETDEX_ADMIN_URL",
    "FLEETDEX_ALLOW_SAME_CLUSTER",
    "FLEETDEX_ALLOW_SECRET_HOSTS",
    "FLEETDEX_API_SERVICE",
    "FLEETDEX_CLUSTER_API_WATCH_FILTER",
    "FLEETDEX_CLUSTER_CONTEXT",
    "FLEETDEX_CLUSTER_NAMESPACE",
    "FLEETDEX_CLUSTER_SOURCE",
    "FLEETDEX_CONTEXT",
    "FLEETDEX_DASHBOARDS_CA_FILE",
    "FLEETDEX_DASHBOARDS_PASSWORD_FILE",
    "FLEETDEX_DASHBOARDS_URL",
    "FLEETDEX_DASHBOARDS_USER",
    "FLEETDEX_DISTRIBUTE",
    "FLEETDEX_DOCTOR_ADMIN_URL",
    "FLEETDEX_HELM",
    "FLEETDEX_INDEX_PREFIX",
    "FLEETDEX_KUBECONFIG",
    "FLEETDEX_KUBECONFIG_CLUSTERS",
    "FLEETDEX_KUSTOMIZE",
    "FLEETDEX_LEAVE_CLUSTER_STATUS",
    "FLEETDEX_NO_OPEN",
    "FLEETDEX_PAGE_URL",
    "FLEETDEX_REPLICAS",
    "FLEETDEX_REPLICA_NAMESPACE",
    "FLEETDEX_SECRET_HOSTS",
    "FLEETDEX_SERVER",
    "FLEETDEX_TOKEN_FILE",
];
/// Commands that go on until they are stopped.
const SERVICES: [&str; 2] = ["run", "local"];

#[test]
fn variables_say_where_and_who_not_what_a_command_does() {
    let mut program = Arguments::command();
    program.build();
    let mut commands: Vec<&Command> = program
        .get_subcommands()
        .filter(|command| !SERVICES.contains(&command.get_name()))
        .collect();
    let mut count = 0;
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands());
        for variable in command.get_arguments().filter_map(Arg::get_env) {
            let variable = variable.to_string_lossy();
            let is_known =
                ENVIRONMENT.contains(&&*variable) || variable.starts_with("FLEETDEX_LOG_");
            assert!(is_known, "{}: {variable}", command.get_name());
            count += 1;
        }
    }
    assert!(count > 20, "only {count} variables");
}

fn add_subcommands(page: &mut String, parent: &Command, name: &str) {
    let shown = parent
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help");
    for command in shown {
        let full_name = format!("{name} {}", command.get_name());
        add_command(page, command, &full_name);
        add_subcommands(page, command, &full_name);
    }
}

fn add_command(page: &mut String, command: &Command, full_name: &str) {
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    writeln!(
        page,
        "\n## `{full_name}`\n\n{}.\n\n```text\n{usage}\n```",
        escaped(about.trim_end_matches('.'))
    )
    .unwrap();
    let mut arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && argument.get_id() != "help")
        .collect();
    // As in --help: what has a heading, such as the server, comes last.
    arguments.sort_by_key(|argument| argument.get_help_heading().is_some());
    if arguments.is_empty() {
        return;
    }
    page.push_str("\n| argument | variable | default | meaning |\n|---|---|---|---|\n");
    for argument in arguments {
        writeln!(
            page,
            "| {} | {} | {} | {} |",
            spelling(argument),
            variable(argument),
            defaults(argument),
            meaning(argument)
        )
        .unwrap();
    }
}

/// The ways to write an argument, such as `-n NS`, `--namespace NS`.
fn spelling(argument: &Arg) -> String {
    let takes_value = argument.get_action().takes_values();
    let value = argument
        .get_value_names()
        .map(|names| names.join(" "))
        .filter(|_| takes_value);
    let names: Vec<String> = [
        argument.get_short().map(|short| format!("-{short}")),
        argument.get_long().map(|long| format!("--{long}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if names.is_empty() {
        return code(&value.unwrap_or_default());
    }
    let spelled = names.iter().map(|name| match &value {
        Some(value) => code(&format!("{name} {value}")),
        None => code(name),
    });
    spelled.collect::<Vec<_>>().join(", ")
}

fn variable(argument: &Arg) -> String {
    argument
        .get_env()
        .map(|name| code(&name.to_string_lossy()))
        .unwrap_or_default()
}

fn defaults(argument: &Arg) -> String {
    // Flags without a value have the default `false`, which says nothing.
    if argument.is_hide_default_value_set() || !argument.get_action().takes_values() {
        return String::new();
    }
    let values = argument.get_default_values().iter();
    let values: Vec<String> = values
        .map(|value| shown(&value.to_string_lossy()))
        .collect();
    values.join(", ")
}

/// The default of a token file depends on the machine.
fn shown(default: &str) -> String {
    if default.ends_with("/fleetdex/token") {
        return "`$XDG_RUNTIME_DIR/fleetdex/token`, or `/tmp/fleetdex/token`".to_owned();
    }
    code(default)
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    let mut text = escaped(&help.map(ToString::to_string).unwrap_or_default());
    let possible: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set() && argument.get_action().takes_values())
        .map(|value| match value.get_help() {
            Some(help) => format!(
                "{} ({})",
                code(value.get_name()),
                escaped(&help.to_string())
            ),
            None => code(value.get_name()),
        })
        .collect();
    if !possible.is_empty() {
        if !text.ends_with('.') {
            text.push('.');
        }
        write!(text, " One of {}.", possible.join(", ")).unwrap();
    }
    text
}

/// In a cell of a table, where a vertical bar ends the cell also within backticks.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

/// A text as one line of Markdown that shows each character, with code in backticks.
fn escaped(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut escaped = String::new();
    let mut is_code = false;
    for character in line.chars() {
        match character {
            '`' => is_code = !is_code,
            '|' => escaped.push('\\'),
            '<' | '*' | '[' if !is_code => escaped.push('\\'),
            _ => {}
        }
        escaped.push(character);
    }
    escaped
}
