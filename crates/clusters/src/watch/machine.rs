//! The state machine of a unit's list and watch: list pages, then watch, then resume the watch or
//! list again. No I/O, no clock.

use std::fmt;

use fleetdex_core::{
    model::Version,
    planted::{Bug, planted},
};

/// Objects per list page. Smaller pages cost round trips, larger ones memory: 500 pods are 2–3 MB.
const PAGE_SIZE: u32 = 500;
/// After so many lists in a row whose continue token expired, the list is requested without a
/// limit: reading it in pages then takes longer than the member's compaction interval, and would
/// never end.
const EXPIRED_BEFORE_UNPAGED: u8 = 2;

/// The next step of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListWatchStep {
    /// Request a list page.
    List {
        /// Where the page starts; `None` starts a new list, and discards any earlier one.
        continue_token: Option<String>,
        /// Number of objects; `None` for all.
        limit: Option<u32>,
    },
    /// Request the member's current version, and compare it with the known one.
    ///
    /// A member whose etcd was restored from a backup is behind. It would accept a watch from a
    /// future version and send nothing until it reaches that version
    /// (kubernetes/kubernetes#107457).
    Check {
        /// All changes up to this version are known.
        known: Version,
    },
    /// Watch from a version.
    Watch {
        /// All changes up to this version are known.
        from: Version,
    },
}

/// Whether a list is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOutcome {
    /// More pages follow.
    More,
    /// This was the last page, and all pages have one version.
    Complete,
    /// The page has another version than the pages before: the list has to be restarted.
    Inconsistent,
}

/// How long to wait before the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// No pause.
    None,
    /// A short random time, so that streams that ended together do not restart together.
    Jitter,
    /// Longer with each failure in a row.
    Backoff,
    /// The seconds that the server requests, and at least the backoff.
    RetryAfter(u64),
}

/// A failure of a list or watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFault {
    /// The kind of failure.
    pub kind: FaultKind,
    /// The message of the server or the transport.
    pub message: String,
}

impl StreamFault {
    /// A failure of the transport.
    pub(super) fn transport(message: String) -> Self {
        Self {
            kind: FaultKind::Transport,
            message,
        }
    }
}

impl fmt::Display for StreamFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

/// The kinds of failures that are handled differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// 410: the version or the continue token is no longer available.
    Expired,
    /// 401
    Unauthorized,
    /// 403
    Forbidden,
    /// 404: the resource is not served, or no longer.
    NotFound,
    /// 405: the resource cannot be listed or watched, although discovery says so.
    NotAllowed,
    /// 429
    Throttled {
        /// The delay that the server requests; 0 for none.
        retry_after_seconds: u64,
    },
    /// 400 or 422: the server rejects the request.
    Invalid,
    /// 5xx and every other status.
    Server,
    /// No response, or an incomplete one.
    Transport,
    /// A response that cannot be parsed.
    Garbled,
    /// The response exceeds the size limit.
    TooLarge,
}

impl FaultKind {
    /// Whether the member refuses the request, so that retrying alone does not help.
    pub fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::Forbidden | Self::NotFound | Self::NotAllowed | Self::Invalid
        )
    }

    /// The reason for a condition, in CamelCase.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Expired => "Expired",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotServed",
            Self::NotAllowed => "NotListable",
            Self::Throttled { .. } => "Throttled",
            Self::Invalid => "Refused",
            Self::Server => "ServerError",
            Self::Transport => "Unreachable",
            Self::Garbled => "InvalidAnswer",
            Self::TooLarge => "AnswerTooLarge",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ListWatchState {
    Listing {
        version: Option<Version>,
        continue_token: Option<String>,
    },
    Checking {
        version: Version,
    },
    Watching {
        version: Version,
    },
}

/// The list and watch of one unit.
#[derive(Clone, Debug)]
pub struct ListWatchMachine {
    state: ListWatchState,
    expired_lists: u8,
}

impl ListWatchMachine {
    /// Resumes from a version, or starts with a list.
    pub fn new(resume: Option<Version>) -> Self {
        let state = match resume {
            Some(version) => ListWatchState::Checking { version },
            None => new_list(),
        };
        Self {
            state,
            expired_lists: 0,
        }
    }

    /// The next step of a unit.
    pub fn step(&self) -> ListWatchStep {
        match &self.state {
            ListWatchState::Listing { continue_token, .. } => ListWatchStep::List {
                continue_token: continue_token.clone(),
                limit: (self.expired_lists < EXPIRED_BEFORE_UNPAGED).then_some(PAGE_SIZE),
            },
            ListWatchState::Checking { version } => ListWatchStep::Check { known: *version },
            ListWatchState::Watching { version } => ListWatchStep::Watch { from: *version },
        }
    }

