//! Shell completion: the scripts, and the candidates, some of which come from the server.
//!
//! A script calls the program with the current command line, so it never gets outdated. kubectl
//! completes its plugins by calling `kubectl_complete-<plugin>`:
//! <https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/>

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, Write},
    path::Path,
    time::Duration,
};

use clap::{Command, ValueEnum, builder::PossibleValue};
use clap_complete::{
    CompleteEnv, CompletionCandidate,
    engine::{ArgValueCompleter, complete},
    env::Shells,
};
use tokio::time::timeout;

use super::{
    api::{Api, ClientConfig, ClientError},
    resources::DiscoveredResource,
};

/// The environment variable by which a script requests candidates.
const VARIABLE: &str = "FLEETDEX_COMPLETE";
/// The environment variable with the command line up to the cursor, which the script for Bash sets.
const LINE_VARIABLE: &str = "FLEETDEX_COMPLETE_LINE";
/// The name under which kubectl requests candidates.
const KUBECTL_NAME: &str = "kubectl_complete-fleetdex";
/// `ShellCompDirectiveNoFileComp` of Cobra, kubectl's command line library: no file names.
const NO_FILES: &str = ":4";
/// How long completion waits for the server.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of candidates from the server.
const MAX_NAMES: usize = 1_000;
/// Resources that every cluster has few of: clusters and namespaces are read from the first that is
/// served.
const SMALL_RESOURCES: [&str; 3] = ["namespaces", "nodes", "serviceaccounts"];

/// Prints a shell completion script.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "For example: source <(fleetdex completion bash). To complete `kubectl fleetdex`, too, link the program as kubectl_complete-fleetdex \
                        beside kubectl-fleetdex."
)]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// A supported shell.
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

/// Prints the script.
pub fn run(args: &CompletionArgs, out: &mut dyn Write) -> io::Result<()> {
    let value = args.shell.to_possible_value();
    let name = value.as_ref().map_or("", PossibleValue::get_name);
    let shells = Shells::builtins();
    let shell = shells
        .completer(name)
        .ok_or_else(|| io::Error::other(format!("there is no completion for {name}")))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "fleetdex", "fleetdex", "fleetdex", &mut script)?;
    out.write_all(&with_line(script))
}

/// Adds the line up to the cursor to what the script for Bash sends: Bash splits a query word at
/// `:`, `=` and `<`, and sends only the last part.
fn with_line(script: Vec<u8>) -> Vec<u8> {
    let Ok(text) = String::from_utf8(script) else {
        return Vec::new();
    };
    let variable = format!("{VARIABLE}=\"bash\"");
    let line = format!("{LINE_VARIABLE}=\"${{COMP_LINE:0:$COMP_POINT}}\" {variable}");
    text.replace(&variable, &line).into_bytes()
}

/// Prints candidates if a shell or kubectl requests them; returns whether one did.
pub fn complete_if_requested(command: impl Fn() -> Command) -> bool {
    let words: Vec<OsString> = env::args_os().collect();
    let is_kubectl = words
        .first()
        .and_then(|program| Path::new(program).file_stem())
        .is_some_and(|name| name == KUBECTL_NAME);
    if is_kubectl {
        // Without candidates nothing is completed.
        let _result = print_for_kubectl(command(), &words[1..], &mut io::stdout());
        return true;
    }
    let folder = env::current_dir().ok();
    match CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .try_complete(words, folder.as_deref())
    {
        Ok(has_completed) => has_completed,
        Err(error) => error.exit(),
    }
}

/// Prints the candidates for the last word, as Cobra expects them.
fn print_for_kubectl(
    mut command: Command,
    words: &[OsString],
    out: &mut dyn Write,
) -> io::Result<()> {
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

/// Completes resource types, one or several separated by commas.
pub(super) fn resources() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let current = current.to_string_lossy();
        let comma = current.rfind(',').filter(|comma| *comma > 0);
        let prefix = comma.map_or("", |comma| &current[..=comma]);
        let served = query_server(async |api| {
            let resources = api.resources().await?;
            let names = resources.iter().map(DiscoveredResource::qualified_plural);
            Ok(names.collect())
        });
        candidates(&current, served, prefix)
    })
}

/// Completes the value of `--namespace`.
pub(super) fn namespaces() -> ArgValueCompleter {
    values_of("namespace")
}

/// Completes the value of `--cluster`.
pub(super) fn clusters() -> ArgValueCompleter {
    values_of("cluster")
}

fn values_of(by: &'static str) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let served = query_server(async |api| values(api, by).await);
        candidates(&current.to_string_lossy(), served, "")
    })
}

