//! Splits a text into terms, and the values of a qualifier into their alternatives; quotes are
//! resolved here.

use std::ops::Range;

use super::{error::SyntaxError, qualifiers::Qualifier};

/// Alternatives of one term.
pub const MAX_VALUES: usize = 64;
/// Words that are operators in other languages; here only the last one is, and the others are
/// refused unless quoted.
pub(super) const OPERATORS: [&str; 3] = ["AND", "OR", "NOT"];

/// One of the alternatives of a qualifier.
#[derive(Clone, Debug)]
pub(super) struct Value {
    /// Without its quotes.
    pub(super) text: String,
    pub(super) span: Range<usize>,
    /// Whether it ends with a quoted part, which may be empty.
    pub(super) is_quoted: bool,
}

/// The spans between white space outside quotes. An open quote extends to the end of the text.
pub(super) fn pieces(text: &str) -> Vec<Range<usize>> {
    split(text, 0..text.len(), char::is_whitespace)
        .into_iter()
        .filter(|piece| !piece.is_empty())
        .collect()
}

/// The spans between commas outside quotes.
pub(super) fn between_commas(text: &str, within: Range<usize>) -> Vec<Range<usize>> {
    split(text, within, |letter| letter == ',')
}

fn split(text: &str, within: Range<usize>, separates: impl Fn(char) -> bool) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut start = within.start;
    let (mut in_quotes, mut is_escaped) = (false, false);
    for (offset, letter) in text[within.clone()].char_indices() {
        let position = within.start + offset;
        if is_escaped {
            is_escaped = false;
        } else if in_quotes && letter == '\\' {
            is_escaped = true;
        } else if letter == '"' {
            in_quotes = !in_quotes;
        } else if !in_quotes && separates(letter) {
            spans.push(start..position);
            start = position + letter.len_utf8();
        }
    }
    spans.push(start..within.end);
    spans
}

/// The position of the `:` behind the name of a term, which has no quote before it.
pub(super) fn colon(text: &str, term: Range<usize>) -> Option<usize> {
    let body = &text[term.clone()];
    let found = body.find([':', '"'])?;
    body[found..].starts_with(':').then_some(term.start + found)
}

/// Whether a text without quotes reads as the word that it is.
pub(super) fn is_bare_word(word: &str) -> bool {
    let is_qualified = || {
        colon(word, 0..word.len()).is_some_and(|colon| {
            let name = &word[..colon];
            Qualifier::named(name).is_some() || Qualifier::meant_by(name).is_some()
        })
    };
    is_bare(word, |_| false)
        && !word.starts_with('-')
        && !OPERATORS.contains(&word)
        && !is_qualified()
}

/// Whether a text without quotes reads as the value that it is.
pub(super) fn is_bare_value(value: &str) -> bool {
    is_bare(value, |letter| letter == ',')
}

fn is_bare(text: &str, separates: impl Fn(char) -> bool) -> bool {
    let needs_quotes = |letter: char| letter.is_whitespace() || letter == '"' || separates(letter);
    !text.is_empty() && !text.contains(needs_quotes)
}

/// The text in quotes.
pub(super) fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Parses the quoted text that starts at `start`; returns it without quotes, and where it ends.
pub(super) fn quoted(text: &str, start: usize) -> Result<(String, usize), SyntaxError> {
    let mut content = String::new();
    let mut letters = text[start..].char_indices().skip(1);
    while let Some((offset, letter)) = letters.next() {
        match letter {
            '"' => return Ok((content, start + offset + 1)),
            '\\' => match letters.next() {
                Some((_, escaped @ ('"' | '\\'))) => content.push(escaped),
                Some((after, _)) => {
                    let message = "unknown escape: write \\\\ for a backslash in quotes, \\\" for a double quote";
                    let span = start + offset..start + after + 1;
                    return Err(SyntaxError::new(text, span, message));
                }
                None => break,
            },
            plain => content.push(plain),
        }
    }
    let message = "the double quote is not closed: write another \" behind the text, or \\\" inside quotes for the character";
    Err(SyntaxError::new(text, start..text.len(), message))
}

/// Parses the values of a qualifier; there is at least one.
pub(super) fn values(
    text: &str,
    within: Range<usize>,
    qualifier: &Qualifier,
) -> Result<Vec<Value>, SyntaxError> {
    let spans = between_commas(text, within);
    if let Some(excess) = spans.get(MAX_VALUES) {
        let message = format!("a term has at most {MAX_VALUES} values: write fewer");
        return Err(SyntaxError::new(text, excess.clone(), message));
    }
    let missing = |span: &Range<usize>| {
        let message = format!(
            "a value is missing: write it without a blank before it, as in {}",
            qualifier.example
        );
        SyntaxError::new(text, span.clone(), message)
    };
    if let Some(empty) = spans.iter().find(|span| span.is_empty()) {
        return Err(missing(empty));
    }
    spans.into_iter().map(|span| value(text, span)).collect()
}

/// Parses one value. A quote begins it, or follows the `=` of a label.
fn value(text: &str, span: Range<usize>) -> Result<Value, SyntaxError> {
    let raw = &text[span.clone()];
    let Some(quote) = raw.find('"') else {
        return Ok(Value {
            text: raw.to_owned(),
            span,
            is_quoted: false,
        });
    };
    let bare = &raw[..quote];
    let position = span.start + quote;
    if !bare.is_empty() && !bare.ends_with('=') {
        return Err(stray_quote(text, position..position + 1));
    }
    let (content, end) = quoted(text, position)?;
    if end != span.end {
        return Err(stray_quote(text, end - 1..span.end));
    }
    Ok(Value {
        text: format!("{bare}{content}"),
        span,
        is_quoted: true,
    })
}

/// The error of a quote inside a word or a value.
pub(super) fn stray_quote(text: &str, span: Range<usize>) -> SyntaxError {
    let message = "a double quote inside a word or value: put all of it in quotes, and write \\\" for the character";
    SyntaxError::new(text, span, message)
}
