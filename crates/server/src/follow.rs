//! The parameters that say from which version on somebody wants to know, and whether what changes later, too.
//!
//! Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>

use fleetdex_core::model::FleetVersion;

use super::{flag::flag, status::ApiError};

/// From which version of the fleet on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Since {
    /// Not given: as of now.
    #[default]
    Unset,
    /// `0`: whatever is at hand.
    Any,
    /// A version that a list or a watch has given.
    Version(FleetVersion),
}

/// How the version of an answer has to compare with the one that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// The same.
    Exact,
    /// The same or a later one.
    NotOlderThan,
}

/// What a list or a watch begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Follow {
    /// Whether changes are asked for.
    pub watch: bool,
    /// `resourceVersion`
    pub since: Since,
    /// `resourceVersionMatch`
    pub matching: Option<Match>,
    /// `sendInitialEvents`: whether a watch begins with what there is.
    pub initial_events: Option<bool>,
    /// Whether a watch may tell how far it is by events that tell nothing else.
    pub bookmarks: bool,
    /// How long a watch may last.
    pub timeout_seconds: Option<u64>,
}

impl Follow {
    /// Takes a parameter; whether it is one of these.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "watch" => self.watch = flag(value),
            "resourceVersion" => self.since = since(value)?,
            "resourceVersionMatch" => self.matching = matching(value)?,
            "sendInitialEvents" => self.initial_events = Some(flag(value)),
            "allowWatchBookmarks" => self.bookmarks = flag(value),
            "timeoutSeconds" => self.timeout_seconds = seconds(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Refuses what contradicts itself, as an apiserver does.
    pub fn check(&self, continues: bool) -> Result<(), ApiError> {
        match self.contradiction(continues) {
            Some(problem) => Err(ApiError::bad_request(problem)),
            None => Ok(()),
        }
    }

    fn contradiction(&self, continues: bool) -> Option<&'static str> {
        let is_versioned = matches!(self.since, Since::Version(_));
        match (self.watch, self.matching, self.initial_events) {
            (true, _, _) if continues => Some("parameter continue: a watch has no pages"),
            (true, None, Some(_)) => {
                Some("parameter sendInitialEvents: resourceVersionMatch=NotOlderThan goes with it")
            }
            (true, Some(_), None) => {
                Some("parameter resourceVersionMatch: for a watch, sendInitialEvents goes with it")
            }
            (true, Some(Match::Exact), Some(_)) => Some(
                "parameter resourceVersionMatch: only NotOlderThan goes with sendInitialEvents",
            ),
            (false, _, Some(_)) => {
                Some("parameter sendInitialEvents means nothing without watch=true")
            }
            (false, Some(_), _) if continues => Some(
                "parameter resourceVersionMatch: further pages show what the first one showed; leave it out with continue",
            ),
            (false, Some(_), _) if self.since == Since::Unset => {
                Some("parameter resourceVersionMatch means nothing without resourceVersion")
            }
            (false, Some(Match::Exact), _) if self.since == Since::Any => {
                Some("parameter resourceVersionMatch: Exact is not possible with resourceVersion=0")
            }
            (false, _, _) if continues && is_versioned => Some(
                "parameter resourceVersion: further pages show what the first one showed; leave it out with continue",
            ),
            _ => None,
        }
    }

    /// Whether anything else than what there is now is asked for.
    pub fn is_versioned(&self) -> bool {
        self.watch
            || self.matching.is_some()
            || self.initial_events.is_some()
            || matches!(self.since, Since::Version(_))
    }

    /// Whether a watch begins with what there is.
    pub fn begins_with_state(&self) -> bool {
        self.initial_events
            .unwrap_or(!matches!(self.since, Since::Version(_)))
    }
}

fn since(value: &str) -> Result<Since, String> {
    match value {
        "" => Ok(Since::Unset),
        "0" => Ok(Since::Any),
        version => version
            .parse()
            .map(Since::Version)
            .map_err(|error| format!("{error}")),
    }
}

fn matching(value: &str) -> Result<Option<Match>, String> {
    match value {
        "" => Ok(None),
        "Exact" => Ok(Some(Match::Exact)),
        "NotOlderThan" => Ok(Some(Match::NotOlderThan)),
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
        .map_err(|_| format!("{value:?} is no whole number of seconds from 0 up"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(query: &str) -> Result<Follow, String> {
        let mut follow = Follow::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap();
            assert!(follow.set(key, value)?, "{key} is not taken");
        }
        follow.check(false).map_err(|error| error.to_string())?;
        Ok(follow)
    }

    #[test]
    fn a_watch_begins_with_what_there_is_unless_it_goes_on_from_a_version() {
        let begins = |query: &str| follow(query).unwrap().begins_with_state();
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
    fn what_is_empty_counts_as_not_given() {
        let empty = "resourceVersion=&resourceVersionMatch=&timeoutSeconds=";
        assert_eq!(follow(empty).unwrap(), Follow::default());
        assert!(!Follow::default().set("limit", "5").unwrap());
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
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
            .map(|query| follow(query).unwrap_err())
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
        "-1" is no whole number of seconds from 0 up
        "#);
        for (query, continues) in [("resourceVersion=7", true), ("watch=true", true)] {
            let mut follow = Follow::default();
            query
                .split_once('=')
                .map(|(key, value)| follow.set(key, value).unwrap())
                .unwrap();
            assert_eq!(follow.check(continues).unwrap_err().code(), 400);
        }
    }
}
