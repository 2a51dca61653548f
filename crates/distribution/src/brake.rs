//! Keeps one mistake on the control plane from emptying a cluster.
//!
//! A namespace, a definition or a selector that is deleted takes many objects with it. Where that
//! would delete more than a few, and more than a part of what a cluster has, nothing is deleted
//! there until a user lets it go.

use std::{fmt, str::FromStr, time::Duration};

/// So many deletions are never held.
const ALWAYS_FREE: usize = 10;

/// Deletions within this time count as one change: a namespace is deleted object by object.
pub const BRAKE_WINDOW: Duration = Duration::from_mins(1);

/// Which part of the objects of a cluster one change may delete, in percent; `off`: all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletionBrake(Option<u8>);

impl Default for DeletionBrake {
    fn default() -> Self {
        Self(Some(20))
    }
}

impl DeletionBrake {
    /// Whether deletions are held: `pending` are left over, `recent` were deleted within
    /// [`BRAKE_WINDOW`], and `total` is what the cluster has of the control plane, the pending
    /// ones included.
    pub fn holds(self, pending: usize, recent: usize, total: usize) -> bool {
        let Some(percent) = self.0 else {
            return false;
        };
        let deleted = pending.saturating_add(recent);
        let total = total.saturating_add(recent);
        pending > 0
            && deleted > ALWAYS_FREE
            && deleted.saturating_mul(100) > total.saturating_mul(usize::from(percent))
    }
}

/// Why a text is no [`DeletionBrake`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use a percentage from 0 to 100, such as 20, or off")]
pub struct InvalidDeletionBrake;

impl FromStr for DeletionBrake {
    type Err = InvalidDeletionBrake;

    fn from_str(text: &str) -> Result<Self, InvalidDeletionBrake> {
        if text == "off" {
            return Ok(Self(None));
        }
        let percent = text.trim_end_matches('%').parse();
        match percent {
            Ok(percent @ 0..=100) => Ok(Self(Some(percent))),
            _ => Err(InvalidDeletionBrake),
        }
    }
}

impl fmt::Display for DeletionBrake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(percent) => write!(out, "{percent}"),
            None => out.write_str("off"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_deletions_of_a_large_part_are_held() {
        for (brake, pending, recent, total, holds) in [
            ("20", 10, 0, 10, false),
            ("20", 11, 0, 11, true),
            ("20", 11, 0, 54, true),
            ("20", 11, 0, 55, false),
            // One after the other.
            ("20", 1, 10, 40, true),
            ("20", 1, 10, 44, true),
            ("20", 1, 10, 45, false),
            ("20", 0, 50, 50, false),
            ("0", 11, 0, 1_000_000, true),
            ("100", 20, 0, 20, false),
            ("off", 1_000, 0, 1_000, false),
        ] {
            let brake: DeletionBrake = brake.parse().unwrap();
            let found = brake.holds(pending, recent, total);
            assert_eq!(found, holds, "{brake}: {pending} {recent} {total}");
        }
    }

    #[test]
    fn percentages_and_off_are_read() {
        for text in ["20", "0", "100", "off"] {
            assert_eq!(text.parse::<DeletionBrake>().unwrap().to_string(), text);
        }
        assert_eq!("20%".parse(), Ok(DeletionBrake::default()));
        for text in ["", "101", "-1", "on", "1.5"] {
            assert_eq!(
                text.parse::<DeletionBrake>(),
                Err(InvalidDeletionBrake),
                "{text}"
            );
        }
    }
}
