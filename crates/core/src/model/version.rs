//! Kubernetes resource versions.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::quoted;

/// The text is no resource version that can be ordered. The error quotes the text of the member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("resourceVersion \"{0}\" is not a positive decimal number")]
pub struct InvalidVersion(String);

/// A `resourceVersion`: a positive decimal number that grows within one resource type of one
/// cluster.
///
/// Kubernetes promises this order since 1.35 (KEP-5504); before, it held in practice, because the
/// versions are etcd revisions. An external version of OpenSearch is a signed 64-bit number, so
/// larger values are refused here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(u64);

impl Version {
    /// The number itself.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl Version {
    /// The version from which a watch with a planted bug resumes.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl FromStr for Version {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let number: i64 = text.parse().map_err(|_| InvalidVersion(quoted(text)))?;
        match u64::try_from(number) {
            Ok(number) if number > 0 => Ok(Self(number)),
            _ => Err(InvalidVersion(quoted(text))),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_positive_number_that_fits_an_external_version() {
        assert_eq!("42".parse::<Version>().unwrap().get(), 42);
        for refused in ["", "0", "-1", "abc", "9223372036854775808"] {
            assert!(refused.parse::<Version>().is_err(), "{refused:?}");
        }
    }

    #[test]
    fn an_invalid_version_is_quoted_short_and_on_one_line() {
        let long = format!("1\n\u{1b}{}", "A".repeat(1 << 20));
        let error = long.parse::<Version>().unwrap_err().to_string();
        assert!(
            error.starts_with("resourceVersion \"1\\n^[AAA") && error.len() < 1_000,
            "{error}"
        );
    }

    #[test]
    fn versions_are_ordered_as_numbers() {
        assert!("9".parse::<Version>().unwrap() < "10".parse::<Version>().unwrap());
    }
}
