//! How long a continue token is valid, and why one is not accepted.

use std::time::Duration;

/// How long a token is valid: as long as the stores keep the view that the next page is read from.
pub const LIFETIME: Duration = Duration::from_mins(5);

/// A continue token is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// No replica of this installation has issued it. The HTTP status is 400.
    #[error("the continue token is malformed; start the list again without it")]
    Malformed,
    /// It was issued to another user. The HTTP status is 400.
    #[error("the continue token was issued to another user; start the list again without it")]
    OtherCaller,
    /// Resource, selectors, clusters, namespaces, names, owners, times, store or order differ from
    /// the first page's. The HTTP status is 400.
    #[error(
        "the continue token belongs to another query; send the parameters of the first page with it, or start again without it"
    )]
    OtherQuery,
    /// The caller's permissions have changed since the token was issued. The HTTP status is 410,
    /// after which clients list again.
    #[error(
        "what you may see has changed since the first page; start the list again without the continue token"
    )]
    OtherPermission,
    /// It is older than [`LIFETIME`], or its key is unknown. The HTTP status is 410, after which
    /// clients list again.
    #[error("the continue token has expired; start the list again without it")]
    Expired,
}
