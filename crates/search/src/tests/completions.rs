//! What is offered where.

use std::collections::BTreeMap;

use crate::{
    Completions, NoVocabulary, ValueSet, Vocabulary, WantedValues, complete, other_terms,
    wanted_values,
};

/// A small fleet.
pub(super) struct SmallFleet;

fn beginning<'w>(words: &[&'w str], prefix: &str) -> Vec<String> {
    let prefix = prefix.to_lowercase();
    let begins = |word: &&&'w str| word.to_lowercase().starts_with(&prefix);
    words
        .iter()
        .filter(begins)
        .map(|word| (*word).to_owned())
        .collect()
}

impl Vocabulary for SmallFleet {
    fn values(&self, wanted: &WantedValues) -> Vec<String> {
        let words: &[&str] = match &wanted.of {
            ValueSet::Kinds => &["Pod", "PodDisruptionBudget", "Deployment", "Secret"],
            ValueSet::Clusters => &["member1", "member2", "my cluster", "bad\u{7}"],
            ValueSet::Namespaces => &["web", "shop", "Invalid"],
            ValueSet::LabelKeys => &["app", "app.kubernetes.io/name", "in valid"],
            ValueSet::LabelValues(key) if key == "app" => &["web", "api", "", "in valid"],
            ValueSet::LabelValues(_) => &[],
            ValueSet::Reasons => &["CrashLoopBackOff", "two words", "quo\"te,d"],
            ValueSet::Images => &["nginx:1.27", "docker.io/library/nginx"],
        };
        beginning(words, &wanted.prefix)
    }
}

/// The texts that result; `|` is the cursor. Unfinished ones end with `…`.
fn results(marked: &str) -> Vec<String> {
    let cursor = marked.find('|').unwrap();
    let text = marked.replacen('|', "", 1);
    let Completions { replace, items } = complete(&text, cursor, &SmallFleet);
    let result = |item: &crate::Completion| {
        let mut result = text.clone();
        let inserted = format!("{}{}", item.text, if item.is_finished { "" } else { "…" });
        result.replace_range(replace.clone(), &inserted);
        result
    };
    items.iter().map(result).collect()
}

#[test]
fn qualifiers_are_completed() {
    assert_eq!(
        results("|"),
        [
            "kind:…",
            "health:…",
            "cluster:…",
            "ns:…",
            "label:…",
            "name:…",
            "reason:…",
            "image:…",
            "age:…",
            "uses:…"
        ]
    );
    assert_eq!(results("web n|"), ["web ns:…", "web name:…"]);
    assert_eq!(results("-NAM|"), ["-namespace:…", "-name:…"]);
    assert_eq!(results("la|xyz:app"), ["label:…app"]);
    assert_eq!(results("kind:Pod | web").len(), 10);
    assert_eq!(results("NOT hea|"), ["NOT health:…", "NOT health:Healthy"]);
    assert_eq!(results("|-kind:Pod"), [""; 0]);
    assert_eq!(results("\"ki|"), [""; 0]);
}

#[test]
fn a_word_is_completed_to_terms_with_known_values() {
    assert_eq!(results("pod|"), ["kind:Pod", "kind:PodDisruptionBudget"]);
    assert_eq!(results("x -degr| y"), ["x -health:Degraded y"]);
    assert_eq!(results("we|"), ["ns:web"]);
    assert_eq!(
        results("m|"),
        [
            "health:Missing",
            "cluster:member1",
            "cluster:member2",
            "cluster:\"my cluster\""
        ]
    );
}

