use super::super::tone::{tokens, tone};
use super::super::words::{self, Classes};

fn says(text: &str) -> Vec<&'static str> {
    let said = tone(text);
    [
        (said.has(Classes::BAD), "bad"),
        (said.has(Classes::ABSENT), "absent"),
        (said.has(Classes::PAUSED), "paused"),
        (said.has(Classes::UNFINISHED), "busy"),
        (said.has(Classes::GOOD), "good"),
        (said.has(Classes::DONE), "done"),
    ]
    .into_iter()
    .filter_map(|(says, name)| says.then_some(name))
    .collect()
}

#[test]
fn texts_are_split_at_capitals_and_at_everything_but_letters() {
    for (text, expected) in [
        ("ErrImagePull", vec!["Err", "Image", "Pull"]),
        ("OOMKilled", vec!["OOM", "Killed"]),
        (
            "CrashLoopBackOff: back-off 10s",
            vec!["Crash", "Loop", "Back", "Off", "back", "off", "s"],
        ),
        ("PENDING_RERUN", vec!["PENDING", "RERUN"]),
        ("numberReady", vec!["number", "Ready"]),
        ("HTTPSProxyURL", vec!["HTTPS", "Proxy", "URL"]),
        ("déjà vu", vec!["d", "j", "vu"]),
        ("123 --", vec![]),
        ("", vec![]),
    ] {
        assert_eq!(tokens(text).collect::<Vec<_>>(), expected, "{text}");
    }
}

#[test]
fn the_tone_of_a_text_follows_from_its_words() {
    for (text, expected) in [
        ("ErrImagePull", vec!["bad"]),
        ("Ready", vec!["good", "done"]),
        ("Bound", vec!["good"]),
        ("Suspended", vec!["paused"]),
        ("Reconciling", vec!["busy"]),
        ("Purple", vec![]),
        ("king", vec![]),
        ("RUNNING", vec!["good", "done"]),
        ("string", vec![]),
    ] {
        assert_eq!(says(text), expected, "{text}");
    }
}

#[test]
fn a_negation_reaches_three_words() {
    for (text, expected) in [
        ("no errors", vec![]),
        ("without any more errors", vec![]),
        ("without any of the errors", vec!["bad"]),
        ("not all pods ready", vec!["busy"]),
        ("NotReady", vec!["busy"]),
        ("nothing ready", vec!["good", "done"]),
        ("isn't complete", vec!["busy"]),
        ("cannot start", vec!["bad"]),
        ("not suspended", vec![]),
    ] {
        assert_eq!(says(text), expected, "{text}");
    }
}

#[test]
fn phrases_are_sought_in_whole_words() {
    for (text, expected) in [
        ("SecretNotFound", vec!["absent", "busy"]),
        ("the secret does not exist", vec!["absent"]),
        ("no such host", vec!["absent"]),
        ("timed-out", vec!["bad"]),
        ("could not pull", vec!["bad"]),
        ("hash does not match", vec!["bad"]),
        ("something went wrong", vec!["bad"]),
        ("BackOff", vec!["bad"]),
        ("feedback office", vec![]),
        ("NonCompliant", vec!["bad", "busy"]),
        ("limit reached", vec!["bad"]),
        ("not supported", vec!["bad"]),
        ("not permitted", vec!["bad"]),
        ("working", vec![]),
    ] {
        assert_eq!(says(text), expected, "{text}");
    }
}

#[test]
fn words_are_known_in_any_case_and_no_longer_word_is_looked_up() {
    assert!(words::classes("misCONFIGURATION").has(Classes::BAD));
    assert!(!words::classes(&"a".repeat(100)).has(Classes::BAD));
    assert!(words::classes(&format!("{}ing", "a".repeat(100))).has(Classes::BUSY));
    assert!(words::whole("UpToDate").has(Classes::SUMMARY));
    assert!(words::whole("up-to-date").has(Classes::SUMMARY));
    assert!(!words::whole("DatabaseReady").has(Classes::SUMMARY));
}
