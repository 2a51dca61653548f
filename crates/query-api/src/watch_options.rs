//! The parameters of lists and watches about versions and changes.
//!
//! Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>

use fleetdex_core::model::FleetVersion;

use super::flag::flag;
use crate::error::QuestionError;

/// The parameter `resourceVersion`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestedVersion {
    /// Absent: the current version.
    #[default]
    Unset,
    /// `0`: any version.
    Any,
    /// A version that a list or a watch has returned.
    Version(FleetVersion),
}

/// The parameter `resourceVersionMatch`: how the response's version compares with the requested
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    /// Equal.
    Exact,
    /// Equal or newer.
    NotOlderThan,
}

/// Where a list or watch starts, and how a watch runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// `watch`
    pub watch: bool,
    /// `resourceVersion`
    pub resource_version: RequestedVersion,
    /// `resourceVersionMatch`
    pub version_match: Option<ResourceVersionMatch>,
    /// `sendInitialEvents`: whether a watch starts with the existing objects.
    pub initial_events: Option<bool>,
    /// `allowWatchBookmarks`
    pub bookmarks: bool,
    /// `timeoutSeconds`
    pub timeout_seconds: Option<u64>,
}

impl WatchOptions {
    /// Sets a parameter; `false` if it is none of these.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "watch" => self.watch = flag(value),
            "resourceVersion" => self.resource_version = resource_version(value)?,
            "resourceVersionMatch" => self.version_match = version_match(value)?,
            "sendInitialEvents" => self.initial_events = Some(flag(value)),
            "allowWatchBookmarks" => self.bookmarks = flag(value),
            "timeoutSeconds" => self.timeout_seconds = seconds(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Refuses contradicting parameters, as an API server does. `continues`: with a continue token.
    pub fn check(&self, continues: bool) -> Result<(), QuestionError> {
        match self.contradiction(continues) {
            Some(problem) => Err(QuestionError::invalid(problem)),
            None => Ok(()),
        }
    }

    fn contradiction(&self, continues: bool) -> Option<&'static str> {
        let is_versioned = matches!(self.resource_version, RequestedVersion::Version(_));
        match (self.watch, self.version_match, self.initial_events) {
            (true, _, _) if continues => Some("parameter continue: a watch has no pages"),
            (true, None, Some(_)) => {
                Some("parameter sendInitialEvents: resourceVersionMatch=NotOlderThan goes with it")
            }
            (true, Some(_), None) => {
                Some("parameter resourceVersionMatch: for a watch, sendInitialEvents goes with it")
            }
            (true, Some(ResourceVersionMatch::Exact), Some(_)) => Some(
                "parameter resourceVersionMatch: only NotOlderThan goes with sendInitialEvents",
            ),
            (false, _, Some(_)) => {
                Some("parameter sendInitialEvents means nothing without watch=true")
            }
            (false, Some(_), _) if continues => Some(
                "parameter resourceVersionMatch: further pages show what the first one showed; leave it out with continue",
            ),
            (false, Some(_), _) if self.resource_version == RequestedVersion::Unset => {
                Some("parameter resourceVersionMatch means nothing without resourceVersion")
            }
            (false, Some(ResourceVersionMatch::Exact), _)
                if self.resource_version == RequestedVersion::Any =>
            {
                Some("parameter resourceVersionMatch: Exact is not possible with resourceVersion=0")
            }
            (false, _, _) if continues && is_versioned => Some(
                "parameter resourceVersion: further pages show what the first one showed; leave it out with continue",
            ),
            _ => None,
        }
    }

    /// Whether the request is for anything else than the current objects.
    pub fn is_versioned(&self) -> bool {
        self.watch
            || self.version_match.is_some()
            || self.initial_events.is_some()
            || matches!(self.resource_version, RequestedVersion::Version(_))
    }

    /// Whether a watch starts with the existing objects.
    pub fn begins_with_state(&self) -> bool {
        self.initial_events.unwrap_or(!matches!(
            self.resource_version,
            RequestedVersion::Version(_)
        ))
    }
}

