//! Index blocks, which an administrator or a full disk sets.

use super::response::Exception;

/// The disk is nearly full.
pub(super) const FLOOD_STAGE: (u16, &str) = (
    429,
    "TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has read-only-allow-delete block",
);
/// `index.blocks.write`
pub(super) const WRITE: (u16, &str) = (403, "FORBIDDEN/8/index write (api)");

/// The exception of a blocked index.
pub(super) fn exception(index: &str, (status, block): (u16, &str)) -> Exception {
    Exception::new(
        status,
        "cluster_block_exception",
        format!("index [{index}] blocked by: [{block}];"),
    )
}
