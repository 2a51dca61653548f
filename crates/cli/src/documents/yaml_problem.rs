//! What is wrong with YAML, in words for the author of a file.
//!
//! The parser speaks of its grammar: block mappings, flow sequences, scalars. The mistakes that
//! people make are named in other words.

use serde_saphyr::{
    Error, ExternalMessageSource, MessageFormatter as _, UserMessageFormatter,
    budget::BudgetBreach, granit_parser::ErrorKind,
};

/// What is wrong, after the document, the line and the column, each counted from 1.
pub fn describe(text: &str, error: &Error) -> String {
    let words = words(error);
    let Some(location) = error.location() else {
        return words;
    };
    let (line, column) = (location.line(), location.column());
    let document = document_at(text, usize::try_from(line).unwrap_or(usize::MAX));
    format!("document {document}, line {line}, column {column}: {words}")
}

fn words(error: &Error) -> String {
    match error {
        Error::UnknownAnchor { .. } => {
            "an alias (*NAME) has no anchor (&NAME) before it".to_owned()
        }
        Error::Budget {
            breach: BudgetBreach::Depth { depth },
            ..
        } => format!("it has {depth} levels or more, which is too deep"),
        Error::Budget { .. } => "it has too many values".to_owned(),
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            "its aliases stand for too many values".to_owned()
        }
        Error::NonFiniteFloat { value, .. } => format!("{value:?} is not a number of JSON"),
        Error::ExternalMessage { source, msg, .. } => match &**source {
            ExternalMessageSource::Parser(mistake) => of_kind(mistake.kind()),
            _ => msg.clone(),
        },
        // Only keys must be texts.
        Error::Unexpected {
            expected: "string scalar",
            ..
        } => "a list or a map cannot be a key: put a template ({{ … }}) in quotes".to_owned(),
        other => UserMessageFormatter.format_message(other).into_owned(),
    }
}

/// A mistake of syntax. Rare ones keep the words of the parser.
fn of_kind(kind: &ErrorKind) -> String {
    let words = match kind {
        ErrorKind::UnclosedFlowCollection { open } => return format!("'{open}' is never closed"),
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            return format!("'{open}' is closed by '{close}'");
        }
        ErrorKind::UnexpectedCharacter { character } => {
            return format!("a text cannot begin with {character:?}: put it in quotes");
        }
        ErrorKind::MisplacedFlowCollectionEnd => "a bracket is closed that was never opened",
        ErrorKind::UnclosedQuotedScalar | ErrorKind::DocumentIndicatorInQuotedScalar => {
            "a quote is never closed"
        }
        ErrorKind::InvalidTrailingSingleQuotedScalar
        | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            "something follows a text in quotes: put all of it in quotes"
        }
        ErrorKind::UnknownQuotedScalarEscape | ErrorKind::InvalidQuotedScalarHexEscape => {
            r"a text in double quotes has an escape that does not exist: write a backslash as \\"
        }
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabInIndentation
        | ErrorKind::TabInPlainScalar => "there is a tab where only spaces can be",
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => {
            "there is a colon where no value can be: put the text in quotes, or begin a line for the key"
        }
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => {
            "expected a colon after a key"
        }
        ErrorKind::ExpectedBlockMappingKey | ErrorKind::UnexpectedEofBlockMapping => {
            "expected a key with the indentation of the keys before it"
        }
        ErrorKind::ExpectedBlockSequenceEntry | ErrorKind::UnexpectedEofBlockSequence => {
            "expected an item, which begins with \"-\", with the indentation of the items before it"
        }
        ErrorKind::BlockSequenceEntryNotAllowed | ErrorKind::BlockEntryInFlowCollection => {
            "there is a \"-\" where no item can be: begin a line for the item, or put the text in quotes"
        }
        ErrorKind::ExpectedFlowMappingSeparator => "expected ',' or '}'",
        ErrorKind::ExpectedFlowSequenceSeparator => "expected ',' or ']'",
        ErrorKind::InvalidIndentation
        | ErrorKind::InvalidBlockScalarIndent
        | ErrorKind::InvalidQuotedScalarIndent
        | ErrorKind::InvalidFlowScalarIndent => {
            "a line has less indentation than what it belongs to"
        }
        ErrorKind::InvalidBlockScalarHeader => {
            "only a comment can follow \"|\" or \">\" in its line"
        }
        ErrorKind::ExpectedNodeContent => "expected a value",
        ErrorKind::MissingAnchorOrAliasName => {
            "a text cannot begin with \"&\" or \"*\": put it in quotes"
        }
        ErrorKind::UndeclaredTagHandle
        | ErrorKind::InvalidTagTerminator
        | ErrorKind::MissingTagUri
        | ErrorKind::InvalidGlobalTagCharacter => {
            "a text cannot begin with \"!\": put it in quotes"
        }
        ErrorKind::ExpectedDocumentStart | ErrorKind::InvalidDocumentEnd => {
            "expected a new document, which begins with \"---\""
        }
        ErrorKind::CommentInterceptedScalar => "a comment interrupts a text of several lines",
        other => return other.to_string(),
    };
    words.to_owned()
}

