//! Where a server that is served on this machine alone keeps its token, for its clients here.

use std::path::PathBuf;

/// The environment variable of `--token-file`.
pub const TOKEN_FILE_VARIABLE: &str = "FLEETDEX_TOKEN_FILE";

/// The default of `--token-file`, for the server and for commands like `fleetdex get`:
/// `$XDG_RUNTIME_DIR/fleetdex/token`, or `/tmp/fleetdex/token` where there is no such folder.
pub fn default_token_file() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    runtime
        .map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
        .join("fleetdex")
        .join("token")
}
