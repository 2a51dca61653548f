//! The question of a view, as kubectl, `fleetdex` and OpenSearch ask it.

use maud::{Markup, html};
use serde_json::Value;

use crate::{
    address::ObjectAddress,
    query::{Accept, BASE, QueryApi, ask},
};

/// The question of a view in other words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Question {
    /// The command of kubectl.
    pub(crate) kubectl: String,
    /// The command of `fleetdex`.
    pub(crate) fleetdex: String,
    /// The request bodies for OpenSearch, or why there are none.
    pub(crate) open_search: String,
}

impl Question {
    /// The part of a view that shows it.
    pub(crate) fn render(&self) -> Markup {
        html! {
            details.question #question {
                summary { "The same question with kubectl, fleetdex and OpenSearch" }
                @for (name, text) in [("kubectl", &self.kubectl), ("fleetdex", &self.fleetdex), ("OpenSearch", &self.open_search)] {
                    @if !text.is_empty() {
                        h3 { (name) }
                        div.copyable {
                            pre tabindex="0" { code id=(format!("question-{name}")) { (text) } }
                            button type="button" hidden data-copy=(format!("question-{name}")) { "Copy" span.invisible { " the " (name) " question" } }
                        }
                    }
                }
            }
        }
    }
}

/// `kubectl get --raw` of a path below the group and version.
pub(crate) fn raw(path: &str) -> String {
    format!("kubectl get --raw {}", quoted(&format!("{BASE}{path}")))
}

/// `fleetdex get` of an object.
pub(crate) fn get_command(address: &ObjectAddress) -> String {
    let path = &address.path;
    let namespace = path.namespace.as_ref();
    let namespace = namespace.map(|name| format!(" -n {}", quoted(name)));
    format!(
        "fleetdex get {} {}{} --cluster {} -o yaml",
        quoted(&path.resource()),
        quoted(&path.name),
        namespace.unwrap_or_default(),
        quoted(address.cluster.as_str())
    )
}

/// What OpenSearch is asked for a path, which the query API explains.
pub(crate) async fn explained(api: &dyn QueryApi, path: &str) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    match ask::<Value>(api, &format!("{path}{separator}explain=true"), Accept::Json).await {
        Ok(answered) => bodies(&answered.value["requests"]),
        Err(unanswered) => format!("# {}", unanswered.message),
    }
}

fn bodies(requests: &Value) -> String {
    let requests = requests.as_array().map(Vec::as_slice).unwrap_or_default();
    let texts = requests
        .iter()
        .map(|body| serde_json::to_string_pretty(body).unwrap_or_default());
    texts.collect::<Vec<_>>().join("\n\n")
}

/// A word of a POSIX shell, without control characters, which a terminal would obey.
pub(crate) fn quoted(word: &str) -> String {
    let word: String = word.chars().filter(|letter| !letter.is_control()).collect();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("kind:Pod"), "kind:Pod");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's $(x)"), r"'it'\''s $(x)'");
        assert_eq!(quoted(""), "''");
    }
}
