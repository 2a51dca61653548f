//! Completion of command lines: scripts for shells, and the words themselves, some of which the server is asked for.
//!
//! A script calls the program back with the line so far, so it never gets old. kubectl completes its plugins by calling
//! `kubectl_complete-<plugin>`: <https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/>

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
    path::Path,
    time::Duration,
};

use clap::{Command, ValueEnum};
use clap_complete::{
    CompleteEnv, CompletionCandidate,
    engine::{ArgValueCompleter, complete},
    env::Shells,
};
use tokio::time::timeout;

use super::{
    api::{Api, ApiError, Place},
    get::resolve::Held,
};

/// What tells the program that a shell asks for words.
const VARIABLE: &str = "FLEETDEX_COMPLETE";
/// The name under which kubectl asks for words.
const KUBECTL_NAME: &str = "kubectl_complete-fleetdex";
/// `ShellCompDirectiveNoFileComp` of kubectl's command line library: no names of files.
const NO_FILES: &str = ":4";
/// Nobody waits longer for a word.
const PATIENCE: Duration = Duration::from_secs(2);
/// Names that are offered at most.
const MAX_NAMES: usize = 1_000;
/// Where clusters and namespaces are looked for first: these are everywhere, and few.
const SMALL_RESOURCES: [&str; 3] = ["namespaces", "nodes", "serviceaccounts"];

/// Prints a script that completes command lines.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "For example: source <(fleetdex completion bash). To complete `kubectl fleetdex`, too, link the program as kubectl_complete-fleetdex \
                        beside kubectl-fleetdex."
)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// A shell that can be helped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// Bash
    Bash,
    /// Elvish
    Elvish,
    /// Fish
    Fish,
    /// `PowerShell`
    Powershell,
    /// Zsh
    Zsh,
}

impl Shell {
    fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Elvish => "elvish",
            Self::Fish => "fish",
            Self::Powershell => "powershell",
            Self::Zsh => "zsh",
        }
    }
}

/// Prints the script.
pub fn run(args: &Args, out: &mut dyn Write) -> io::Result<()> {
    let Some(script) = Shells::builtins()
        .completer(args.shell.name())
        .map(|shell| {
            let mut script = Vec::new();
            shell
                .write_registration(VARIABLE, "fleetdex", "fleetdex", "fleetdex", &mut script)
                .map(|()| script)
        })
    else {
        return Err(io::Error::other(format!(
            "there is no completion for {}",
            args.shell.name()
        )));
    };
    out.write_all(&script?)
}

/// Answers if a shell, or kubectl, asks for words. Whether it did.
pub fn answered(command: impl Fn() -> Command) -> bool {
    let words: Vec<OsString> = std::env::args_os().collect();
    let is_kubectl = words
        .first()
        .and_then(|program| Path::new(program).file_stem())
        .is_some_and(|name| name == KUBECTL_NAME);
    if is_kubectl {
        // What cannot be completed, or not be told, is not completed.
        let _told = tell_kubectl(command(), &words[1..], &mut io::stdout());
        return true;
    }
    let folder = std::env::current_dir().ok();
    match CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .try_complete(words, folder.as_deref())
    {
        Ok(has_answered) => has_answered,
        Err(error) => error.exit(),
    }
}

/// The last word is the one to complete.
fn tell_kubectl(mut command: Command, words: &[OsString], out: &mut dyn Write) -> io::Result<()> {
    let line: Vec<OsString> = std::iter::once(OsString::from("fleetdex"))
        .chain(words.iter().cloned())
        .collect();
    let last = line.len() - 1;
    for candidate in complete(&mut command, line, last, None)?
        .iter()
        .filter(|candidate| !candidate.is_hide_set())
    {
        let help = candidate
            .get_help()
            .map(|help| format!("\t{}", help.to_string().lines().next().unwrap_or_default()));
        writeln!(
            out,
            "{}{}",
            candidate.get_value().display(),
            help.unwrap_or_default()
        )?;
    }
    writeln!(out, "{NO_FILES}")
}

/// Completes the word for resources, one or several with commas.
pub(super) fn resources() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let current = current.to_string_lossy();
        let (before, _) = current
            .rsplit_once(',')
            .map_or(("", ""), |(before, last)| (before, last));
        let prefix = if before.is_empty() {
            String::new()
        } else {
            format!("{before},")
        };
        offered(
            &current,
            asked(async |api| {
                Ok(api
                    .held()
                    .await?
                    .iter()
                    .map(Held::qualified_plural)
                    .collect())
            }),
            &prefix,
        )
    })
}

