//! Constraints of versions, as charts write them: `^1.2`, `~1.2.3`, `>=1.2 <2`, `1.x || 3.0.0`.
//!
//! The grammar is that of [Masterminds/semver](https://github.com/Masterminds/semver), which helm
//! uses: it differs from Cargo's.

use std::{fmt, str::FromStr};

use fleetdex_core::model::quoted;
use semver::{BuildMetadata, Prerelease, Version};

/// The longest constraint, as in Masterminds/semver.
const MAX_LENGTH: usize = 512;
/// The most alternatives of a constraint, as in Masterminds/semver.
const MAX_ALTERNATIVES: usize = 32;

/// Which versions are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionConstraint {
    text: String,
    /// One of them has to hold; all comparisons of one have to.
    alternatives: Vec<Vec<VersionComparison>>,
}

/// A text is no constraint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text} is no constraint of versions, such as 1.2.3, ^1.2 or >=1.2 <2", text = quoted(.0))]
pub struct InvalidConstraint(String);

#[derive(Clone, Debug, PartialEq, Eq)]
struct VersionComparison {
    operator: Operator,
    version: Version,
    /// How many of major, minor and patch are given; others are any.
    given: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Tilde,
    Caret,
}

/// Operators, longer ones before those that they begin with.
const OPERATORS: [(&str, Operator); 11] = [
    ("!=", Operator::NotEqual),
    (">=", Operator::GreaterOrEqual),
    ("=>", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    ("=<", Operator::LessOrEqual),
    ("~>", Operator::Tilde),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("=", Operator::Equal),
    ("~", Operator::Tilde),
    ("^", Operator::Caret),
];

impl VersionConstraint {
    /// Whether a version is accepted: a pre-release only where the constraint names one.
    pub fn is_met_by(&self, version: &Version) -> bool {
        // The metadata of a build decides nothing.
        let mut version = version.clone();
        version.build = BuildMetadata::EMPTY;
        self.alternatives.iter().any(|all| {
            let names_prereleases = all.iter().any(|one| !one.version.pre.is_empty());
            (version.pre.is_empty() || names_prereleases)
                && all.iter().all(|one| one.is_met_by(&version))
        })
    }

    /// The greatest of the versions that is accepted.
    pub fn newest<T>(&self, versions: impl IntoIterator<Item = (Version, T)>) -> Option<T> {
        let accepted = versions
            .into_iter()
            .filter(|(version, _)| self.is_met_by(version));
        let newest = accepted.max_by(|(one, _), (other, _)| one.cmp(other));
        newest.map(|(_, of_version)| of_version)
    }
}

impl fmt::Display for VersionConstraint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl FromStr for VersionConstraint {
    type Err = InvalidConstraint;

    fn from_str(text: &str) -> Result<Self, InvalidConstraint> {
        let invalid = || InvalidConstraint(text.to_owned());
        let alternatives: Vec<&str> = text.split("||").collect();
        if text.len() > MAX_LENGTH || alternatives.len() > MAX_ALTERNATIVES {
            return Err(invalid());
        }
        let alternatives = alternatives.into_iter().map(comparisons);
        Ok(Self {
            text: text.to_owned(),
            alternatives: alternatives.collect::<Option<_>>().ok_or_else(invalid)?,
        })
    }
}

/// A version as tags and charts write it: `v` before it, minor and patch may be absent.
pub fn parse_version(text: &str) -> Option<Version> {
    let (version, given) = parse_given(text)?;
    let has_wildcard = text.starts_with(['x', 'X', '*']);
    (given > 0 && !has_wildcard).then_some(version)
}

fn comparisons(text: &str) -> Option<Vec<VersionComparison>> {
    // `1.2 - 2.3` is a range.
    if let Some((low, high)) = text.split_once(" - ") {
        return Some(vec![
            comparison(Operator::GreaterOrEqual, low.trim())?,
            comparison(Operator::LessOrEqual, high.trim())?,
        ]);
    }
    let mut found = Vec::new();
    let mut rest = text.trim();
    if rest.is_empty() {
        return Some(vec![comparison(Operator::Equal, "*")?]);
    }
    while !rest.is_empty() {
        let known = OPERATORS
            .iter()
            .find_map(|(name, operator)| Some((rest.strip_prefix(name)?, *operator)));
        let (after, operator) = known.unwrap_or((rest, Operator::Equal));
        let after = after.trim_start();
        let end = after.find([' ', ',']).unwrap_or(after.len());
        let (version, others) = after.split_at(end);
        found.push(comparison(operator, version)?);
        let others = others.trim_start();
        rest = others.strip_prefix(',').unwrap_or(others).trim_start();
    }
    Some(found)
}

fn comparison(operator: Operator, text: &str) -> Option<VersionComparison> {
    let (version, given) = parse_given(text)?;
    Some(VersionComparison {
        operator,
        version,
        given,
    })
}

/// A version, and how many of its numbers are given.
fn parse_given(text: &str) -> Option<(Version, usize)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, _build) = text.split_once('+').unwrap_or((text, ""));
    let (numbers, pre) = match text.split_once('-') {
        Some((numbers, pre)) => (numbers, Prerelease::new(pre).ok()?),
        None => (text, Prerelease::EMPTY),
    };
    let mut found = [0; 3];
    let mut given = 0;
    let mut is_any = false;
    for (index, number) in numbers.split('.').enumerate() {
        let place = found.get_mut(index)?;
        is_any |= matches!(number, "x" | "X" | "*");
        if !is_any {
            *place = number.parse().ok()?;
            given = index + 1;
        }
    }
    let [major, minor, patch] = found;
    let mut version = Version::new(major, minor, patch);
    version.pre = pre;
    Some((version, given))
}

