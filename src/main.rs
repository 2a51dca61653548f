//! The `fleetdex` command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fleetdex::{
    app, cli, local, model,
    telemetry::log::{self, LogArgs},
};

#[derive(Parser)]
#[command(name = "fleetdex", version, about = "A live, searchable index of every object in every cluster of a fleet")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the operator: follow the registered clusters, and answer queries
    Run {
        #[command(flatten)]
        run: app::RunArgs,
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
    /// Count objects of the fleet, in groups
    Count(cli::count::Args),
    /// Check that what is stored is as the objects of the clusters, and repair what is not
    Verify(cli::verify::Args),
    /// Print the OpenSearch request that answers a query
    Explain(cli::explain::Args),
    /// Print the custom resource definitions
    Crd,
}

fn main() -> ExitCode {
    // kube and opensearch both use rustls, which wants to be told its provider once.
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        eprintln!("error: a TLS provider was installed before main");
        return ExitCode::FAILURE;
    }
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", model::causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run { run, log } => {
            log::init(&log)?;
            tokio::runtime::Runtime::new()?.block_on(app::run(run))?;
        }
        Command::Local { local, log } => {
            log::init(&log.quiet())?;
            tokio::runtime::Runtime::new()?.block_on(local::run(local))?;
        }
        Command::Get(args) => return Ok(tokio::runtime::Runtime::new()?.block_on(cli::get::run(&args))),
        Command::Count(args) => return Ok(tokio::runtime::Runtime::new()?.block_on(cli::count::run(&args))),
        Command::Verify(args) => return Ok(tokio::runtime::Runtime::new()?.block_on(cli::verify::run(&args))),
        Command::Explain(args) => cli::explain::run(&args)?,
        Command::Crd => cli::crd::run(&mut std::io::stdout().lock())?,
    }
    Ok(ExitCode::SUCCESS)
}
