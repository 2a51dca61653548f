//! The question of a view, as kubectl, `fleetdex` and OpenSearch ask it.

use fleetdex_query_api::{answer::Explanation, group::BASE};
use futures::future::join_all;
use maud::{Markup, html};
use serde_json::Value;

use crate::{
    address::ObjectAddress,
    parameters::Parameters,
    query::{Accept, QueryApi, ask},
};

/// The parameter of an address whose view shows the question to OpenSearch, too.
const EXPLAIN: &str = "explain";

/// The question of a view in other words.
#[derive(Clone, Debug)]
pub(crate) struct OtherWords {
    /// The command of kubectl.
    pub(crate) kubectl: String,
    /// The command of `fleetdex`.
    pub(crate) fleetdex: String,
    /// The request bodies for OpenSearch; `None` if it knows nothing of what is asked.
    pub(crate) open_search: Option<ShownExplanation>,
}

/// What OpenSearch is asked for a view. To find out costs the query API about as much as an answer,
/// and few want to see it.
#[derive(Clone, Debug)]
pub(crate) enum ShownExplanation {
    /// The address at which the view has it.
    At(String),
    /// The request bodies, or why there are none.
    Bodies(String),
}

impl OtherWords {
    /// The part of a view that shows it.
    pub(crate) fn render(&self) -> Markup {
        let commands = [("kubectl", &self.kubectl), ("fleetdex", &self.fleetdex)];
        let is_explained = matches!(self.open_search, Some(ShownExplanation::Bodies(_)));
        html! {
            details.question #question open[is_explained] {
                summary { "The same question with kubectl, fleetdex" @if self.open_search.is_some() { ", OpenSearch" } }
                @for (name, text) in commands { (copyable(name, text)) }
                @match &self.open_search {
                    Some(ShownExplanation::At(address)) => p { a href=(address) { "Show the question to OpenSearch" } },
                    Some(ShownExplanation::Bodies(text)) => (copyable("OpenSearch", text)),
                    None => {},
                }
            }
        }
    }
}

fn copyable(name: &str, text: &str) -> Markup {
    html! {
        h3 { (name) }
        div.copyable {
            pre tabindex="0" { code id=(format!("question-{name}")) { (text) } }
            button type="button" hidden data-copy=(format!("question-{name}")) { "Copy" span.invisible { " the " (name) " question" } }
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

/// What OpenSearch is asked for these paths, which the query API explains, if the address of the
/// view says that it is shown.
pub(crate) async fn explained(
    api: &dyn QueryApi,
    paths: &[&str],
    parameters: &Parameters,
) -> ShownExplanation {
    if parameters.get(EXPLAIN).is_empty() {
        let address = parameters.address_with(EXPLAIN, "true");
        return ShownExplanation::At(format!("{address}#question"));
    }
    let explanations = paths.iter().map(|path| explanation(api, path));
    ShownExplanation::Bodies(join_all(explanations).await.join("\n\n"))
}

async fn explanation(api: &dyn QueryApi, path: &str) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{separator}explain=true");
    match ask::<Explanation>(api, &path, Accept::Json).await {
        Ok(answered) => bodies(&answered.value.requests),
        Err(unanswered) => format!("# {}", unanswered.message),
    }
}

fn bodies(requests: &[Value]) -> String {
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
