//! Gets real parts, and starts and stops fleets of them: `cargo run -p e2e -- help`.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand, ValueEnum};
use e2e::{
    attacks, bench, demo,
    fleet::{self, Fleet, FleetState, OpenSearchKind, Options},
    image,
    parts::{self, Part},
    scale, signals, soak,
};

/// That of Fleetdex, whose encoding `e2e bench` measures in this process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Real parts for tests, demo and benchmarks of Fleetdex.
#[derive(Parser)]
#[command(name = "e2e")]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build or find the parts (all of them, or those named).
    Parts {
        /// kube-apiserver, kubectl, etcd, helm, opensearch, opensearch-secure, chromium, axe-core
        names: Vec<String>,
    },
    /// Start a fleet and keep it until Ctrl-C.
    Up {
        /// How many member clusters.
        #[arg(long, default_value_t = 3)]
        members: usize,
        /// Which OpenSearch.
        #[arg(long, value_enum, default_value_t)]
        opensearch: Kind,
        /// Folder for logs, certificates and kubeconfigs (default: target/fleet).
        #[arg(long)]
        dir: Option<PathBuf>,
        /// File that describes the running fleet (default: fleet.json in that folder).
        #[arg(long)]
        state: Option<PathBuf>,
        /// Return when the fleet is ready; `e2e down` stops it.
        #[arg(long)]
        detach: bool,
        /// Set for the background process that --detach starts.
        #[arg(long, hide = true)]
        in_background: bool,
    },
    /// Show what Fleetdex does, on three members and an OpenSearch of its own.
    Demo(demo::Args),
    /// Measure syncs, restarts, churn, memory and recovery beside the limits of the servers; writes
    /// target/bench/results.json.
    Bench(bench::BenchArgs),
    /// Measure what thousands of simulated clusters cost; writes target/scale/results.json.
    Scale(scale::ScaleArgs),
    /// Steady writes and random faults for a while, then the oracle; writes
    /// target/soak/results.json.
    Soak(soak::SoakArgs),
    /// Attack an operator under a limit of memory, in one way after the other and in all at once;
    /// fails if it ends, or is slow for others.
    Attacks(attacks::AttackArgs),
    /// Make the image without an engine: target/package/fleetdex-image.tar, and fleetdex.cdx.json,
    /// the list of its components.
    Image(image::ImageArgs),
    /// Stop the fleet that a state file describes.
    Down {
        /// The file (default: target/fleet/fleet.json).
        #[arg(long)]
        state: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Kind {
    #[default]
    Plain,
    Secure,
    None,
}

impl From<Kind> for OpenSearchKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Plain => Self::Plain,
            Kind::Secure => Self::Secure,
            Kind::None => Self::None,
        }
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("e2e: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Parts { names } if names.is_empty() => parts::ensure(&Part::ALL),
        Task::Parts { names } => {
            let named: Vec<Part> = names
                .iter()
                .map(|name| Part::named(name))
                .collect::<Result<_>>()?;
            parts::ensure(&named)
        }
        Task::Up {
            members,
            opensearch,
            dir,
            state,
            detach,
            in_background,
        } => {
            let dir = dir.map_or_else(default_dir, Ok)?;
            let state_file = state.unwrap_or_else(|| dir.join("fleet.json"));
            if detach {
                return up_in_background(&state_file);
            }
            if in_background {
                nix::unistd::setsid().context("leaving the terminal")?;
            }
            let state_file = Some(state_file);
            let options = Options {
                members,
                opensearch: opensearch.into(),
                own_opensearch: true,
                dir: Some(dir),
                state_file,
                ..Options::default()
            };
            up(options)
        }
        Task::Demo(args) => demo::run(&args),
        Task::Bench(args) => {
            e2e::http::install_tls_provider();
            tokio::runtime::Runtime::new()?.block_on(bench::run(args))
        }
        Task::Scale(args) => {
            e2e::http::install_tls_provider();
            tokio::runtime::Runtime::new()?.block_on(scale::run(args))
        }
        Task::Soak(args) => {
            e2e::http::install_tls_provider();
            tokio::runtime::Runtime::new()?.block_on(soak::run(args))
        }
        Task::Attacks(args) => {
            e2e::http::install_tls_provider();
            tokio::runtime::Runtime::new()?.block_on(attacks::run(args))
        }
        Task::Image(args) => image::run(&args),
        Task::Down { state } => {
            let state_file = match state {
                Some(path) => path,
                None => default_dir()?.join("fleet.json"),
            };
            down(&state_file)
        }
    }
}

