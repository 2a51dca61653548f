//! Lua 5.1 as tokens: as much of its lexical grammar as is needed to find statements, and no more.

use std::ops::Range;

/// A piece of the text and what takes its place. No piece of one begins within that of another.
pub type Replacement = (Range<usize>, String);

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LuaLexeme<'t> {
    /// A name or a keyword.
    Word(&'t str),
    /// A string in quotes.
    Quoted,
    /// `::`
    Label,
    /// Any other sign, number or long string.
    Other(char),
}

/// A token and where it is.
#[derive(Clone, Debug)]
pub struct LuaToken<'t> {
    /// What it is.
    pub lexeme: LuaLexeme<'t>,
    /// Its bytes.
    pub range: Range<usize>,
    /// Its line, from 1.
    pub line: usize,
}

/// The tokens of a text, without comments. A text that is no Lua gives some tokens or other: the
/// compiler refuses it anyway.
pub fn of(text: &str) -> Vec<LuaToken<'_>> {
    let mut tokens = Vec::new();
    let mut position = 0;
    let mut line = 1;
    while let Some(first) = text[position..].chars().next() {
        let end = end_of_token(text, position, first);
        let part = &text[position..end];
        if let Some(lexeme) = lexeme_of(part, first) {
            tokens.push(LuaToken {
                lexeme,
                range: position..end,
                line,
            });
        }
        line += part.bytes().filter(|byte| *byte == b'\n').count();
        position = end;
    }
    tokens
}

fn lexeme_of(part: &str, first: char) -> Option<LuaLexeme<'_>> {
    match first {
        _ if first.is_whitespace() || part.starts_with("--") => None,
        '"' | '\'' => Some(LuaLexeme::Quoted),
        _ if part == "::" => Some(LuaLexeme::Label),
        _ if is_word_start(first) => Some(LuaLexeme::Word(part)),
        _ => Some(LuaLexeme::Other(first)),
    }
}

fn end_of_token(text: &str, start: usize, first: char) -> usize {
    let rest = &text[start..];
    let length = match first {
        _ if rest.starts_with("--") => comment_length(rest),
        '"' | '\'' => quoted_length(rest, first),
        '[' => long_bracket_length(rest).unwrap_or(1),
        _ if rest.starts_with("::") => 2,
        _ if is_word_start(first) => word_length(rest),
        _ if first.is_ascii_digit() => number_length(rest),
        _ => first.len_utf8(),
    };
    start + length
}

fn is_word_start(first: char) -> bool {
    first.is_ascii_alphabetic() || first == '_'
}

fn word_length(rest: &str) -> usize {
    rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(rest.len())
}

/// Exponents may have a sign, but neither `+` nor `-` starts a statement: to take them apart does
/// no harm.
fn number_length(rest: &str) -> usize {
    rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .unwrap_or(rest.len())
}

fn comment_length(rest: &str) -> usize {
    let body = &rest[2..];
    match long_bracket_length(body) {
        Some(length) => 2 + length,
        None => rest.find('\n').unwrap_or(rest.len()),
    }
}

/// The length of `[[…]]`, `[=[…]=]` and so on at the beginning of a text; `None` if there is no
/// opening bracket.
fn long_bracket_length(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('[')?;
    let level = inner.bytes().take_while(|byte| *byte == b'=').count();
    let body = inner[level..].strip_prefix('[')?;
    let closing = format!("]{}]", "=".repeat(level));
    let opening_length = level + 2;
    let body_length = body
        .find(&closing)
        .map_or(body.len(), |at| at + closing.len());
    Some(opening_length + body_length)
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (position, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => return position,
            _ if character == quote => return position + 1,
            _ => {}
        }
    }
    rest.len()
}
