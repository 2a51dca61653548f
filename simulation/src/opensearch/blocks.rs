//! Blocks: what an operator or a full disk forbids.

use super::answer::Refusal;

/// The disk is nearly full.
pub(super) const FLOOD_STAGE: (u16, &str) = (
    429,
    "TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has read-only-allow-delete block",
);
/// `index.blocks.write`
pub(super) const WRITE: (u16, &str) = (403, "FORBIDDEN/8/index write (api)");

/// What a blocked index answers.
pub(super) fn refusal(index: &str, (status, block): (u16, &str)) -> Refusal {
    Refusal::new(
        status,
        "cluster_block_exception",
        format!("index [{index}] blocked by: [{block}];"),
    )
}
