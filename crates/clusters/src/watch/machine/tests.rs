use proptest::prelude::*;

use super::*;

fn version(number: u64) -> Version {
    number.to_string().parse().unwrap()
}

#[test]
fn pages_lead_to_a_watch_from_the_lists_version() {
    let mut machine = ListWatchMachine::new(None);
    assert_eq!(
        machine.step(),
        ListWatchStep::List {
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
        ListWatchStep::List {
            continue_token: Some("t".to_owned()),
            limit: Some(500)
        }
    );
    assert_eq!(machine.page_listed(version(5), None), PageOutcome::Complete);
    assert_eq!(machine.step(), ListWatchStep::Watch { from: version(5) });
}

#[test]
fn a_watch_resumes_where_it_was() {
    let mut machine = ListWatchMachine::new(Some(version(5)));
    assert_eq!(machine.step(), ListWatchStep::Check { known: version(5) });
    assert!(machine.checked(version(7)));
    assert!(machine.reached(version(9)));
    assert_eq!(machine.watch_ended(), Pause::Jitter);
    assert_eq!(machine.step(), ListWatchStep::Watch { from: version(9) });
    assert_eq!(machine.failed(FaultKind::Transport), Pause::Backoff);
    assert_eq!(machine.step(), ListWatchStep::Check { known: version(9) });
    assert!(machine.checked(version(9)));
    assert_eq!(machine.step(), ListWatchStep::Watch { from: version(9) });
}

#[test]
fn a_member_whose_version_went_back_is_listed() {
    let list = ListWatchStep::List {
        continue_token: None,
        limit: Some(500),
    };
    let mut machine = ListWatchMachine::new(Some(version(5)));
    assert!(!machine.checked(version(4)));
    assert_eq!(machine.step(), list);
    let mut machine = ListWatchMachine::new(Some(version(5)));
    assert!(machine.checked(version(5)) && !machine.reached(version(3)));
    assert_eq!(machine.step(), list);
}

#[test]
fn an_expired_version_leads_to_a_new_list() {
    let mut machine = ListWatchMachine::new(Some(version(5)));
    machine.failed(FaultKind::Expired);
    assert_eq!(
        machine.step(),
        ListWatchStep::List {
            continue_token: None,
            limit: Some(500)
        }
    );
}

#[test]
fn a_list_whose_token_expires_repeatedly_is_requested_without_a_limit() {
    let mut machine = ListWatchMachine::new(None);
    for _ in 0..2 {
        machine.page_listed(version(5), Some("t".to_owned()));
        machine.failed(FaultKind::Expired);
    }
    assert_eq!(
        machine.step(),
        ListWatchStep::List {
            continue_token: None,
            limit: None
        }
    );
}

#[test]
fn pages_of_different_versions_restart_the_list() {
    let mut machine = ListWatchMachine::new(None);
    machine.page_listed(version(5), Some("t".to_owned()));
    assert_eq!(
        machine.page_listed(version(6), None),
        PageOutcome::Inconsistent
    );
    assert_eq!(
        machine.step(),
        ListWatchStep::List {
            continue_token: None,
            limit: Some(500)
        }
    );
}

#[test]
fn a_servers_retry_after_is_respected() {
    let mut machine = ListWatchMachine::new(None);
    assert_eq!(
        machine.failed(FaultKind::Throttled {
            retry_after_seconds: 7
        }),
        Pause::RetryAfter(7)
    );
}

#[test]
fn a_resource_that_cannot_be_watched_is_retried_after_ten_minutes() {
    assert_eq!(
        ListWatchMachine::new(None).failed(FaultKind::NotAllowed),
        Pause::RetryAfter(600)
    );
    let mut watching = ListWatchMachine::new(Some(version(5)));
    assert!(watching.checked(version(5)));
    assert_eq!(
        watching.failed(FaultKind::NotAllowed),
        Pause::RetryAfter(600)
    );
}

#[test]
fn a_change_that_is_too_large_leads_to_a_delayed_list() {
    let mut watching = ListWatchMachine::new(Some(version(5)));
    assert!(watching.checked(version(5)));
    assert_eq!(watching.failed(FaultKind::TooLarge), Pause::RetryAfter(60));
    let list = ListWatchStep::List {
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
        ListWatchStep::List {
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
    fn a_list_is_complete_only_if_all_its_pages_have_one_version(inputs in prop::collection::vec(input(), 0..100)) {
        let mut machine = ListWatchMachine::new(None);
        let mut pages: Vec<u64> = Vec::new();
        for input in inputs {
            let listing = matches!(machine.step(), ListWatchStep::List { .. });
            if matches!(machine.step(), ListWatchStep::List { continue_token: None, .. }) {
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
