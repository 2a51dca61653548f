//! The flags of `fleetdex interpret`.

use super::output::ResultFormat;

/// Runs an operation of a resource interpreter on objects in files.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(after_help = "\
Who answers: the customizations of --filename, the health scripts of --argocd-health, the webhooks of --webhooks, and without
--filename the built-in rules. The first that has a rule for the operation and the kind decides.

For example:
  fleetdex interpret --operation InterpretHealth --observed-file pod.yaml -o json
  fleetdex interpret -f customization.yaml --check
  fleetdex interpret -f customization.yaml --edit
  fleetdex interpret -f customization.yaml --operation Retain --desired-file desired.yaml --observed-file observed.yaml
  fleetdex interpret --webhooks webhooks.yaml --operation InterpretReplica --desired-file workload.yaml

Exit code: 1 if the operation fails, or if --check finds an error.")]
#[expect(clippy::doc_markdown, reason = "these are the texts of --help")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct InterpretArgs {
    /// Files, folders or URLs with ResourceInterpreterCustomizations; - is standard input
    /// (repeatable, or separated by commas)
    #[arg(
        short = 'f',
        long = "filename",
        value_name = "FILE",
        value_delimiter = ','
    )]
    pub filenames: Vec<String>,

    /// Read the folders of --filename with all folders below
    #[arg(short = 'R', long)]
    pub recursive: bool,

    /// The operation, in any case: Retain, InterpretReplica, InterpretComponent, ReviseReplica,
    /// InterpretStatus, AggregateStatus, InterpretHealth, InterpretDependency or Prune, or a name
    /// of ResourceExploringWebhookConfiguration
    #[arg(long, value_name = "OPERATION")]
    pub operation: Option<String>,

    /// Check the customizations of --filename: their targets, and whether their scripts compile
    #[arg(long)]
    pub check: bool,

    /// Edit the one customization of --filename as a Lua file, in the editor of KUBE_EDITOR or
    /// EDITOR, and save it there; one of standard input or a URL is printed. With --show-doc the
    /// file says what each rule is for
    #[arg(long, conflicts_with_all = ["check", "operation"])]
    pub edit: bool,

    /// Print what each rule of a customization is for, with an example
    #[arg(long)]
    pub show_doc: bool,

    /// The object as it shall be: a file or URL, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub desired_file: Option<String>,

    /// The object as its member has it: a file or URL, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub observed_file: Option<String>,

    /// What each member reports, for AggregateStatus: a file or URL with AggregatedStatusItems,
    /// or - for standard input
    #[arg(long, value_name = "FILE")]
    pub status_file: Option<String>,

    /// The number of replicas that the object shall have, for ReviseReplica
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub desired_replica: i32,

    /// A health script of Argo CD: Lua, or a ConfigMap with keys
    /// `resource.customizations.health.<group>_<kind>`
    #[arg(long, value_name = "FILE")]
    pub argocd_health: Option<String>,

    /// Files with a ResourceInterpreterWebhookConfiguration or
    /// ResourceExploringWebhookConfiguration, whose webhooks are called (repeatable, or separated
    /// by commas)
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub webhooks: Vec<String>,

    /// Where to connect instead of to the host of a webhook, such as a forwarded port of its
    /// Service
    #[arg(long, value_name = "HOST:PORT", requires = "webhooks")]
    pub webhook_address: Option<String>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: ResultFormat,
}
