use super::*;

#[test]
fn a_page_returns_its_items_as_raw_json() {
    let body = br#"{"kind":"PodList","metadata":{"resourceVersion":"9","continue":"abc"},"items":[{"a": 1},{}]}"#;
    let page = ListPage::parse(body).unwrap();
    assert_eq!(page.version.get(), 9);
    assert_eq!(page.continue_token.as_deref(), Some("abc"));
    assert_eq!(page.items[0], r#"{"a": 1}"#);
    assert!(
        ListPage::parse(br#"{"metadata":{"resourceVersion":"9"},"items":null}"#)
            .unwrap()
            .items
            .is_empty()
    );
    assert!(ListPage::parse(br#"{"metadata":{"resourceVersion":"9"},"items":[{"#).is_err());
}

#[test]
fn a_page_over_the_limit_must_be_the_last_one() {
    let page = |next: &str| {
        format!(
            r#"{{"metadata":{{"resourceVersion":"9","continue":"{next}"}},"items":[{{}},{{}},{{}}]}}"#
        )
    };
    let within = |next: &str, limit| {
        ListPage::parse(page(next).as_bytes())
            .and_then(|page| page.within(limit))
            .is_ok()
    };
    assert!(within("", Some(2)) && within("x", Some(3)) && within("x", None));
    assert!(!within("x", Some(2)));
}

#[test]
fn messages_of_members_are_shortened_to_one_line_in_faults() {
    let long = format!("\\n\\u001b{}", "A".repeat(1 << 20));
    let object = format!(r#"{{"metadata":{{"resourceVersion":"{long}"}}}}"#);
    let of_list = |list: String| ListPage::parse(list.as_bytes()).unwrap_err().to_string();
    let of_watch = |line: String| WatchEvent::parse(line.as_bytes()).unwrap_err().to_string();
    for fault in [
        of_list(object.clone()),
        of_list(format!(r#"{{"metadata":"{long}"}}"#)),
        of_list(format!(
            r#"{{"metadata":{{"resourceVersion":"1"}},"items":"{long}"}}"#
        )),
        of_watch(format!(r#"{{"type":"BOOKMARK","object":{object}}}"#)),
        of_watch(format!(r#"{{"type":"{long}","object":{{}}}}"#)),
        of_watch(format!(r#""{long}""#)),
    ] {
        assert!(
            fault.len() < 1_000 && !fault.contains(['\n', '\u{1b}']),
            "{fault}"
        );
    }
}

#[test]
fn a_continue_token_has_a_limit() {
    let page = |length: usize| {
        format!(
            r#"{{"metadata":{{"resourceVersion":"1","continue":"{}"}},"items":[]}}"#,
            "A".repeat(length)
        )
    };
    assert!(ListPage::parse(page(MAX_TOKEN).as_bytes()).is_ok());
    assert!(matches!(
        ListPage::parse(page(MAX_TOKEN + 1).as_bytes()),
        Err(EventError::LongToken(_))
    ));
}

#[test]
fn an_expired_version_is_recognised_in_the_stream_and_as_a_status() {
    let status = r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old"}"#;
    let line = format!(r#"{{"type":"ERROR","object":{status}}}"#);
    let WatchEvent::Error(fault) = WatchEvent::parse(line.as_bytes()).unwrap() else {
        panic!("no error")
    };
    assert_eq!(fault.kind, FaultKind::Expired);
    assert_eq!(
        status_fault(status.as_bytes(), Some(410)).kind,
        FaultKind::Expired
    );
    assert_eq!(status_fault(b"gone", Some(410)).kind, FaultKind::Expired);
}

#[test]
fn events_and_bookmarks_are_distinguished() {
    let object = r#"{"metadata":{"resourceVersion":"12"}}"#;
    let parse = |kind: &str| format!(r#"{{"type":"{kind}","object":{object}}}"#);
    assert!(matches!(
        WatchEvent::parse(parse("ADDED").as_bytes()).unwrap(),
        WatchEvent::Added(_)
    ));
    assert!(matches!(
        WatchEvent::parse(parse("DELETED").as_bytes()).unwrap(),
        WatchEvent::Deleted(_)
    ));
    assert!(
        matches!(WatchEvent::parse(parse("BOOKMARK").as_bytes()).unwrap(), WatchEvent::Bookmark(version) if version.get() == 12)
    );
    assert!(matches!(
        WatchEvent::parse(parse("NEW").as_bytes()),
        Err(EventError::UnknownType(_))
    ));
    let other_order = format!(r#"{{ "object": {object}, "type": "ADDED" }}"#);
    assert!(
        matches!(WatchEvent::parse(other_order.as_bytes()).unwrap(), WatchEvent::Added(text) if text == object)
    );
    assert!(WatchEvent::parse(b"{\"type\":\"ADDED\",\"obj").is_err());
}
