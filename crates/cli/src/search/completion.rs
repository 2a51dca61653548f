//! Completes the words of a query. Kinds, clusters and namespaces come from the server.

use std::ffi::OsStr;

use clap_complete::{CompletionCandidate, engine::ArgValueCompleter};
use fleetdex_search::{Completions, NoVocabulary, Vocabulary, complete};

use crate::{
    completion::{is_plain, query_server, values, word_before_cursor},
    resources::DiscoveredResource,
};

/// Completes one word of a query.
pub(super) fn query() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let (word, kept) = word_before_cursor(&current.to_string_lossy());
        let offered = if word.contains(':') {
            words(&word, &ServedVocabulary)
        } else {
            // Each kind of name would be another question to the server.
            words(&word, &NoVocabulary)
        };
        let candidate = |(word, help): (String, String)| {
            let shown = word.get(kept..)?;
            Some(CompletionCandidate::new(shown).help(Some(help.into())))
        };
        offered.into_iter().filter_map(candidate).collect()
    })
}

/// The words that may be meant, each with what it means.
fn words(word: &str, vocabulary: &dyn Vocabulary) -> Vec<(String, String)> {
    let Completions { replace, items } = complete(word, word.len(), vocabulary);
    let whole = items.into_iter().map(|item| {
        let completed = [&word[..replace.start], &item.text, &word[replace.end..]].concat();
        (completed, item.detail)
    });
    whole.filter(|(word, _)| is_plain(word)).collect()
}

/// What the server that the environment names serves.
struct ServedVocabulary;

impl Vocabulary for ServedVocabulary {
    fn kinds(&self, prefix: &str) -> Vec<String> {
        let served = query_server(async |api| {
            let resources = api.resources().await?;
            let kind = |resource: &DiscoveredResource| resource.api.kind.clone();
            Ok(resources.iter().map(kind).collect())
        });
        beginning(served, prefix)
    }

    fn clusters(&self, prefix: &str) -> Vec<String> {
        beginning(
            query_server(async |api| values(api, "cluster").await),
            prefix,
        )
    }

    fn namespaces(&self, prefix: &str) -> Vec<String> {
        beginning(
            query_server(async |api| values(api, "namespace").await),
            prefix,
        )
    }
}

/// The names that begin with a prefix, each once and in order.
fn beginning(mut names: Vec<String>, prefix: &str) -> Vec<String> {
    let begins = |name: &String| {
        let start = name.as_bytes().get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    names.retain(begins);
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed_that_a_shell_reads_as_they_are() {
        let offered = |word: &str| {
            let words = words(word, &NoVocabulary).into_iter();
            words.map(|(word, _)| word).collect::<Vec<_>>()
        };
        assert_eq!(offered("na"), ["namespace:", "name:"]);
        assert_eq!(offered("health:Healthy,de"), ["health:Healthy,Degraded"]);
        assert_eq!(offered("sus"), ["health:Suspended"]);
        assert_eq!(offered("age:<"), [""; 0]);
        let names = ["b", "Ab", "aa", "Ab"].map(str::to_owned).to_vec();
        assert_eq!(beginning(names, "a"), ["Ab", "aa"]);
    }
}
