//! Parses searches, by the grammar of the crate's documentation.

use std::{ops::Range, str::FromStr};

use super::{
    error::SyntaxError,
    qualifiers::{QUALIFIERS, Qualifier},
    scan::{self, OPERATORS},
    search::{Condition, Search, Term},
    values,
};

/// Bytes of a text, as written and in canonical form.
pub const MAX_BYTES: usize = 1024;
/// Terms of a text.
pub const MAX_TERMS: usize = 32;
/// Bytes of a word.
pub const MAX_WORD_BYTES: usize = 256;

/// Parses a search. The empty text is one, which finds every object.
pub fn parse(text: &str) -> Result<Search, SyntaxError> {
    check_length(text, text)?;
    let mut pieces = scan::pieces(text).into_iter();
    let mut terms = Vec::new();
    while let Some(piece) = pieces.next() {
        if terms.len() == MAX_TERMS {
            let message = format!("a search has at most {MAX_TERMS} terms: write fewer");
            return Err(SyntaxError::new(text, piece.start..text.len(), message));
        }
        terms.push(term(text, piece, &mut pieces)?);
    }
    let search = Search { terms };
    // Few spellings are shorter than the canonical one; what is accepted can also be printed and
    // parsed.
    check_length(text, &search.to_string())?;
    Ok(search)
}

fn check_length(text: &str, spelling: &str) -> Result<(), SyntaxError> {
    if spelling.len() <= MAX_BYTES {
        return Ok(());
    }
    let message = format!("a search has at most {MAX_BYTES} bytes: write fewer terms or values");
    Err(SyntaxError::new(
        text,
        MAX_BYTES.min(text.len())..text.len(),
        message,
    ))
}

impl FromStr for Search {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        parse(text)
    }
}

/// Parses the term at `piece`; after `NOT` also the next piece.
fn term(
    text: &str,
    piece: Range<usize>,
    following: &mut impl Iterator<Item = Range<usize>>,
) -> Result<Term, SyntaxError> {
    let is_negation =
        |body: &Range<usize>| text[body.clone()].starts_with('-') || &text[body.clone()] == "NOT";
    if !is_negation(&piece) {
        return Ok(Term {
            condition: condition(text, piece.clone())?,
            span: piece,
            negated: false,
        });
    }
    let body = if text[piece.clone()].starts_with('-') {
        Some(piece.start + 1..piece.end).filter(|body| !body.is_empty())
    } else {
        following.next()
    };
    let Some(body) = body else {
        let message = "nothing follows the negation: write it before a term, as in -kind:Pod or NOT kind:Pod, or write \"-\" or \"NOT\" for the word";
        return Err(SyntaxError::new(text, piece, message));
    };
    if is_negation(&body) {
        let message = "a term is negated once: leave this one out, or put a word that begins with it in quotes";
        let sign = if text[body.clone()].starts_with('-') {
            "-"
        } else {
            "NOT"
        };
        let span = body.start..body.start + sign.len();
        return Err(SyntaxError::new(text, span, message));
    }
    Ok(Term {
        span: piece.start..body.end,
        negated: true,
        condition: condition(text, body)?,
    })
}

/// Parses a term without its negation, which is not empty.
fn condition(text: &str, body: Range<usize>) -> Result<Condition, SyntaxError> {
    let Some(colon) = scan::colon(text, body.clone()) else {
        return word(text, body);
    };
    let name = &text[body.start..colon];
    let Some(qualifier) = Qualifier::named(name) else {
        return match Qualifier::meant_by(name) {
            Some(meant) => Err(mistyped(text, body.start..colon + 1, meant, &text[body])),
            None => word(text, body),
        };
    };
    let within = colon + 1..body.end;
    if within.is_empty() {
        let example = qualifier.example;
        let name = name.to_ascii_lowercase();
        let message = format!("{name}: has no value: write it behind the colon, as in {example}");
        return Err(SyntaxError::new(text, body, message));
    }
    let values = scan::values(text, within, qualifier)?;
    values::condition(text, qualifier, &values)
}

fn mistyped(text: &str, name: Range<usize>, meant: &str, term: &str) -> SyntaxError {
    let names: Vec<String> = QUALIFIERS
        .iter()
        .flat_map(Qualifier::names)
        .map(|known| format!("{known}:"))
        .collect();
    let message = format!(
        "unknown qualifier {:?}: write {meant}: instead, or \"{}\" for the word; the qualifiers are {}",
        &text[name.start..name.end - 1],
        term.replace('"', ""),
        names.join(" ")
    );
    SyntaxError::new(text, name, message)
}

fn word(text: &str, body: Range<usize>) -> Result<Condition, SyntaxError> {
    let raw = &text[body.clone()];
    let refused = |message: &str| Err(SyntaxError::new(text, body.clone(), message));
    match raw {
        "AND" => {
            return refused(
                "all terms have to hold without AND: leave it out, or write \"AND\" for the word",
            );
        }
        "OR" => {
            return refused(
                "there is no OR between terms: separate the values of a qualifier by commas, as in health:Degraded,Missing, or write \"OR\" for the word",
            );
        }
        _ => debug_assert!(!OPERATORS.contains(&raw), "NOT is a negation"),
    }
    let content = match raw.find('"') {
        None => raw.to_owned(),
        Some(0) => {
            let (content, end) = scan::quoted(text, body.start)?;
            if end != body.end {
                return Err(scan::stray_quote(text, end - 1..body.end));
            }
            content
        }
        Some(quote) => {
            let position = body.start + quote;
            return Err(scan::stray_quote(text, position..position + 1));
        }
    };
    if content.is_empty() {
        return refused("an empty word matches every object: leave it out");
    }
    if content.len() > MAX_WORD_BYTES {
        let message = format!("a word has at most {MAX_WORD_BYTES} bytes: write a part of it");
        return refused(&message);
    }
    Ok(Condition::Word(content))
}