impl VersionComparison {
    fn is_met_by(&self, version: &Version) -> bool {
        let low = &self.version;
        let numbers = |of: &Version| [of.major, of.minor, of.patch];
        // Whether the first numbers are those of the constraint.
        let has_same = |count: usize| numbers(version)[..count] == numbers(low)[..count];
        let is_exact = self.given == 3;
        match self.operator {
            Operator::Equal if is_exact => version == low,
            Operator::NotEqual if is_exact => version != low,
            Operator::Equal => has_same(self.given),
            Operator::NotEqual => !has_same(self.given),
            Operator::GreaterOrEqual => version >= low,
            Operator::Less => version < low,
            Operator::Greater => version > low && (is_exact || !has_same(self.given)),
            Operator::LessOrEqual => version <= low || (!is_exact && has_same(self.given)),
            Operator::Tilde => version >= low && has_same(self.given.min(2)),
            Operator::Caret => version >= low && has_same(self.caret_numbers()),
        }
    }

    /// How many numbers `^` keeps: up to the first one that is given and not zero.
    fn caret_numbers(&self) -> usize {
        let numbers = [self.version.major, self.version.minor, self.version.patch];
        let first = numbers.iter().position(|number| *number > 0);
        first.map_or(self.given, |index| (index + 1).min(self.given))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases of the tests of Masterminds/semver.
    #[test]
    fn constraints_accept_what_helm_accepts() {
        for (constraint, version, is_met) in [
            ("", "1.2.3", true),
            ("*", "1.2.3", true),
            ("*", "1.2.3-alpha", false),
            ("=2.0.0", "1.2.3", false),
            ("=2.0", "2.0.5", true),
            ("=2.0", "2.1.0", false),
            ("4.1", "4.1.0", true),
            ("1.x", "1.4.0", true),
            ("1.x", "2.0.0", false),
            ("2.*", "2.1.1", true),
            ("!=4.1.0", "4.1.0", false),
            ("!=4.1.0", "4.1.1", true),
            ("!=4.x", "4.3.0", false),
            ("!=4.1", "4.2.0", true),
            (">11", "11.1.0", false),
            (">11", "12.0.0", true),
            (">11.1", "11.1.1", false),
            (">11.1", "11.2.0", true),
            (">11.1.0", "11.1.1", true),
            ("<1", "0.9.9", true),
            ("<1", "1.0.0", false),
            (">=11", "11.0.0", true),
            ("=>1.2", "1.1.9", false),
            ("<=11", "11.3.0", true),
            ("<=11", "12.0.0", false),
            ("<=1.1", "1.1.5", true),
            ("<=1.1.0", "1.1.1", false),
            ("~1", "1.9.0", true),
            ("~1", "2.0.0", false),
            ("~1.1", "1.1.7", true),
            ("~1.1", "1.2.0", false),
            ("~1.2.3", "1.2.2", false),
            ("~>1.2.3", "1.2.9", true),
            ("~*", "7.1.0", true),
            ("^1.2", "1.9.0", true),
            ("^1.2", "1.1.0", false),
            ("^1.2", "2.0.0", false),
            ("^0.2.3", "0.2.9", true),
            ("^0.2.3", "0.3.0", false),
            ("^0.0.3", "0.0.3", true),
            ("^0.0.3", "0.0.4", false),
            ("^0.0", "0.0.9", true),
            ("^0", "0.9.0", true),
            ("^0", "1.0.0", false),
            ("^*", "3.0.0", true),
            (">=1.2 <2", "1.9.9", true),
            (">=1.2 <2", "2.0.0", false),
            (">= 1.2, < 2", "1.5.0", true),
            (">1.1, <2, !=1.5.0", "1.5.0", false),
            ("1.1 - 2", "1.5.0", true),
            ("1.1 - 2", "2.9.0", true),
            ("1.1 - 2", "3.0.0", false),
            ("1.x || 3.0.0", "3.0.0", true),
            ("1.x || 3.0.0", "2.0.0", false),
            (">=1.2.3-0", "1.3.0-beta.1", true),
            (">=1.2.3", "1.3.0-beta.1", false),
            ("^1.2.3-0", "2.0.0-beta.1", false),
            ("v1.2.3", "1.2.3", true),
            ("1.2.3", "1.2.3+build", true),
        ] {
            let parsed: VersionConstraint = constraint.parse().unwrap();
            let version = Version::parse(version).unwrap();
            assert_eq!(parsed.is_met_by(&version), is_met, "{constraint} {version}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let long = "1 || ".repeat(40);
        for text in ["a", ">", ">>1", "1.2.3.4", "1..2", "1 ||| 2", "1.-", &long] {
            assert!(text.parse::<VersionConstraint>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_newest_version_that_fits_is_chosen() {
        let versions = ["1.2.0", "1.10.0", "2.0.0", "1.11.0-rc.1"];
        let newest = |constraint: &str| {
            let constraint: VersionConstraint = constraint.parse().unwrap();
            let versions = versions.map(|text| (Version::parse(text).unwrap(), text));
            constraint.newest(versions)
        };
        assert_eq!(newest("^1"), Some("1.10.0"));
        assert_eq!(newest(""), Some("2.0.0"));
        assert_eq!(newest("^1-0"), Some("1.11.0-rc.1"));
        assert_eq!(newest("^3"), None);
        assert_eq!(parse_version("v1.2"), Some(Version::new(1, 2, 0)));
        assert_eq!(parse_version("latest"), None);
        assert_eq!(parse_version("x"), None);
    }
}
