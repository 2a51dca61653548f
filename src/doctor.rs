//! `fleetdex doctor`: checks what an installation depends on, and says what to do about each
//! problem.
//!
//! It connects as the operator does, with the same flags and environment variables, and changes
//! nothing.

mod cluster_settings;
mod control_plane;
mod disks;
mod distribution;
mod fleet;
mod measures;
mod operator;
mod renderers;
mod rights;
mod stores;

use std::{io, process::ExitCode, sync::Arc};

use clap::Args;
use fleetdex_checks::result::{CheckFormat, CheckResult, CheckStatus, print, worst};
use fleetdex_cli::ControlPlaneArgs;
use fleetdex_clusters::{
    secret_hosts::SecretHosts,
    source::{SourceArgs, Sources},
};
use fleetdex_interpreter::rules::RuleSet;
use fleetdex_operator::{
    MemberView, RegistryView,
    plan::{Plan, plan},
    store_settings::CredentialSource,
};
use fleetdex_rendering_commands::ProgramArgs;
use fleetdex_telemetry::{Metrics, Readiness};
pub use rights::OperatorFeatures;
use rights::operator_rights;
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// Checks what an installation depends on.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Exit code: 0 without an Error, 1 with one. Flags of `fleetdex run` that are set by environment variables hold here, too."
)]
pub struct DoctorArgs {
    /// The control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,

    /// User to impersonate on the control plane, such as that of the operator,
    /// `system:serviceaccount:fleetdex-system:fleetdex`.
    #[arg(long = "as", value_name = "USER")]
    pub impersonate: Option<String>,

    /// Admin port of a running operator.
    #[arg(
        long,
        value_name = "URL",
        env = "FLEETDEX_DOCTOR_ADMIN_URL",
        default_value = "http://127.0.0.1:8080"
    )]
    pub admin_url: String,

    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: CheckFormat,

    /// The sources of clusters.
    #[command(flatten)]
    pub sources: SourceArgs,

    /// The hosts that Secrets may be sent to.
    #[command(flatten)]
    pub secret_hosts: SecretHosts,

    /// What of the operator runs.
    #[command(flatten)]
    pub features: OperatorFeatures,

    /// The programs that render charts and folders.
    #[command(flatten)]
    pub programs: ProgramArgs,
}

/// Checks, and prints the results.
pub async fn run(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    args.sources.check()?;
    let results = check(&args).await?;
    print("Checkup", args.output, &results, &mut io::stdout().lock())?;
    Ok(match worst(&results) {
        CheckStatus::Error => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

async fn check(args: &DoctorArgs) -> anyhow::Result<Vec<CheckResult>> {
    let mut config = args.control_plane.config().await?;
    if let Some(user) = &args.impersonate {
        config.auth_info.impersonate = Some(user.clone());
    }
    let client = ControlPlaneArgs::client(&config)?;
    let mut control_plane = control_plane::check_version(&client).await;
    let operator = operator::check_operator(&args.admin_url).await;
    let registries = control_plane::registries(&client, &mut control_plane).await;
    let mut results = control_plane.results;
    let Some(registries) = registries else {
        results.extend(operator.results);
        return Ok(results);
    };
    let sources = Sources::new(
        client.clone(),
        args.sources.clone(),
        Arc::new(Metrics::new()),
        Readiness::new(),
        Arc::new(Notify::new()),
    );
    let mut tasks = JoinSet::new();
    sources.start(&mut tasks);
    let cancel = CancellationToken::new();
    let secret_hosts = args.secret_hosts.clone();
    let (snapshot, states) = fleet::connect(&client, secret_hosts, &sources, cancel.clone()).await;
    let rights = operator_rights(&args.features, &args.sources)?;
    let rights = control_plane::check_rights(&client, rights, &registries, &snapshot.members).await;
    results.extend(rights.results);
    results.extend(operator.results);
    results.extend(fleet::check_sources(&snapshot));
    let views: Vec<RegistryView> = registries.iter().map(RegistryView::from).collect();
    let members: Vec<MemberView> = states.values().map(MemberView::from).collect();
    let desired: Plan = plan(&views, &members, &RuleSet::default());
    results.extend(fleet::check_members(&states, &desired).await);
    if args.features.distribute {
        results.extend(renderers::check(&client, args.programs.find()?).await);
        results.extend(distribution::check_members(&client, &states).await);
    }
    let credentials = CredentialSource::Secrets(client, args.secret_hosts.clone());
    results.extend(stores::check_stores(&desired, &credentials).await);
    results.extend(control_plane::check_registries(&registries));
    cancel.cancel();
    tasks.shutdown().await;
    Ok(results)
}
