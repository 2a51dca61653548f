//! What texts mean.

use std::time::Duration;

use crate::{AgeTest, Condition, Search, UsedObject, parse};

fn canonical(text: &str) -> Result<String, String> {
    parse(text)
        .map(|search| search.to_string())
        .map_err(|error| error.to_string())
}

fn condition(text: &str) -> Condition {
    let mut terms = parse(text).unwrap().terms;
    assert_eq!(terms.len(), 1, "{text}: {terms:?}");
    terms.remove(0).condition
}

#[test]
fn texts_have_one_canonical_form() {
    for (text, expected) in [
        ("", ""),
        (" \t\n\u{3000}", ""),
        ("web", "web"),
        ("  web \u{a0} shop ", "web shop"),
        ("\"web\"", "web"),
        ("\"web shop\"", "\"web shop\""),
        (r#""a \"b\" \\c""#, r#""a \"b\" \\c""#),
        (r"a\b", r"a\b"),
        ("back-off", "back-off"),
        ("a,b", "a,b"),
        ("-web", "-web"),
        ("NOT web", "-web"),
        ("NOT   \"web shop\"", "-\"web shop\""),
        ("\"-web\"", "\"-web\""),
        ("-\"-web\"", "-\"-web\""),
        ("\"NOT\" not \"OR\" or", "\"NOT\" not \"OR\" or"),
        ("nginx:1.27", "nginx:1.27"),
        ("system:node", "system:node"),
        ("::1 a:", "::1 a:"),
        ("http://x/y?kind:Pod", "http://x/y?kind:Pod"),
        ("\"kind:Pod\"", "\"kind:Pod\""),
        ("\"heath:x\"", "\"heath:x\""),
        ("kind:Pod,deploy", "kind:Pod,deploy"),
        ("KIND:Pod", "kind:Pod"),
        ("kind:\"Pod\"", "kind:Pod"),
        ("kind:deployments.apps", "kind:deployments.apps"),
        ("NAMESPACE:web,shop ns:x", "ns:web,shop ns:x"),
        ("cluster:team-a/member1", "cluster:team-a/member1"),
        (
            "cluster:arn:aws:eks:eu-west-1:123:cluster/x",
            "cluster:arn:aws:eks:eu-west-1:123:cluster/x",
        ),
        ("cluster:\"my cluster\"", "cluster:\"my cluster\""),
        ("name:system:node", "name:system:node"),
        ("name:\"a,b\",c", "name:\"a,b\",c"),
        ("health:degraded,UNKNOWN", "health:Degraded,Unknown"),
        ("reason:CrashLoopBackOff", "reason:CrashLoopBackOff"),
        ("image:nginx:1.27", "image:nginx:1.27"),
        ("image:a/b@sha256:00", "image:a/b@sha256:00"),
        ("label:app", "label:app"),
        ("label:!app", "label:!app"),
        ("label:app=web", "label:app=web"),
        ("label:app==web", "label:app=web"),
        ("label:app=web,api,web", "label:app=api,web"),
        ("label:app!=web,api", "label:app!=api,web"),
        ("label:app=\"web\",\"api\"", "label:app=api,web"),
        ("label:\"app=web\"", "label:app=web"),
        ("label:app=\"\"", "label:app=\"\""),
        ("label:app=a,\"\"", "label:app=\"\",a"),
        ("label:example.com/a>3", "label:example.com/a>3"),
        ("label:a<007", "label:a<7"),
        ("-label:app!=web", "-label:app!=web"),
        ("age:<1d", "age:<1d"),
        ("age:>=2h30m", "age:>2h30m"),
        ("uses:secret/web/db", "uses:secret/web/db"),
        ("uses:node/n1,sc/fast", "uses:node/n1,sc/fast"),
        ("uses:\"role/web/a,b\"", "uses:\"role/web/a,b\""),
    ] {
        assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn conditions_have_their_values() {
    let texts = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    assert_eq!(
        condition("nginx:1.27"),
        Condition::Word("nginx:1.27".into())
    );
    assert_eq!(
        condition("kind:Pod,po"),
        Condition::Kind(texts(&["Pod", "po"]))
    );
    assert_eq!(
        condition("namespace:web"),
        Condition::Namespace(vec!["web".parse().unwrap()])
    );
    assert_eq!(
        condition("health:degraded"),
        Condition::Health(texts(&["Degraded"]))
    );
    assert_eq!(
        condition("age:>90m"),
        Condition::Age(AgeTest {
            younger: false,
            age: Duration::from_mins(90)
        })
    );
    assert_eq!(
        condition("uses:secret/web/db"),
        Condition::Uses(vec![UsedObject {
            kind: "secret".into(),
            namespace: Some("web".parse().unwrap()),
            name: "db".into()
        }])
    );
    assert_eq!(
        condition("uses:storageclass/fast"),
        Condition::Uses(vec![UsedObject {
            kind: "storageclass".into(),
            namespace: None,
            name: "fast".into()
        }])
    );
}

#[test]
fn a_span_has_the_term_with_its_negation() {
    let text = "ä  -kind:Pod NOT  \"x y\" age:<1d";
    let spans: Vec<(&str, bool)> = parse(text)
        .unwrap()
        .terms
        .iter()
        .map(|term| (&text[term.span.clone()], term.negated))
        .collect();
    assert_eq!(
        spans,
        [
            ("ä", false),
            ("-kind:Pod", true),
            ("NOT  \"x y\"", true),
            ("age:<1d", false)
        ]
    );
}

#[test]
fn bounds_are_inclusive() {
    let terms = |count: usize| vec!["a"; count].join(" ");
    assert_eq!(parse(&terms(32)).unwrap().terms.len(), 32);
    assert!(canonical(&terms(33)).unwrap_err().starts_with("column 65:"));
    let values = |count: usize| format!("name:{}", vec!["a"; count].join(","));
    assert!(parse(&values(64)).is_ok());
    assert!(
        canonical(&values(65))
            .unwrap_err()
            .starts_with("column 134:")
    );
    assert!(parse(&"a".repeat(256)).is_ok());
    assert!(
        canonical(&"a".repeat(257))
            .unwrap_err()
            .starts_with("column 1:")
    );
    let padded = |length: usize| format!("{}a", " ".repeat(length - 1));
    assert!(parse(&padded(1024)).is_ok());
    assert!(
        canonical(&padded(1025))
            .unwrap_err()
            .starts_with("column 1025:")
    );
    // 1,021 bytes, and more in canonical form.
    let ages = vec!["age:<9999999s"; 31].join(" ");
    let text = format!("{ages} name:{}", "a".repeat(1021 - ages.len() - 6));
    assert!(canonical(&text).unwrap_err().contains("at most 1024 bytes"));
}

#[test]
fn searches_are_equal_wherever_their_terms_are() {
    assert_eq!(
        parse("a  -b").unwrap(),
        "a NOT b".parse::<Search>().unwrap()
    );
    assert_ne!(parse("a").unwrap(), parse("-a").unwrap());
}
