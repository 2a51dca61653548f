//! Where the server is: on this machine, opened by a token in a file, or behind the apiserver of a kubeconfig.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command, FromArgMatches, error::ErrorKind, parser::ValueSource};
use fleetdex_server::auth::{TOKEN_FILE_VARIABLE, default_token_file};

/// Where `fleetdex run` and `fleetdex local` listen unless they are told otherwise.
const DEFAULT_SERVER: &str = "http://127.0.0.1:8443";

/// The rule, as `--help` tells it.
const RULE: &str = "The server to ask; http://127.0.0.1:8443 unless said otherwise. --server or --token-file lead to a server on this machine, --kubeconfig or --context to the apiserver of a \
     kubeconfig; flags count before their variables; with neither, a token file that is there leads to the server on this machine, and \
     otherwise the kubeconfig's apiserver is asked, as kubectl asks it.";

/// Where the server is, and what opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A server that wants the token of a file.
    Direct {
        /// Its URL.
        server: String,
        /// The file that it wrote its token to.
        token_file: PathBuf,
    },
    /// The apiserver of a kubeconfig, which hands requests on to the server.
    Apiserver {
        /// The file; nothing for what kubectl reads.
        kubeconfig: Option<PathBuf>,
        /// The context; nothing for the current one.
        context: Option<String>,
    },
}

/// The flags that say where the server is.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Where the server is")]
struct Words {
    /// The server to ask; <http://127.0.0.1:8443> unless said otherwise
    #[arg(long, value_name = "URL", env = "FLEETDEX_SERVER", long_help = RULE)]
    server: Option<String>,

    /// The file that the server wrote its token to
    #[arg(long, value_name = "FILE", env = TOKEN_FILE_VARIABLE)]
    token_file: Option<PathBuf>,

    /// Ask through the apiserver of this kubeconfig; otherwise what kubectl reads: KUBECONFIG, then ~/.kube/config
    #[arg(long, value_name = "FILE", env = "FLEETDEX_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,

    /// The kubeconfig's context to use instead of the current one
    #[arg(long, value_name = "NAME", env = "FLEETDEX_CONTEXT")]
    context: Option<String>,
}

/// Which kinds of place are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    direct: bool,
    apiserver: bool,
}

impl clap::Args for Place {
    fn augment_args(command: Command) -> Command {
        Words::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Words::augment_args_for_update(command)
    }
}

impl FromArgMatches for Place {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let words = Words::from_arg_matches(matches)?;
        let named = |source: ValueSource| {
            let is_named = |id: &str| matches.value_source(id) == Some(source);
            Named {
                direct: is_named("server") || is_named("token_file"),
                apiserver: is_named("kubeconfig") || is_named("context"),
            }
        };
        Self::choose(
            words,
            named(ValueSource::CommandLine),
            named(ValueSource::EnvVariable),
            &default_token_file(),
        )
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Place {
    /// Where a command without any flag looks. Nothing if the environment is at odds with itself.
    pub fn of_environment() -> Option<Self> {
        let command = <Self as clap::Args>::augment_args(Command::new("fleetdex"));
        Self::from_arg_matches(&command.try_get_matches_from(["fleetdex"]).ok()?).ok()
    }

    fn choose(
        words: Words,
        by_flag: Named,
        by_variable: Named,
        usual_token_file: &Path,
    ) -> Result<Self, clap::Error> {
        let is_direct = match (by_flag, by_variable) {
            (
                Named {
                    direct: true,
                    apiserver: true,
                },
                _,
            ) => {
                let problem = "--server and --token-file lead to another server than --kubeconfig and --context; give one of the two";
                return Err(clap::Error::raw(
                    ErrorKind::ArgumentConflict,
                    format!("{problem}\n"),
                ));
            }
            (Named { direct: true, .. }, _) => true,
            (
                Named {
                    apiserver: true, ..
                },
                _,
            ) => false,
            (_, Named { direct: true, .. }) => true,
            (
                _,
                Named {
                    apiserver: true, ..
                },
            ) => false,
            _ => usual_token_file.exists(),
        };
        if !is_direct {
            return Ok(Self::Apiserver {
                kubeconfig: words.kubeconfig,
                context: words.context,
            });
        }
        Ok(Self::Direct {
            server: words.server.unwrap_or_else(|| DEFAULT_SERVER.to_owned()),
            token_file: words
                .token_file
                .unwrap_or_else(|| usual_token_file.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Named = Named {
        direct: false,
        apiserver: false,
    };
    const DIRECT: Named = Named {
        direct: true,
        apiserver: false,
    };
    const APISERVER: Named = Named {
        direct: false,
        apiserver: true,
    };

    fn is_direct(by_flag: Named, by_variable: Named, token_file: &Path) -> bool {
        matches!(
            Place::choose(Words::default(), by_flag, by_variable, token_file).unwrap(),
            Place::Direct { .. }
        )
    }

    #[test]
    fn flags_count_before_variables_and_these_before_a_token_file_that_is_there() {
        let there = tempfile::NamedTempFile::new().unwrap();
        let absent = Path::new("/nowhere/token");
        assert!(is_direct(DIRECT, APISERVER, absent));
        assert!(!is_direct(APISERVER, DIRECT, there.path()));
        assert!(is_direct(NOTHING, DIRECT, absent));
        assert!(!is_direct(NOTHING, APISERVER, there.path()));
        assert!(is_direct(NOTHING, NOTHING, there.path()));
        assert!(!is_direct(NOTHING, NOTHING, absent));
    }

    #[test]
    fn flags_of_both_kinds_are_refused() {
        let both = Named {
            direct: true,
            apiserver: true,
        };
        let error = Place::choose(Words::default(), both, NOTHING, Path::new("/x")).unwrap_err();
        assert!(error.to_string().contains("give one of the two"), "{error}");
    }

    #[test]
    fn the_command_line_is_told_from_the_environment() {
        let parse = |words: &[&str]| {
            let command = <Place as clap::Args>::augment_args(Command::new("x"));
            Place::from_arg_matches(&command.try_get_matches_from(words)?)
        };
        let direct = parse(&["x", "--server", "http://127.0.0.1:1", "--token-file", "/t"]).unwrap();
        assert_eq!(
            direct,
            Place::Direct {
                server: "http://127.0.0.1:1".to_owned(),
                token_file: "/t".into()
            }
        );
        let apiserver = parse(&["x", "--context", "prod"]).unwrap();
        assert_eq!(
            apiserver,
            Place::Apiserver {
                kubeconfig: None,
                context: Some("prod".to_owned())
            }
        );
        assert!(parse(&["x", "--context", "prod", "--server", "http://127.0.0.1:1"]).is_err());
    }
}
