//! The query of a search, from the arguments of the command.

use fleetdex_core::terminal::escaped_line;
use fleetdex_search::{Condition, SyntaxError, parse};

use crate::{
    console::CommandError,
    query_args::{ArgsError, label_selector},
};

/// A query that the grammar refuses, with the place.
#[derive(Debug, thiserror::Error)]
#[error("invalid query: {message}\n  {query}\n  {marks}")]
pub struct SearchQueryError {
    /// The position, what is wrong, and what to write instead.
    message: String,
    /// The query on one line.
    query: String,
    /// The marks under the wrong characters.
    marks: String,
}

impl From<SearchQueryError> for CommandError {
    fn from(error: SearchQueryError) -> Self {
        Self::failed(error)
    }
}

impl SearchQueryError {
    fn new(query: &str, error: &SyntaxError) -> Self {
        let width = |text: &str| escaped_line(text).chars().count();
        let before = width(&query[..error.span.start]);
        let marked = width(&query[error.span.clone()]).max(1);
        Self {
            message: error.to_string(),
            query: escaped_line(query).into_owned(),
            marks: " ".repeat(before) + &"^".repeat(marked),
        }
    }
}

/// Joins arguments to a query. An argument with blanks is one word, unless it has a qualifier, a
/// negation or quotes: then it is a part of the query as it is.
pub(super) fn join(arguments: &[String]) -> String {
    let parts: Vec<String> = arguments.iter().map(|argument| as_part(argument)).collect();
    parts.join(" ")
}

fn as_part(argument: &str) -> String {
    let is_literal = !argument.contains(char::is_whitespace) || argument.contains('"');
    let is_words = || {
        let is_word = |term: &fleetdex_search::Term| {
            !term.negated && matches!(term.condition, Condition::Word(_))
        };
        parse(argument).is_ok_and(|search| search.terms.iter().all(is_word))
    };
    if is_literal || !is_words() {
        return argument.to_owned();
    }
    match argument.trim() {
        "" => String::new(),
        phrase => Condition::Word(phrase.to_owned()).to_string(),
    }
}

/// The terms of a label selector.
pub(super) fn of_labels(selector: &str) -> Result<Vec<Condition>, ArgsError> {
    let labels = label_selector(selector)?;
    let requirements = labels.requirements().cloned();
    Ok(requirements.map(Condition::Label).collect())
}

/// Adds terms to a query, and checks it.
pub(super) fn checked(query: String, terms: &[Condition]) -> Result<String, SearchQueryError> {
    let added = terms.iter().map(Condition::to_string);
    let whole: Vec<String> = std::iter::once(query).chain(added).collect();
    let whole = whole.join(" ").trim().to_owned();
    match parse(&whole) {
        Ok(_) => Ok(whole),
        Err(error) => Err(SearchQueryError::new(&whole, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        join(&arguments)
    }

    #[test]
    fn an_argument_with_blanks_is_one_word_or_a_part_of_the_query() {
        for (arguments, query) in [
            (&["kind:Pod", "web"][..], "kind:Pod web"),
            (&["pull back-off", "web"], "\"pull back-off\" web"),
            (&["kind:Pod age:<1d"], "kind:Pod age:<1d"),
            (&["-web shop"], "-web shop"),
            (&["NOT", "web shop"], "NOT \"web shop\""),
            (&["name:\"a b\""], "name:\"a b\""),
            (&["heath:x web"], "heath:x web"),
            (&["nginx:1 is slow"], "\"nginx:1 is slow\""),
            (&["", " "], " "),
            (&[], ""),
        ] {
            assert_eq!(joined(arguments), query, "{arguments:?}");
        }
    }

    #[test]
    fn an_error_marks_its_place() {
        let refused = |query: &str| checked(query.to_owned(), &[]).unwrap_err().to_string();
        insta::assert_snapshot!(refused("kind:Pod health:Degraded,sick web"), @r#"
    invalid query: column 26: unknown health "sick": write Healthy, Progressing, Degraded, Suspended, Missing or Unknown
      kind:Pod health:Degraded,sick web
                               ^^^^
    "#);
        insta::assert_snapshot!(refused("\"a\u{1b}\n\" name:"), @r#"
    invalid query: column 7: name: has no value: write it behind the colon, as in name:checkout
      "a^[\n" name:
              ^^^^^
    "#);
        insta::assert_snapshot!(refused("kind:Pod,"), @r#"
    invalid query: column 10: a value is missing: write it without a blank before it, as in kind:Pod,deploy
      kind:Pod,
               ^
    "#);
    }

    #[test]
    fn flags_are_further_terms() {
        let labels = of_labels("app in (web,api),!canary,tier!=db,n>3").unwrap();
        let query = checked("web".to_owned(), &labels).unwrap();
        assert_eq!(
            query,
            "web label:app=api,web label:!canary label:n>3 label:tier!=db"
        );
        assert!(of_labels("a in (").is_err());
    }
}