fn default_dir() -> Result<PathBuf> {
    Ok(fleet::target_folder()?.join("fleet"))
}

#[tokio::main]
async fn up(options: Options) -> Result<()> {
    let stop = signals::stop()?;
    let stay = async {
        let fleet = Fleet::start(options).await?;
        print!("{}", summary(&fleet));
        loop {
            tokio::time::sleep(Duration::from_secs(2)).await;
            fleet.check_running()?;
        }
    };
    tokio::select! {
        () = stop => { println!("stopping …"); Ok(()) }
        ended = stay => ended,
    }
}

fn summary(fleet: &Fleet) -> String {
    use std::fmt::Write;

    let state = fleet.state();
    let mut text = String::from("The fleet is ready.\n\n");
    for cluster in [&state.control_plane].into_iter().chain(&state.members) {
        let _ = writeln!(
            text,
            "{:<14} {}  KUBECONFIG={}",
            cluster.name,
            cluster.server,
            cluster.kubeconfig.display()
        );
    }
    if let Some(server) = &state.opensearch {
        let _ = write!(text, "{:<14} {}", "opensearch", server.url);
        if let (Some(username), Some(password), Some(ca_path)) =
            (&server.username, &server.password, &server.ca_path)
        {
            let _ = write!(
                text,
                "  user {username}, password {password}, CA {}",
                ca_path.display()
            );
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{:<14} {}", "etcd", state.etcd_url);
    let _ = writeln!(
        text,
        "\nlogs in {}, described in {}",
        fleet.dir().display(),
        fleet.state_file().display()
    );
    let _ = writeln!(text, "Ctrl-C to stop");
    text
}

/// Starts ourselves again without a terminal, and returns when the fleet is ready.
fn up_in_background(state_file: &Path) -> Result<()> {
    if let Ok(state) = FleetState::read(state_file)
        && !state.survivors().is_empty()
    {
        bail!(
            "{} describes a fleet that is running; `e2e down` stops it",
            state_file.display()
        );
    }
    let _ = std::fs::remove_file(state_file);
    let log_path = state_file.with_extension("out");
    if let Some(folder) = log_path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("creating {}", folder.display()))?;
    }
    let log = std::fs::File::create(&log_path)
        .with_context(|| format!("creating {}", log_path.display()))?;
    let errors = log.try_clone().context("sharing a log file")?;
    let arguments = std::env::args_os().skip(1).map(|argument| {
        if argument == "--detach" {
            "--in-background".into()
        } else {
            argument
        }
    });
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors);
    let mut child = command
        .spawn()
        .context("starting the fleet in the background")?;
    while !state_file.is_file() {
        if let Some(status) = child.try_wait().context("waiting for the fleet")? {
            let output = std::fs::read_to_string(&log_path).unwrap_or_default();
            bail!("the fleet did not start ({status}):\n{output}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    println!(
        "The fleet is ready and described in {}; `e2e down` stops it.",
        state_file.display()
    );
    Ok(())
}

fn down(state_file: &Path) -> Result<()> {
    let state = FleetState::read(state_file)?;
    state.stop()?;
    let _ = std::fs::remove_file(state_file);
    println!("stopped {} servers", state.processes.len());
    Ok(())
}
