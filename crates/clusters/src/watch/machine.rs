//! What a unit does next: list pages, then watch, then watch again or list again. No I/O, no clock.

use std::fmt;

use fleetdex_core::{
    model::Version,
    planted::{Bug, planted},
};

/// Objects per list page. Smaller pages cost round trips, larger ones memory: 500 pods are 2–3 MB.
const PAGE_SIZE: u32 = 500;
/// After so many lists in a row whose continue token expired, the list is asked for in one piece: it is then slower than
/// the member's compaction, and would never end in pages.
const EXPIRED_BEFORE_UNPAGED: u8 = 2;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask for a list page.
    List {
        /// Where it starts; absent: a new list begins, and nothing of an earlier one counts.
        continue_token: Option<String>,
        /// How many objects; absent: all.
        limit: Option<u32>,
    },
    /// Ask for the member's present version, and compare it with what is known.
    ///
    /// A member whose etcd was restored from a backup is behind; it would accept a watch from its future and say nothing
    /// until it gets there (kubernetes/kubernetes#107457).
    Check {
        /// Everything up to it is known.
        known: Version,
    },
    /// Watch from a version on.
    Watch {
        /// Everything up to it is known.
        from: Version,
    },
}

/// Whether a list is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOutcome {
    /// More pages follow.
    More,
    /// This was the last page of a list that shows one revision.
    Complete,
    /// The page shows another revision than the pages before: the list begins anew.
    Inconsistent,
}

/// How long to wait before the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Not at all.
    None,
    /// A short random time, so that streams that ended together do not come back together.
    Jitter,
    /// Longer with each failure in a row.
    Backoff,
    /// As long as the server asks, in seconds, and at least the backoff.
    RetryAfter(u64),
}

/// A failure of a list or watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind.
    pub kind: FaultKind,
    /// What the server or the transport said.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

/// Failures that are answered differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// 410: the version or the continue token is no longer available.
    Expired,
    /// 401
    Unauthorized,
    /// 403
    Forbidden,
    /// 404: the resource is not served (any more).
    NotFound,
    /// 405: the resource cannot be listed or watched, whatever discovery says.
    NotAllowed,
    /// 429
    Throttled {
        /// What the server asks for; 0: nothing.
        retry_after_seconds: u64,
    },
    /// 400 or 422: the request itself is refused.
    Invalid,
    /// 5xx and everything else.
    Server,
    /// No answer, or one that was cut off.
    Transport,
    /// An answer that cannot be read.
    Garbled,
    /// The answer is longer than answers may be.
    TooLarge,
}

impl FaultKind {
    /// Whether the member understands and refuses, so that waiting alone does not help.
    pub fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::Forbidden | Self::NotFound | Self::NotAllowed | Self::Invalid
        )
    }

    /// The reason of a condition, in CamelCase.
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
enum State {
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

/// The state of one unit's stream.
#[derive(Clone, Debug)]
pub struct Machine {
    state: State,
    expired_lists: u8,
}

impl Machine {
    /// A machine that resumes from a version, or begins with a list.
    pub fn new(resume: Option<Version>) -> Self {
        let state = match resume {
            Some(version) => State::Checking { version },
            None => new_list(),
        };
        Self {
            state,
            expired_lists: 0,
        }
    }

    /// What to do next.
    pub fn step(&self) -> Step {
        match &self.state {
            State::Listing { continue_token, .. } => Step::List {
                continue_token: continue_token.clone(),
                limit: (self.expired_lists < EXPIRED_BEFORE_UNPAGED).then_some(PAGE_SIZE),
            },
            State::Checking { version } => Step::Check { known: *version },
            State::Watching { version } => Step::Watch { from: *version },
        }
    }

    /// The version up to which everything is known; absent while a list is under way.
    pub fn known_version(&self) -> Option<Version> {
        match self.state {
            State::Checking { version } | State::Watching { version } => Some(version),
            State::Listing { .. } => None,
        }
    }

    /// A page has been read.
    pub fn page_listed(&mut self, page_version: Version, next: Option<String>) -> PageOutcome {
        let State::Listing { version, .. } = &self.state else {
            return PageOutcome::Inconsistent;
        };
        if version.is_some_and(|version| version != page_version) {
            self.state = new_list();
            return PageOutcome::Inconsistent;
        }
        if next.is_some() {
            self.state = State::Listing {
                version: Some(page_version),
                continue_token: next,
            };
            return PageOutcome::More;
        }
        self.expired_lists = 0;
        self.state = State::Watching {
            version: page_version,
        };
        PageOutcome::Complete
    }

