//! The `fleetdex` command.

use std::{path::Path, process::ExitCode};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use fleetdex::{app, local};
use fleetdex_cli as cli;
use fleetdex_core::{model, terminal};
use fleetdex_telemetry::log::{self, LogArgs};

#[derive(Parser)]
#[command(
    name = "fleetdex",
    version,
    about = "A live, searchable index of every object in every cluster of a fleet"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the operator: follow the registered clusters, and answer queries
    Run {
        #[command(flatten)]
        run: Box<app::RunArgs>,
        #[command(flatten)]
        log: LogArgs,
    },
    /// Ask the contexts of a kubeconfig as one fleet: read them into memory, and answer queries until stopped
    Local {
        #[command(flatten)]
        local: local::LocalArgs,
        #[command(flatten)]
        log: LogArgs,
    },
    /// Ask the fleet, as kubectl asks a cluster
    Get(cli::get::Args),
    /// Describe objects of the fleet, with their owners and Events
    Describe(cli::describe::Args),
    /// Count objects of the fleet, in groups
    Count(cli::count::Args),
    /// Check that what is stored is as the objects of the clusters, and repair what is not
    Verify(cli::verify::Args),
    /// Print the OpenSearch request that answers a query
    Explain(cli::explain::Args),
    /// Print the custom resource definitions
    Crd,
    /// Print a script that completes command lines
    Completion(cli::completion::Args),
}

fn main() -> ExitCode {
    // kube and opensearch both use rustls, which wants to be told its provider once.
    if rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .is_err()
    {
        eprintln!("error: a TLS provider was installed before main");
        return ExitCode::FAILURE;
    }
    if cli::completion::answered(command) {
        return ExitCode::SUCCESS;
    }
    let matches = command().get_matches();
    let arguments = Arguments::from_arg_matches(&matches)
        .unwrap_or_else(|error| error.format(&mut command()).exit());
    match run(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!(
                "error: {}",
                terminal::escaped(&model::causes(error.as_ref()))
            );
            ExitCode::FAILURE
        }
    }
}

/// As a plugin of kubectl it is called what people type.
fn command() -> clap::Command {
    let program = std::env::args_os().next().unwrap_or_default();
    let is_plugin = Path::new(&program)
        .file_stem()
        .is_some_and(|name| name == "kubectl-fleetdex");
    if is_plugin {
        Arguments::command().bin_name("kubectl fleetdex")
    } else {
        Arguments::command()
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run { run, log } => {
            log::init(&log)?;
            tokio::runtime::Runtime::new()?.block_on(app::run(*run))?;
        }
        Command::Local { local, log } => {
            log::init(&log.quiet())?;
            tokio::runtime::Runtime::new()?.block_on(local::run(local))?;
        }
        Command::Get(args) => {
            return Ok(tokio::runtime::Runtime::new()?.block_on(cli::get::run(&args)));
        }
        Command::Describe(args) => {
            return Ok(tokio::runtime::Runtime::new()?.block_on(cli::describe::run(&args)));
        }
        Command::Count(args) => {
            return Ok(tokio::runtime::Runtime::new()?.block_on(cli::count::run(&args)));
        }
        Command::Verify(args) => {
            return Ok(tokio::runtime::Runtime::new()?.block_on(cli::verify::run(&args)));
        }
        Command::Explain(args) => {
            return Ok(tokio::runtime::Runtime::new()?.block_on(cli::explain::run(&args)));
        }
        Command::Completion(args) => cli::completion::run(&args, &mut std::io::stdout().lock())?,
        Command::Crd => cli::crd::run(&mut std::io::stdout().lock())?,
    }
    Ok(ExitCode::SUCCESS)
}
