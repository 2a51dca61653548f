//! Versions of a watched search over all kinds.
//!
//! A search selects by the caller's rights, and by the kinds, clusters and stores that are
//! registered, and each of these may change between two watches. So a version says what was
//! selected, too: `<version of the fleet>-<hash of the selection>`. A watch continues only from a
//! version of the same selection.

use std::{fmt, str::FromStr};

use fleetdex_core::model::FleetVersion;

/// Where a watch of a search can continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchVersion {
    /// The version of the fleet.
    pub version: FleetVersion,
    /// The hash of what the search selected.
    pub selection: u64,
}

/// The text is no version of a search.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no resourceVersion of a search; take one of a bookmark or an event of its watch"
)]
pub struct InvalidSearchVersion {
    text: String,
}

impl fmt::Display for SearchVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{:016x}", self.version, self.selection)
    }
}

impl FromStr for SearchVersion {
    type Err = InvalidSearchVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = || {
            let (version, selection) = text.split_once('-')?;
            Some(Self {
                version: version.parse().ok()?,
                selection: u64::from_str_radix(selection, 16).ok()?,
            })
        };
        parsed()
            // Each version has one text.
            .filter(|version| version.to_string() == text)
            .ok_or_else(|| InvalidSearchVersion {
                text: text.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_one_text() {
        let version: SearchVersion = "720856573542400512-00000000000000ff".parse().unwrap();
        assert_eq!(version.selection, 255);
        assert_eq!(version.to_string(), "720856573542400512-00000000000000ff");
        for other in [
            "",
            "0",
            "7",
            "7-ff",
            "7-00000000000000FF",
            "7-+0000000000000ff",
            "0-00000000000000ff",
            "7-00000000000000ff-1",
            "x-00000000000000ff",
        ] {
            assert!(other.parse::<SearchVersion>().is_err(), "{other}");
        }
    }
}