/// The number of the document that has a line; empty ones count.
fn document_at(text: &str, line: usize) -> usize {
    let mut number = 0;
    let mut is_inside = false;
    for text in text.lines().take(line) {
        let is_marker = |marker: &str| {
            text.strip_prefix(marker)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
        };
        if is_marker("---") {
            number += 1;
            is_inside = true;
        } else if is_marker("...") {
            is_inside = false;
        } else if !is_inside && !text.trim().is_empty() && !text.starts_with(['#', '%']) {
            number += 1;
            is_inside = true;
        }
    }
    number.max(1)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn problem(text: &str) -> String {
        let parsed = serde_saphyr::from_multiple::<serde_json::Value>(text);
        describe(text, parsed.unwrap_err().without_snippet())
    }

    #[test]
    fn mistakes_are_said_in_plain_words() {
        let mut said = String::new();
        for text in [
            "a: [1, 2",
            "a: {b: 1",
            "a: [1}",
            "a: ]",
            "a: \"b",
            "a: 'b\n---\nc: 1",
            "a: \"b\" c",
            "a: 'b' c",
            "a: \"\\d+\"",
            "a:\n\tb: 1",
            "a: b: c",
            "a: 1\n b: 2",
            "a: 1\nb\nc: 2",
            "a:\n  b: 1\n c: 2",
            "- a\nb: 1",
            "a: - b",
            "a: {b: 1 c: 2}",
            "a: @b",
            "a: `b`",
            "a: %b",
            "a: *b",
            "a: & b",
            "a: !b!c d",
            "a: |x\n  b",
            "a: |\n    b\n  c: 1",
            "a: |\n  b\nc",
            "a: {{ .Values.b }}",
            "a: .inf",
            "a: b\n... c",
            "a: b\n  # c\n  d",
        ] {
            writeln!(said, "{text:?}\n  {}", problem(text)).unwrap();
        }
        insta::assert_snapshot!(said);
    }

    #[test]
    fn the_document_is_counted_as_its_author_counts() {
        let wrong = "a: [";
        for (before, number) in [
            ("", 1),
            ("# comment\n\n---\n", 1),
            ("%YAML 1.2\n---\n", 1),
            ("b: 1\n---\n", 2),
            ("---\nb: 1\n--- # second\nc: |\n  text\n---\r\n", 3),
            ("b: 1\n...\n", 2),
            ("b: 1\n...\n---\n", 2),
            ("---\n---\n", 2),
        ] {
            let found = problem(&format!("{before}{wrong}"));
            let expected = format!("document {number}, ");
            assert!(found.starts_with(&expected), "{before:?}: {found}");
        }
    }
}