    /// The version up to which all changes are known; `None` during a list.
    pub fn known_version(&self) -> Option<Version> {
        match self.state {
            ListWatchState::Checking { version } | ListWatchState::Watching { version } => {
                Some(version)
            }
            ListWatchState::Listing { .. } => None,
        }
    }

    /// Call after a list page was read.
    pub fn page_listed(&mut self, page_version: Version, next: Option<String>) -> PageOutcome {
        let ListWatchState::Listing { version, .. } = &self.state else {
            return PageOutcome::Inconsistent;
        };
        if version.is_some_and(|version| version != page_version) {
            self.state = new_list();
            return PageOutcome::Inconsistent;
        }
        if next.is_some() {
            self.state = ListWatchState::Listing {
                version: Some(page_version),
                continue_token: next,
            };
            return PageOutcome::More;
        }
        self.expired_lists = 0;
        self.state = ListWatchState::Watching {
            version: page_version,
        };
        PageOutcome::Complete
    }

    /// Call with the member's current version. Returns false if it went back, so that no known
    /// state is valid.
    #[must_use]
    pub fn checked(&mut self, current: Version) -> bool {
        let ListWatchState::Checking { version } = self.state else {
            return true;
        };
        if current < version {
            self.state = new_list();
            return false;
        }
        self.state = ListWatchState::Watching { version };
        true
    }

    /// Call with the version of each event and bookmark. Returns false if it is older than the one
    /// before, which a watch of one history never sends; a new list then restores the true state.
    #[must_use]
    pub fn reached(&mut self, event_version: Version) -> bool {
        let ListWatchState::Watching { version } = &mut self.state else {
            return true;
        };
        if event_version < *version {
            self.state = new_list();
            return false;
        }
        *version = event_version;
        true
    }

    /// Call after a watch ended normally: at its deadline, or because the server restarts.
    pub fn watch_ended(&self) -> Pause {
        Pause::Jitter
    }

    /// Starts a new list, because the store may have lost documents that were written.
    pub fn relist(&mut self) {
        self.state = new_list();
    }

    /// Call after a list or watch failed.
    pub fn failed(&mut self, kind: FaultKind) -> Pause {
        match (kind, &self.state) {
            (FaultKind::Expired, ListWatchState::Watching { .. })
                if planted(Bug::IgnoreExpired) =>
            {
                Pause::Backoff
            }
            (FaultKind::Expired, ListWatchState::Listing { .. }) => {
                self.expired_lists = self.expired_lists.saturating_add(1);
                self.state = new_list();
                Pause::Backoff
            }
            (FaultKind::Expired, _) => {
                self.state = new_list();
                Pause::Jitter
            }
            // A line that cannot be parsed may contain a change; only a list recovers it.
            (FaultKind::Garbled, ListWatchState::Watching { .. }) => {
                self.state = new_list();
                Pause::Backoff
            }
            // A list skips a change that is too large: it returns a later state of the object,
            // which may fit.
            (FaultKind::TooLarge, ListWatchState::Watching { .. }) => {
                self.state = new_list();
                retry_pause(kind)
            }
            // The list without a limit is too large: read it in pages again.
            (FaultKind::TooLarge, ListWatchState::Listing { .. })
                if self.expired_lists >= EXPIRED_BEFORE_UNPAGED =>
            {
                self.expired_lists = 0;
                self.state = new_list();
                Pause::Backoff
            }
            // The member may have been replaced by another one in the meantime.
            (_, ListWatchState::Watching { version }) => {
                self.state = ListWatchState::Checking { version: *version };
                retry_pause(kind)
            }
            // All other failures keep the state: the same page or version is requested again.
            _ => retry_pause(kind),
        }
    }
}

/// A 405 changes only when another server program is installed. Then discovery usually changes as
/// well, and the stream is restarted.
const NOT_ALLOWED_SECONDS: u64 = 600;
/// Pause after a response that is too large: each attempt costs both sides as much as the largest
/// page.
const TOO_LARGE_SECONDS: u64 = 60;

fn retry_pause(kind: FaultKind) -> Pause {
    match kind {
        FaultKind::Throttled {
            retry_after_seconds,
        } if retry_after_seconds > 0 => Pause::RetryAfter(retry_after_seconds),
        FaultKind::NotAllowed => Pause::RetryAfter(NOT_ALLOWED_SECONDS),
        FaultKind::TooLarge => Pause::RetryAfter(TOO_LARGE_SECONDS),
        _ => Pause::Backoff,
    }
}

fn new_list() -> ListWatchState {
    ListWatchState::Listing {
        version: None,
        continue_token: None,
    }
}

#[cfg(test)]
mod tests;