#[test]
fn values_are_completed_with_the_quotes_that_they_need() {
    assert_eq!(results("kind:dep|"), ["kind:Deployment"]);
    assert_eq!(
        results("kind:Secret,po|x,y"),
        ["kind:Secret,Pod,y", "kind:Secret,PodDisruptionBudget,y"]
    );
    assert_eq!(results("cluster:my| web"), ["cluster:\"my cluster\" web"]);
    assert_eq!(results("cluster:\"my c|"), ["cluster:\"my cluster\""]);
    assert_eq!(results("reason:quo|"), [r#"reason:"quo\"te,d""#]);
    assert_eq!(results("health:d|"), ["health:Degraded"]);
    assert_eq!(results("image:nginx:|"), ["image:nginx:1.27"]);
    assert_eq!(
        results("age:<1|"),
        ["age:<10m", "age:<1h", "age:<1d", "age:<1w"]
    );
    assert_eq!(results("name:|"), [""; 0]);
    assert_eq!(results("nginx:|"), [""; 0]);
}

#[test]
fn labels_and_used_objects_are_completed_in_parts() {
    assert_eq!(
        results("label:ap|"),
        ["label:app=…", "label:app.kubernetes.io/name=…"]
    );
    assert_eq!(results("label:!app.|"), ["label:!app.kubernetes.io/name"]);
    assert_eq!(results("label:x|=web"), [""; 0]);
    assert_eq!(
        results("label:a|x=web"),
        ["label:app=web", "label:app.kubernetes.io/name=web"]
    );
    assert_eq!(
        results("label:app=|"),
        ["label:app=web", "label:app=api", "label:app=\"\""]
    );
    assert_eq!(results("label:app!=web,\"a|"), ["label:app!=web,api"]);
    assert_eq!(results("label:app=\"a|\",x"), ["label:app=api,x"]);
    assert_eq!(results("label:app>|"), [""; 0]);
    assert_eq!(results("uses:sec|"), ["uses:Secret/…"]);
    assert_eq!(results("uses:Secret/w|"), ["uses:Secret/web/…"]);
    assert_eq!(results("uses:Secret/web/|"), [""; 0]);
}

#[test]
fn a_text_with_other_errors_is_still_completed() {
    assert_eq!(
        results("kind: health:deg| \"x"),
        ["kind: health:Degraded \"x"]
    );
    let long = "a".repeat(1100);
    assert!(complete(&long, 3, &SmallFleet).items.is_empty());
    assert_eq!(complete("kind:", 99, &NoVocabulary).replace, 5..5);
}

/// What a completion asks for; `|` is the cursor.
fn wanted(marked: &str) -> Vec<(ValueSet, String)> {
    let cursor = marked.find('|').unwrap();
    let asked = wanted_values(&marked.replacen('|', "", 1), cursor);
    asked
        .into_iter()
        .map(|wanted| (wanted.of, wanted.prefix))
        .collect()
}

#[test]
fn a_completion_asks_only_for_the_values_that_it_offers() {
    let prefixed = |of: ValueSet, prefix: &str| (of, prefix.to_owned());
    let app = || ValueSet::LabelValues("app".to_owned());
    assert_eq!(wanted("kind:p|"), [prefixed(ValueSet::Kinds, "p")]);
    assert_eq!(
        wanted("web label:ap|"),
        [prefixed(ValueSet::LabelKeys, "ap")]
    );
    assert_eq!(wanted("label:app=w|x"), [prefixed(app(), "w")]);
    assert_eq!(wanted("-label:app!=a,\"W|"), [prefixed(app(), "W")]);
    assert_eq!(
        wanted("uses:Secret/w|"),
        [prefixed(ValueSet::Namespaces, "w")]
    );
    assert_eq!(
        wanted("we|"),
        [
            prefixed(ValueSet::Kinds, "we"),
            prefixed(ValueSet::Clusters, "we"),
            prefixed(ValueSet::Namespaces, "we"),
            prefixed(ValueSet::Reasons, "we"),
        ]
    );
    for nothing in [
        "|",
        "health:d|",
        "age:|",
        "name:a|",
        "lab|el:a",
        "label:app>|",
    ] {
        assert_eq!(wanted(nothing), [], "{nothing}");
    }
}

#[test]
fn a_completion_with_the_values_that_it_asks_for_is_complete() {
    for marked in [
        "po|",
        "kind:p|",
        "x label:app=|",
        "label:|",
        "uses:sec|",
        "image:|",
    ] {
        let cursor = marked.find('|').unwrap();
        let text = marked.replacen('|', "", 1);
        let asked = wanted_values(&text, cursor).into_iter();
        let read: BTreeMap<WantedValues, Vec<String>> = asked
            .map(|wanted| (wanted.clone(), SmallFleet.values(&wanted)))
            .collect();
        let whole = complete(&text, cursor, &SmallFleet);
        assert!(!whole.items.is_empty());
        assert_eq!(complete(&text, cursor, &read), whole, "{marked}");
    }
}

#[test]
fn the_other_terms_of_a_completion_are_those_without_the_one_at_the_cursor() {
    let others = |marked: &str| {
        let cursor = marked.find('|').unwrap();
        other_terms(&marked.replacen('|', "", 1), cursor)
    };
    assert_eq!(others("kind:Pod label:a|=\"b c\" web"), "kind:Pod  web");
    assert_eq!(others("kind:Pod | web"), "kind:Pod  web");
    assert_eq!(others("kind:Pod -ns:|"), "kind:Pod ");
    assert_eq!(others("kind:Pod NOT ns:|"), "kind:Pod ");
    assert_eq!(others("|"), "");
    assert_eq!(results("\"x NOT ns:w|"), [""; 0], "inside quotes");
}