fn resource_version(value: &str) -> Result<RequestedVersion, String> {
    match value {
        "" => Ok(RequestedVersion::Unset),
        "0" => Ok(RequestedVersion::Any),
        version => version
            .parse()
            .map(RequestedVersion::Version)
            .map_err(|error| format!("{error}")),
    }
}

fn version_match(value: &str) -> Result<Option<ResourceVersionMatch>, String> {
    match value {
        "" => Ok(None),
        "Exact" => Ok(Some(ResourceVersionMatch::Exact)),
        "NotOlderThan" => Ok(Some(ResourceVersionMatch::NotOlderThan)),
        other => Err(format!("{other:?} is neither Exact nor NotOlderThan")),
    }
}

fn seconds(value: &str) -> Result<Option<u64>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    value
        .parse()
        .map(Some)
        .map_err(|_| format!("{value:?} is not a number of seconds, an integer from 0 up"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<WatchOptions, String> {
        let mut options = WatchOptions::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap();
            assert!(options.set(key, value)?, "{key} is not recognized");
        }
        options.check(false).map_err(|error| error.to_string())?;
        Ok(options)
    }

    #[test]
    fn a_watch_starts_with_the_existing_objects_unless_it_resumes_from_a_version() {
        let begins = |query: &str| parse(query).unwrap().begins_with_state();
        assert!(
            begins("watch=true")
                && begins("watch=1&resourceVersion=0")
                && begins("watch=true&resourceVersion=")
        );
        assert!(!begins("watch=true&resourceVersion=77"));
        assert!(begins(
            "watch=true&resourceVersion=77&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        ));
        assert!(!begins(
            "watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
        ));
    }

    #[test]
    fn an_empty_parameter_counts_as_absent() {
        let empty = "resourceVersion=&resourceVersionMatch=&timeoutSeconds=";
        assert_eq!(parse(empty).unwrap(), WatchOptions::default());
        assert!(!WatchOptions::default().set("limit", "5").unwrap());
    }

    #[test]
    fn contradicting_parameters_are_refused() {
        let refused = [
            "resourceVersion=abc",
            "resourceVersion=-1",
            "resourceVersion=7&resourceVersionMatch=Newest",
            "resourceVersionMatch=Exact",
            "resourceVersion=0&resourceVersionMatch=Exact",
            "sendInitialEvents=true",
            "watch=true&sendInitialEvents=true",
            "watch=true&resourceVersion=7&resourceVersionMatch=NotOlderThan",
            "watch=true&sendInitialEvents=true&resourceVersionMatch=Exact",
            "watch=true&timeoutSeconds=-1",
        ];
        let messages: Vec<String> = refused
            .iter()
            .map(|query| parse(query).unwrap_err())
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        "abc" is no resourceVersion of the fleet: those are positive decimal integers, as lists and watches over the fleet give them
        "-1" is no resourceVersion of the fleet: those are positive decimal integers, as lists and watches over the fleet give them
        "Newest" is neither Exact nor NotOlderThan
        parameter resourceVersionMatch means nothing without resourceVersion
        parameter resourceVersionMatch: Exact is not possible with resourceVersion=0
        parameter sendInitialEvents means nothing without watch=true
        parameter sendInitialEvents: resourceVersionMatch=NotOlderThan goes with it
        parameter resourceVersionMatch: for a watch, sendInitialEvents goes with it
        parameter resourceVersionMatch: only NotOlderThan goes with sendInitialEvents
        "-1" is not a number of seconds, an integer from 0 up
        "#);
        for (query, continues) in [("resourceVersion=7", true), ("watch=true", true)] {
            let mut options = WatchOptions::default();
            query
                .split_once('=')
                .map(|(key, value)| options.set(key, value).unwrap())
                .unwrap();
            assert_eq!(options.check(continues).unwrap_err().code(), 400);
        }
    }
}