/// Completes the value of `--namespace`.
pub(super) fn namespaces() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        offered(
            &current.to_string_lossy(),
            asked(async |api| values(api, "namespace").await),
            "",
        )
    })
}

/// Completes the value of `--cluster`.
pub(super) fn clusters() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        offered(
            &current.to_string_lossy(),
            asked(async |api| values(api, "cluster").await),
            "",
        )
    })
}

fn offered(current: &str, words: Vec<String>, prefix: &str) -> Vec<CompletionCandidate> {
    let whole = words.into_iter().map(|word| format!("{prefix}{word}"));
    whole
        .filter(|word| word.starts_with(current) && is_plain(word))
        .map(CompletionCandidate::new)
        .collect()
}

/// Whether a shell takes a word for nothing but text. Names come from members, which may have made them up.
fn is_plain(word: &str) -> bool {
    word.chars()
        .all(|letter| letter.is_alphanumeric() || "-_./:,@%+=".contains(letter))
}

/// Asks the server that the environment leads to. Whatever goes wrong, there are just no words.
fn asked(question: impl AsyncFnOnce(&Api) -> Result<Vec<String>, ApiError>) -> Vec<String> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    else {
        return Vec::new();
    };
    runtime.block_on(async {
        let Some(place) = Place::of_environment() else {
            return Vec::new();
        };
        let answer = timeout(PATIENCE, async { question(&Api::new(&place).await?).await }).await;
        answer.ok().and_then(Result::ok).unwrap_or_default()
    })
}

/// The clusters or namespaces that hold anything of a resource.
async fn values(api: &Api, by: &str) -> Result<Vec<String>, ApiError> {
    let held = api.held().await?;
    let usable = |entry: &&Held| {
        by == "cluster" || entry.resource.namespaced || entry.resource.name == "namespaces"
    };
    let small = SMALL_RESOURCES.iter().find_map(|name| {
        held.iter()
            .filter(usable)
            .find(|entry| entry.resource.name == *name)
    });
    let Some(resource) = small.or_else(|| held.iter().find(usable)) else {
        return Ok(Vec::new());
    };
    let key = if by == "namespace" && resource.resource.name == "namespaces" {
        "metadata.name"
    } else {
        by
    };
    let parameters = [("by", key.to_owned()), ("top", MAX_NAMES.to_string())];
    let counts = api.count(&resource.path(None), &parameters).await?;
    let mut names: Vec<String> = counts
        .items
        .into_iter()
        .filter_map(|group| group.values.into_iter().next()?)
        .collect();
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Args as _};

    use super::*;

    fn command() -> Command {
        let completion = Args::augment_args(Command::new("completion"));
        Command::new("fleetdex").subcommand(completion).subcommand(
            Command::new("get")
                .about("Gets")
                .arg(Arg::new("resource"))
                .arg(
                    Arg::new("output")
                        .long("output")
                        .value_parser(["json", "yaml"]),
                ),
        )
    }

    fn words(line: &[&str]) -> String {
        let line: Vec<OsString> = line.iter().map(OsString::from).collect();
        let mut out = Vec::new();
        tell_kubectl(command(), &line, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn kubectl_is_told_words_with_their_meaning() {
        assert_eq!(words(&["ge"]), "get\tGets\n:4\n");
        assert_eq!(words(&["get", "--output", "j"]), "json\n:4\n");
        assert!(words(&["completion", ""]).contains("zsh\tZsh\n"));
    }

    #[test]
    fn every_shell_has_a_script_that_calls_the_program_back() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            run(&Args { shell: *shell }, &mut script).unwrap();
            let script = String::from_utf8(script).unwrap();
            assert!(
                script.contains(VARIABLE) && script.contains("fleetdex"),
                "{shell:?}: {script}"
            );
        }
    }

    #[test]
    fn a_list_is_completed_at_its_end() {
        let offered = offered(
            "pods,s",
            vec!["pods".to_owned(), "services".to_owned()],
            "pods,",
        );
        assert_eq!(
            offered
                .iter()
                .map(CompletionCandidate::get_value)
                .collect::<Vec<_>>(),
            ["pods,services"]
        );
    }
}
