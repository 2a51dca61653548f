//! The `fleetdex` command.

#[cfg(test)]
mod command_line_page;

use std::{io, path::Path, process::ExitCode, time::Duration};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use fleetdex::{app, doctor, local};
use fleetdex_cli::{self as cli, console};
use fleetdex_core::{model, terminal};
use fleetdex_dashboards_commands as dashboards;
use fleetdex_distribution_commands as distribution;
use fleetdex_interpreter_workbench as interpret;
use fleetdex_migrate as migrate;
use fleetdex_rendering_commands as rendering;
use fleetdex_telemetry::log::{self, LogArgs};

/// Objects are parsed and encoded a fifth faster than with the allocator of glibc, and memory is
/// given back after a first sync: `docs/adr/0014-allocator.md`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    /// Run the operator: index the registered clusters and serve queries
    Run {
        #[command(flatten)]
        run: Box<app::RunArgs>,
        #[command(flatten)]
        log: LogArgs,
    },
    /// Index the contexts of a kubeconfig in memory and serve queries until stopped
    Local {
        #[command(flatten)]
        local: local::LocalArgs,
        #[command(flatten)]
        log: LogArgs,
    },
    /// List or watch objects of the fleet
    Get(cli::get::GetArgs),
    /// Count objects of the fleet in groups
    Count(cli::count::CountArgs),
    /// Search objects of all kinds
    Search(cli::search::SearchArgs),
    /// List the clusters, and whether their objects are current
    Clusters(cli::clusters::ClustersArgs),
    /// List what does not work in the fleet, of all kinds
    Unhealthy(cli::unhealthy::UnhealthyArgs),
    /// List what an object uses, and what uses it
    Related(cli::related::RelatedArgs),
    /// Count the images of the fleet's Pods
    Images(cli::images::ImagesArgs),
    /// Compare every index with its clusters and repair drift
    Verify(cli::verify::VerifyArgs),
    /// Check what this installation depends on, and say what to do about each problem
    Doctor(Box<doctor::DoctorArgs>),
    /// Print the OpenSearch request that answers a query
    Explain(cli::explain::ExplainArgs),
    /// Say what an object means: its health, replicas, status or dependencies, by rules, scripts
    /// and webhooks
    Interpret(Box<interpret::InterpretArgs>),
    /// Show which objects policies would place in which clusters, and why not in the others
    Plan(distribution::PlanArgs),
    /// Print the objects of a Distribution: of a chart, a folder or manifests
    Render(Box<rendering::RenderArgs>),
    /// Start a renderer within its limits
    #[command(hide = true)]
    Sandbox(rendering::SandboxArgs),
    /// Show what is distributed, or print what distribution needs of members
    Distribute(distribution::DistributeArgs),
    /// Show, pause, resume or undo the rollout of a Distribution, or run its hooks again
    Rollout(distribution::RolloutArgs),
    /// Open the web page
    Ui(cli::ui::UiArgs),
    /// Write a kubeconfig context with which kubectl uses the fleet as one cluster
    Kubeconfig(cli::kubeconfig::KubeconfigArgs),
    /// Print or install what OpenSearch Dashboards shows, or print roles for its users
    Dashboards(dashboards::DashboardsArgs),
    /// Print what a store has to permit
    Store(cli::store::StoreArgs),
    /// Print the custom resource definitions, or apply them to a control plane
    Crd(cli::crd::CrdArgs),
    /// Move an installation of another program to Fleetdex
    Migrate(migrate::MigrateArgs),
    /// Ask whether a server is ready
    Ready(cli::ready::ReadyArgs),
    /// Print a shell completion script
    Completion(cli::completion::CompletionArgs),
}

/// How long a thread without work stays: as long as the allocator keeps what was freed.
const THREAD_KEEP_ALIVE: Duration = Duration::from_millis(10);

/// A runtime whose threads end soon when they have nothing to do: what a thread has freed is
/// returned when that thread allocates again, or ends. With tokio's 10 s, threads that had computed
/// held more than all requests together: docs/adr/0014-allocator.md.
fn serving_runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_keep_alive(THREAD_KEEP_ALIVE)
        .build()
}

fn main() -> ExitCode {
    // kube and reqwest both use rustls, which needs its provider installed once per process.
    if rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .is_err()
    {
        eprintln!("error: a TLS provider was installed before main");
        return ExitCode::FAILURE;
    }
    if cli::completion::complete_if_requested(command) {
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

/// As a plugin of kubectl the command is called `kubectl fleetdex`.
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
            serving_runtime()?.block_on(app::run(*run))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Local { local, log } => {
            log::init(&log.quiet())?;
            serving_runtime()?.block_on(local::run(local))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Get(args) => Ok(once(console::run(&args, cli::get::get))?),
        Command::Count(args) => Ok(once(console::run(&args, cli::count::count))?),
        Command::Search(args) => Ok(once(console::run(&args, cli::search::search))?),
        Command::Clusters(args) => Ok(once(console::run(&args, cli::clusters::clusters))?),
        Command::Unhealthy(args) => Ok(once(console::run(&args, cli::unhealthy::unhealthy))?),
        Command::Related(args) => Ok(once(console::run(&args, cli::related::related))?),
        Command::Images(args) => Ok(once(console::run(&args, cli::images::images))?),
        Command::Verify(args) => Ok(once(cli::verify::run(&args))?),
        Command::Doctor(args) => once(doctor::run(*args))?,
        Command::Explain(args) => Ok(once(console::run(&args, cli::explain::explain))?),
        Command::Interpret(args) => Ok(once(console::run(&*args, interpret::run))?),
        Command::Plan(args) => Ok(once(distribution::run(&args))?),
        Command::Render(args) => Ok(once(rendering::run(&args))?),
        // Before any thread is started: what it limits is its own thread.
        Command::Sandbox(args) => match rendering::sandbox(&args)? {},
        Command::Distribute(args) => Ok(once(distribution::distribute(&args))?),
        Command::Rollout(args) => Ok(once(distribution::roll_out(&args))?),
        Command::Ui(args) => Ok(once(console::run(&args, cli::ui::ui))?),
        Command::Kubeconfig(args) => Ok(once(console::run(&args, cli::kubeconfig::kubeconfig))?),
        Command::Dashboards(args) => Ok(once(console::run(&args, dashboards::run))?),
        Command::Store(args) => Ok(once(console::run(&args, async |args, console| {
            cli::store::store(args, console)
        }))?),
        Command::Crd(args) => Ok(once(console::run(&args, cli::crd::crd))?),
        Command::Migrate(args) => once(migrate::run(&args))?,
        Command::Ready(args) => Ok(once(console::run(&args, cli::ready::ready))?),
        Command::Completion(args) => {
            cli::completion::run(&args, &mut std::io::stdout().lock())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Runs a command that ends by itself.
fn once<T>(command: impl Future<Output = T>) -> std::io::Result<T> {
    Ok(tokio::runtime::Runtime::new()?.block_on(command))
}
