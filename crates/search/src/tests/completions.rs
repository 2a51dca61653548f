//! What is offered where.

use crate::{Completions, NoVocabulary, Vocabulary, complete};

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
    fn kinds(&self, prefix: &str) -> Vec<String> {
        beginning(
            &["Pod", "PodDisruptionBudget", "Deployment", "Secret"],
            prefix,
        )
    }

    fn clusters(&self, prefix: &str) -> Vec<String> {
        beginning(&["member1", "member2", "my cluster", "bad\u{7}"], prefix)
    }

    fn namespaces(&self, prefix: &str) -> Vec<String> {
        beginning(&["web", "shop", "Invalid"], prefix)
    }

    fn label_keys(&self, prefix: &str) -> Vec<String> {
        beginning(&["app", "app.kubernetes.io/name", "in valid"], prefix)
    }

    fn label_values(&self, key: &str, prefix: &str) -> Vec<String> {
        match key {
            "app" => beginning(&["web", "api", "", "in valid"], prefix),
            _ => Vec::new(),
        }
    }

    fn reasons(&self, prefix: &str) -> Vec<String> {
        beginning(&["CrashLoopBackOff", "two words", "quo\"te,d"], prefix)
    }

    fn images(&self, prefix: &str) -> Vec<String> {
        beginning(&["nginx:1.27", "docker.io/library/nginx"], prefix)
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