fn candidates(current: &str, names: Vec<String>, prefix: &str) -> Vec<CompletionCandidate> {
    let whole = names.into_iter().map(|word| format!("{prefix}{word}"));
    whole
        .filter(|word| word.starts_with(current) && is_plain(word))
        .map(CompletionCandidate::new)
        .collect()
}

/// The word before the cursor, and how much of it the shell does not replace. `current` is what the
/// shell sends.
pub(super) fn word_before_cursor(current: &str) -> (String, usize) {
    word_of_line(current, env::var(LINE_VARIABLE).ok().as_deref())
}

/// The words of the command line up to the cursor, as the shell or kubectl has sent them.
pub(super) fn words_of_line() -> Vec<String> {
    match env::var(LINE_VARIABLE) {
        Ok(line) => line.split(char::is_whitespace).map(str::to_owned).collect(),
        Err(_) => env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
    }
}

fn word_of_line(current: &str, line: Option<&str>) -> (String, usize) {
    let word = line.and_then(|line| line.rsplit(char::is_whitespace).next());
    match word {
        Some(word) if word.ends_with(current) => (word.to_owned(), word.len() - current.len()),
        _ => (current.to_owned(), 0),
    }
}

/// Whether a shell reads a word as plain text. Names come from members, which are not trusted.
pub(super) fn is_plain(word: &str) -> bool {
    word.chars()
        .all(|letter| letter.is_alphanumeric() || "-_./:,@%+=".contains(letter))
}

/// Queries the server that the environment names; returns nothing on any error.
pub(super) fn query_server<T: Default>(
    request: impl AsyncFnOnce(&Api) -> Result<T, ClientError>,
) -> T {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    else {
        return T::default();
    };
    runtime.block_on(async {
        let Some(config) = ClientConfig::from_environment() else {
            return T::default();
        };
        let answer = timeout(TIMEOUT, async { request(&Api::new(&config).await?).await }).await;
        answer.ok().and_then(Result::ok).unwrap_or_default()
    })
}

/// Returns the clusters or namespaces that contain objects of a common resource.
async fn values(api: &Api, by: &str) -> Result<Vec<String>, ClientError> {
    let resources = api.resources().await?;
    let usable = |entry: &&DiscoveredResource| {
        by == "cluster" || entry.api.namespaced || entry.api.name == "namespaces"
    };
    let small = SMALL_RESOURCES.iter().find_map(|name| {
        resources
            .iter()
            .filter(usable)
            .find(|entry| entry.api.name == *name)
    });
    let Some(resource) = small.or_else(|| resources.iter().find(usable)) else {
        return Ok(Vec::new());
    };
    let key = if by == "namespace" && resource.api.name == "namespaces" {
        "metadata.name"
    } else {
        by
    };
    let parameters = [("by", key.to_owned()), ("top", MAX_NAMES.to_string())];
    let (counts, _) = api.count(&resource.path(None), &parameters).await?;
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
        let completion = CompletionArgs::augment_args(Command::new("completion"));
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
        print_for_kubectl(command(), &line, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn candidates_for_kubectl_have_descriptions() {
        assert_eq!(words(&["ge"]), "get\tGets\n:4\n");
        assert_eq!(words(&["get", "--output", "j"]), "json\n:4\n");
        assert!(words(&["completion", ""]).contains("zsh\tZsh\n"));
    }

    #[test]
    fn every_script_calls_the_program() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            run(&CompletionArgs { shell: *shell }, &mut script).unwrap();
            let script = String::from_utf8(script).unwrap();
            assert!(
                script.contains(VARIABLE) && script.contains("fleetdex"),
                "{shell:?}: {script}"
            );
        }
    }

    #[test]
    fn bash_sends_the_line_because_it_splits_words() {
        let mut script = Vec::new();
        run(&CompletionArgs { shell: Shell::Bash }, &mut script).unwrap();
        let script = String::from_utf8(script).unwrap();
        let expected =
            "FLEETDEX_COMPLETE_LINE=\"${COMP_LINE:0:$COMP_POINT}\" FLEETDEX_COMPLETE=\"bash\"";
        assert!(script.contains(expected), "{script}");
        let word = |current: &str, line: &str| word_of_line(current, Some(line));
        assert_eq!(
            word("po", "fleetdex search kind:po"),
            ("kind:po".to_owned(), 5)
        );
        assert_eq!(word("", "fleetdex search kind:"), ("kind:".to_owned(), 5));
        assert_eq!(word("we", "fleetdex search we"), ("we".to_owned(), 0));
        assert_eq!(word("a", "fleetdex search "), ("a".to_owned(), 0));
        assert_eq!(word_of_line("kind:po", None), ("kind:po".to_owned(), 0));
    }

    #[test]
    fn the_last_element_of_a_list_is_completed() {
        let offered = candidates(
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
