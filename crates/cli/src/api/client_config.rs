//! Selects the server: one on this machine with a token file, or one behind the apiserver of a
//! kubeconfig.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command, FromArgMatches, error::ErrorKind, parser::ValueSource};
use fleetdex_query_api::token_file::{TOKEN_FILE_VARIABLE, default_token_file};

/// The default address of `fleetdex run` and `fleetdex local`.
const DEFAULT_SERVER: &str = "http://127.0.0.1:8443";

/// The long help of `--server`.
const PRECEDENCE: &str = "URL of the server; the default is http://127.0.0.1:8443. --server or --token-file select a server on this machine, --kubeconfig or \
     --context the apiserver of a kubeconfig. Flags take precedence over environment variables. Without either, the server on this \
     machine is used if its token file exists, and otherwise the apiserver of the kubeconfig, as in kubectl.";

/// How to reach the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientConfig {
    /// Directly, with the token of a file.
    Direct {
        /// URL of the server.
        server: String,
        /// The file with its token.
        token_file: PathBuf,
    },
    /// Through the apiserver of a kubeconfig, by the aggregation layer.
    Apiserver {
        /// The file; `None` for those of kubectl.
        kubeconfig: Option<PathBuf>,
        /// The context; `None` for the current one.
        context: Option<String>,
    },
}

/// The flags that select the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Server")]
struct ClientFlags {
    /// URL of the server [default: <http://127.0.0.1:8443>]
    #[arg(long, value_name = "URL", env = "FLEETDEX_SERVER", long_help = PRECEDENCE)]
    server: Option<String>,

    /// File with the token of the server
    #[arg(long, value_name = "FILE", env = TOKEN_FILE_VARIABLE)]
    token_file: Option<PathBuf>,

    /// Use the apiserver of this kubeconfig [default: KUBECONFIG, then ~/.kube/config]
    #[arg(long, value_name = "FILE", env = "FLEETDEX_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME", env = "FLEETDEX_CONTEXT")]
    context: Option<String>,
}

/// Which kinds of server the flags, or the variables, select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NamedFlags {
    direct: bool,
    apiserver: bool,
}

impl NamedFlags {
    /// `None` if neither is selected.
    fn is_direct(self) -> Option<bool> {
        (self.direct || self.apiserver).then_some(self.direct)
    }
}

impl clap::Args for ClientConfig {
    fn augment_args(command: Command) -> Command {
        ClientFlags::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        ClientFlags::augment_args_for_update(command)
    }
}

impl FromArgMatches for ClientConfig {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = ClientFlags::from_arg_matches(matches)?;
        let named = |source: ValueSource| {
            let is_named = |id: &str| matches.value_source(id) == Some(source);
            NamedFlags {
                direct: is_named("server") || is_named("token_file"),
                apiserver: is_named("kubeconfig") || is_named("context"),
            }
        };
        Self::choose(
            flags,
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

impl ClientConfig {
    /// Selects the server without flags. `None` if the environment variables contradict each other.
    pub fn from_environment() -> Option<Self> {
        let command = <Self as clap::Args>::augment_args(Command::new("fleetdex"));
        Self::from_arg_matches(&command.try_get_matches_from(["fleetdex"]).ok()?).ok()
    }

    /// Selects the server beside a control plane that flags or variables may name: a server or a
    /// token file comes first, then the apiserver of the control plane, then what is used without
    /// flags.
    pub fn beside(
        server: Option<String>,
        token_file: Option<PathBuf>,
        kubeconfig: Option<PathBuf>,
        context: Option<String>,
    ) -> Self {
        let flags = ClientFlags {
            server,
            token_file,
            kubeconfig,
            context,
        };
        let named = NamedFlags {
            direct: flags.server.is_some() || flags.token_file.is_some(),
            apiserver: flags.kubeconfig.is_some() || flags.context.is_some(),
        };
        Self::of(flags, named.is_direct(), &default_token_file())
    }

    fn choose(
        flags: ClientFlags,
        by_flag: NamedFlags,
        by_variable: NamedFlags,
        default_token_path: &Path,
    ) -> Result<Self, clap::Error> {
        if by_flag.direct && by_flag.apiserver {
            let problem = "--server and --token-file select another server than --kubeconfig and --context; use one of the two\n";
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, problem));
        }
        let is_direct = by_flag.is_direct().or(by_variable.is_direct());
        Ok(Self::of(flags, is_direct, default_token_path))
    }

    /// `is_direct`: which kind of server is selected; `None`: neither.
    fn of(flags: ClientFlags, is_direct: Option<bool>, default_token_path: &Path) -> Self {
        if !is_direct.unwrap_or_else(|| default_token_path.exists()) {
            return Self::Apiserver {
                kubeconfig: flags.kubeconfig,
                context: flags.context,
            };
        }
        Self::Direct {
            server: flags.server.unwrap_or_else(|| DEFAULT_SERVER.to_owned()),
            token_file: flags
                .token_file
                .unwrap_or_else(|| default_token_path.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: NamedFlags = NamedFlags {
        direct: false,
        apiserver: false,
    };
    const DIRECT: NamedFlags = NamedFlags {
        direct: true,
        apiserver: false,
    };
    const APISERVER: NamedFlags = NamedFlags {
        direct: false,
        apiserver: true,
    };

    fn is_direct(by_flag: NamedFlags, by_variable: NamedFlags, token_file: &Path) -> bool {
        matches!(
            ClientConfig::choose(ClientFlags::default(), by_flag, by_variable, token_file).unwrap(),
            ClientConfig::Direct { .. }
        )
    }

    #[test]
    fn flags_take_precedence_over_variables_and_these_over_an_existing_token_file() {
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
    fn beside_a_control_plane_a_named_server_comes_first() {
        let server = || Some("http://127.0.0.1:1".to_owned());
        let is_direct = |server, context| {
            let selected = ClientConfig::beside(server, None, None, context);
            matches!(selected, ClientConfig::Direct { .. })
        };
        let context = || Some("prod".to_owned());
        assert!(is_direct(server(), context()));
        assert!(is_direct(server(), None));
        assert!(!is_direct(None, context()));
    }

    #[test]
    fn flags_of_both_kinds_are_refused() {
        let both = NamedFlags {
            direct: true,
            apiserver: true,
        };
        let error = ClientConfig::choose(ClientFlags::default(), both, NOTHING, Path::new("/x"))
            .unwrap_err();
        assert!(error.to_string().contains("use one of the two"), "{error}");
    }

    #[test]
    fn flags_select_the_server() {
        let parse = |words: &[&str]| {
            let command = <ClientConfig as clap::Args>::augment_args(Command::new("x"));
            ClientConfig::from_arg_matches(&command.try_get_matches_from(words)?)
        };
        let direct = parse(&["x", "--server", "http://127.0.0.1:1", "--token-file", "/t"]).unwrap();
        assert_eq!(
            direct,
            ClientConfig::Direct {
                server: "http://127.0.0.1:1".to_owned(),
                token_file: "/t".into()
            }
        );
        let apiserver = parse(&["x", "--context", "prod"]).unwrap();
        assert_eq!(
            apiserver,
            ClientConfig::Apiserver {
                kubeconfig: None,
                context: Some("prod".to_owned())
            }
        );
        assert!(parse(&["x", "--context", "prod", "--server", "http://127.0.0.1:1"]).is_err());
    }
}