    /// The member has said which version it is at. False: it went back, so that nothing that is known of it can be trusted.
    #[must_use]
    pub fn checked(&mut self, current: Version) -> bool {
        let State::Checking { version } = self.state else {
            return true;
        };
        if current < version {
            self.state = new_list();
            return false;
        }
        self.state = State::Watching { version };
        true
    }

    /// An event or a bookmark of the watch has been taken over. False: it is older than what came before, which a watch never
    /// sends of one history; a list will show what is true.
    #[must_use]
    pub fn reached(&mut self, event_version: Version) -> bool {
        let State::Watching { version } = &mut self.state else {
            return true;
        };
        if event_version < *version {
            self.state = new_list();
            return false;
        }
        *version = event_version;
        true
    }

    /// The watch ended as watches do: at its deadline, or because the server restarts.
    pub fn watch_ended(&self) -> Pause {
        Pause::Jitter
    }

    /// What is in the store can no longer be trusted to hold what was sent: list again.
    pub fn relist(&mut self) {
        self.state = new_list();
    }

    /// A list or watch failed.
    pub fn failed(&mut self, kind: FaultKind) -> Pause {
        match (kind, &self.state) {
            (FaultKind::Expired, State::Watching { .. }) if planted(Bug::IgnoreExpired) => {
                Pause::Backoff
            }
            (FaultKind::Expired, State::Listing { .. }) => {
                self.expired_lists = self.expired_lists.saturating_add(1);
                self.state = new_list();
                Pause::Backoff
            }
            (FaultKind::Expired, _) => {
                self.state = new_list();
                Pause::Jitter
            }
            // A line that cannot be read may hide a change; only a list brings it back.
            (FaultKind::Garbled, State::Watching { .. }) => {
                self.state = new_list();
                Pause::Backoff
            }
            // A list gets around a change that is too large, as it shows what came of it: perhaps one that fits, and later than the watch was.
            (FaultKind::TooLarge, State::Watching { .. }) => {
                self.state = new_list();
                retry_pause(kind)
            }
            // In one piece it is too large: then in pages once more.
            (FaultKind::TooLarge, State::Listing { .. })
                if self.expired_lists >= EXPIRED_BEFORE_UNPAGED =>
            {
                self.expired_lists = 0;
                self.state = new_list();
                Pause::Backoff
            }
            // The member may have been away, and come back as another.
            (_, State::Watching { version }) => {
                self.state = State::Checking { version: *version };
                retry_pause(kind)
            }
            // Everything else leaves what is known untouched: the same page or the same version is asked for again.
            _ => retry_pause(kind),
        }
    }
}

/// Only another program behind the address changes this. When that is installed, discovery mostly changes as well, and the stream is
/// started anew.
const NOT_ALLOWED_SECONDS: u64 = 600;
/// How long a member is spared that sends more than is read: each look at it costs both sides as much as the largest page.
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

fn new_list() -> State {
    State::Listing {
        version: None,
        continue_token: None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(number: u64) -> Version {
        number.to_string().parse().unwrap()
    }

    #[test]
    fn pages_lead_to_a_watch_from_the_lists_version() {
        let mut machine = Machine::new(None);
        assert_eq!(
            machine.step(),
            Step::List {
                continue_token: None,
                limit: Some(500)
            }
        );
        assert_eq!(
            machine.page_listed(version(5), Some("t".to_owned())),
            PageOutcome::More
        );
        assert_eq!(
            machine.step(),
            Step::List {
                continue_token: Some("t".to_owned()),
                limit: Some(500)
            }
        );
        assert_eq!(machine.page_listed(version(5), None), PageOutcome::Complete);
        assert_eq!(machine.step(), Step::Watch { from: version(5) });
    }

    #[test]
    fn a_watch_resumes_where_it_was() {
        let mut machine = Machine::new(Some(version(5)));
        assert_eq!(machine.step(), Step::Check { known: version(5) });
        assert!(machine.checked(version(7)));
        assert!(machine.reached(version(9)));
        assert_eq!(machine.watch_ended(), Pause::Jitter);
        assert_eq!(machine.step(), Step::Watch { from: version(9) });
        assert_eq!(machine.failed(FaultKind::Transport), Pause::Backoff);
        assert_eq!(machine.step(), Step::Check { known: version(9) });
        assert!(machine.checked(version(9)));
        assert_eq!(machine.step(), Step::Watch { from: version(9) });
    }

    #[test]
    fn a_member_that_went_back_is_listed() {
        let list = Step::List {
            continue_token: None,
            limit: Some(500),
        };
        let mut machine = Machine::new(Some(version(5)));
        assert!(!machine.checked(version(4)));
        assert_eq!(machine.step(), list);
        let mut machine = Machine::new(Some(version(5)));
        assert!(machine.checked(version(5)) && !machine.reached(version(3)));
        assert_eq!(machine.step(), list);
    }

    #[test]
    fn an_expired_version_leads_to_a_new_list() {
        let mut machine = Machine::new(Some(version(5)));
        machine.failed(FaultKind::Expired);
        assert_eq!(
            machine.step(),
            Step::List {
                continue_token: None,
                limit: Some(500)
            }
        );
    }

    #[test]
    fn a_list_whose_token_expires_again_and_again_is_asked_for_in_one_piece() {
        let mut machine = Machine::new(None);
        for _ in 0..2 {
            machine.page_listed(version(5), Some("t".to_owned()));
            machine.failed(FaultKind::Expired);
        }
        assert_eq!(
            machine.step(),
            Step::List {
                continue_token: None,
                limit: None
            }
        );
    }

    #[test]
    fn pages_of_different_revisions_are_no_list() {
        let mut machine = Machine::new(None);
        machine.page_listed(version(5), Some("t".to_owned()));
        assert_eq!(
            machine.page_listed(version(6), None),
            PageOutcome::Inconsistent
        );
        assert_eq!(
            machine.step(),
            Step::List {
                continue_token: None,
                limit: Some(500)
            }
        );
    }

    #[test]
    fn a_server_that_asks_for_time_gets_it() {
        let mut machine = Machine::new(None);
        assert_eq!(
            machine.failed(FaultKind::Throttled {
                retry_after_seconds: 7
            }),
            Pause::RetryAfter(7)
        );
    }

    #[test]
    fn what_cannot_be_watched_is_left_in_peace() {
        assert_eq!(
            Machine::new(None).failed(FaultKind::NotAllowed),
            Pause::RetryAfter(600)
        );
        let mut watching = Machine::new(Some(version(5)));
        assert!(watching.checked(version(5)));
        assert_eq!(
            watching.failed(FaultKind::NotAllowed),
            Pause::RetryAfter(600)
        );
    }

    #[test]
    fn what_is_too_large_is_listed_and_not_at_once() {
        let mut watching = Machine::new(Some(version(5)));
        assert!(watching.checked(version(5)));
        assert_eq!(watching.failed(FaultKind::TooLarge), Pause::RetryAfter(60));
        let list = Step::List {
            continue_token: None,
            limit: Some(500),
        };
        assert_eq!(watching.step(), list);
        assert_eq!(watching.failed(FaultKind::TooLarge), Pause::RetryAfter(60));
        for _ in 0..2 {
            watching.failed(FaultKind::Expired);
        }
        assert_eq!(
            watching.step(),
            Step::List {
                continue_token: None,
                limit: None
            }
        );
        assert_eq!(watching.failed(FaultKind::TooLarge), Pause::Backoff);
        assert_eq!(watching.step(), list);
    }

    #[derive(Clone, Debug)]
    enum Input {
        Page(u64, bool),
        Reached(u64),
        Ended,
        Failed(FaultKind),
    }

    fn input() -> impl Strategy<Value = Input> {
        let kinds = vec![
            FaultKind::Expired,
            FaultKind::Transport,
            FaultKind::Server,
            FaultKind::Garbled,
            FaultKind::Forbidden,
        ];
        prop_oneof![
            (1_u64..4, any::<bool>()).prop_map(|(version, more)| Input::Page(version, more)),
            (1_u64..50).prop_map(Input::Reached),
            Just(Input::Ended),
            prop::sample::select(kinds).prop_map(Input::Failed),
        ]
    }

    proptest! {
        #[test]
        fn a_list_counts_as_complete_only_when_every_page_of_it_showed_one_revision(inputs in prop::collection::vec(input(), 0..100)) {
            let mut machine = Machine::new(None);
            let mut pages: Vec<u64> = Vec::new();
            for input in inputs {
                let listing = matches!(machine.step(), Step::List { .. });
                if matches!(machine.step(), Step::List { continue_token: None, .. }) {
                    pages.clear();
                }
                match input {
                    Input::Page(number, more) if listing => {
                        pages.push(number);
                        let outcome = machine.page_listed(version(number), more.then(|| "t".to_owned()));
                        if outcome == PageOutcome::Complete {
                            prop_assert!(pages.iter().all(|page| *page == number));
                            prop_assert_eq!(machine.known_version(), Some(version(number)));
                        }
                    }
                    Input::Page(..) => {}
                    Input::Reached(number) => {
                        let before = machine.known_version();
                        if machine.reached(version(number)) {
                            prop_assert!(machine.known_version() >= before);
                        }
                    }
                    Input::Ended => { machine.watch_ended(); }
                    Input::Failed(kind) => { machine.failed(kind); }
                }
            }
        }
    }
}
