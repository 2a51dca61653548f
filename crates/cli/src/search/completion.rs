//! Completes the words of a query. The server completes them with what it finds; without it only
//! the words of the language are known.

use std::ffi::OsStr;

use clap_complete::{CompletionCandidate, engine::ArgValueCompleter};
use fleetdex_search::{Completion, Completions, Condition, NoVocabulary, complete, parse};

use crate::completion::{is_plain, query_server, word_before_cursor, words_of_line};

/// Completes one word of a query.
pub(super) fn query() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let (word, kept) = word_before_cursor(&current.to_string_lossy());
        let others = other_terms(&words_of_line(), &word);
        let text = [others.as_str(), &word].concat();
        let served = query_server(async |api| api.search_completions(&text).await.map(Some));
        let completions = served.unwrap_or_else(|| complete(&text, text.len(), &NoVocabulary));
        let candidate = |(word, help): (String, String)| {
            let shown = word.get(kept..)?;
            Some(CompletionCandidate::new(shown).help(Some(help.into())))
        };
        let offered = offered(&text, others.len(), completions);
        offered.into_iter().filter_map(candidate).collect()
    })
}

/// The terms of a command line besides the word at its end, with the blank that follows them. A
/// word without a qualifier may be the value of a flag.
fn other_terms(line: &[String], word: &str) -> String {
    let before = line.strip_suffix(&[word.to_owned()]).unwrap_or(line);
    let has_qualifiers = |word: &&String| {
        parse(word).is_ok_and(|search| {
            let mut terms = search.terms.iter();
            !search.terms.is_empty()
                && terms.all(|term| !matches!(term.condition, Condition::Word(_)))
        })
    };
    let mut terms = String::new();
    for term in before.iter().filter(has_qualifiers) {
        terms.push_str(term);
        terms.push(' ');
    }
    terms
}

/// The words that may be meant, each with what it means. `start`: where the word begins in the
/// text, which ends with it.
fn offered(text: &str, start: usize, completions: Completions) -> Vec<(String, String)> {
    let Completions { replace, items } = completions;
    let whole = items.into_iter().filter_map(|item: Completion| {
        let before = text.get(start..replace.start)?;
        let after = text.get(replace.end..)?;
        Some(([before, &item.text, after].concat(), item.detail))
    });
    whole.filter(|(word, _)| is_plain(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str, start: usize) -> Vec<String> {
        let completions = complete(text, text.len(), &NoVocabulary);
        let words = offered(text, start, completions).into_iter();
        words.map(|(word, _)| word).collect()
    }

    #[test]
    fn words_are_completed_that_a_shell_reads_as_they_are() {
        assert_eq!(words("na", 0), ["namespace:", "name:"]);
        assert_eq!(words("health:Healthy,de", 0), ["health:Healthy,Degraded"]);
        assert_eq!(words("kind:Pod sus", 9), ["health:Suspended"]);
        assert_eq!(words("age:<", 0), [""; 0]);
    }

    #[test]
    fn the_other_terms_of_the_command_line_narrow_the_values() {
        let others = |line: &str, word: &str| {
            let line: Vec<String> = line.split(' ').map(str::to_owned).collect();
            other_terms(&line, word)
        };
        let line =
            "fleetdex search -n shop --server https://x:1 kind:Pod -health:Healthy web label:app=";
        assert_eq!(others(line, "label:app="), "kind:Pod -health:Healthy ");
        assert_eq!(others("fleetdex search kind:", "kind:"), "");
        assert_eq!(others("fleetdex search kind:Pod ", ""), "kind:Pod ");
    }

    #[test]
    fn a_malformed_response_completes_nothing() {
        for (start, end) in [(0, 5), (9, 99), (5, 99), (12, 12)] {
            let replace = start..end;
            let item = Completion {
                text: "x".to_owned(),
                detail: String::new(),
                is_finished: true,
            };
            let items = vec![item];
            assert_eq!(offered("kind:Pod w", 9, Completions { replace, items }), []);
        }
    }
}
