//! Parses field selectors.

use std::{collections::BTreeSet, str::FromStr};

use super::{
    error::SelectorError,
    field::{
        BLANKS, Comparison, FieldRequirement, FieldSelector, FieldTest, needs_escape,
        needs_escape_in_set,
    },
};
use crate::model::{FieldPath, Quantity};

const VALUE_ESCAPES: &str = r"'\,', '\=' and '\\'";
const SET_ESCAPES: &str = r"'\,', '\=', '\(', '\)', '\\' and '\ '";

impl FromStr for FieldSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let mut parser = FieldSelectorParser { text, next: 0 };
        let mut requirements = Vec::new();
        while parser.next < text.len() {
            requirements.extend(parser.term()?);
        }
        Ok(requirements.into_iter().collect())
    }
}

/// Parses term by term; each method leaves `next` behind what it parsed.
struct FieldSelectorParser<'a> {
    text: &'a str,
    /// In bytes.
    next: usize,
}

impl<'a> FieldSelectorParser<'a> {
    /// Parses a term and the comma after it. As in an apiserver, an empty term and one without path
    /// and value are dropped.
    fn term(&mut self) -> Result<Option<FieldRequirement>, SelectorError> {
        if let Some(head) = SetHead::at_start_of(self.rest()) {
            return self.set(&head).map(Some);
        }
        let start = self.next;
        let term = until_comma(self.rest());
        self.next = (start + term.len() + 1).min(self.text.len());
        if term.is_empty() {
            return Ok(None);
        }
        if let Some(compared) = self.comparison(term, start)? {
            return Ok(Some(compared));
        }
        let Some((path, operator, escaped)) = split_operator(term) else {
            return self.existence(term, start).map(Some);
        };
        let value = self.unescape(escaped, start + path.len() + operator.len())?;
        if path.is_empty() && value.is_empty() {
            return Ok(None);
        }
        Ok(Some(requirement(path, operator == "!=", [value].into())))
    }

    /// An apiserver has no field label with `<` or `>`, so that no selector that it accepts changes
    /// its meaning.
    fn comparison(
        &self,
        term: &str,
        start: usize,
    ) -> Result<Option<FieldRequirement>, SelectorError> {
        let Some(at) = term
            .find(['<', '>', '=', '!', '\\'])
            .filter(|at| term[*at..].starts_with(['<', '>']))
        else {
            return Ok(None);
        };
        let operators = [
            (">=", Comparison::From),
            (">", Comparison::Above),
            ("<=", Comparison::UpTo),
            ("<", Comparison::Below),
        ];
        let (path, rest) = (term[..at].trim_matches(BLANKS), &term[at..]);
        let found = operators
            .into_iter()
            .find(|(symbol, _)| rest.starts_with(symbol));
        let Some((symbol, comparison)) = found else {
            return Ok(None);
        };
        let text = rest[symbol.len()..].trim_matches(BLANKS);
        if path.is_empty() || !path.chars().all(is_path_character) {
            return Err(self.unexpected(
                start,
                format!("'{term}'"),
                "a field before the comparison",
            ));
        }
        let number = Quantity::parse(text).ok_or_else(|| {
            let found = if text.is_empty() {
                "nothing".to_owned()
            } else {
                format!("'{text}'")
            };
            self.unexpected(
                start + at + symbol.len(),
                found,
                "a number or a quantity such as 3, 0.5, 500m or 2Gi",
            )
        })?;
        Ok(Some(FieldRequirement {
            path: FieldPath::new(path),
            test: FieldTest::Compares(comparison, number),
        }))
    }

    fn existence(&self, term: &str, start: usize) -> Result<FieldRequirement, SelectorError> {
        let trimmed = term.trim_matches(BLANKS);
        let path = trimmed.strip_prefix('!').unwrap_or(trimmed);
        if path.is_empty() || !path.chars().all(is_path_character) {
            let found = format!("'{term}'");
            return Err(self.unexpected(
                start,
                found,
                "path=value, path!=value, path in (…), path notin (…), path or !path",
            ));
        }
        let excludes = !trimmed.starts_with('!');
        Ok(requirement(path, excludes, [String::new()].into()))
    }

    fn set(&mut self, head: &SetHead<'_>) -> Result<FieldRequirement, SelectorError> {
        self.next += head.length;
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.set_value()?);
            match self.advance() {
                Some(',') => {}
                Some(')') => break,
                found => return Err(self.unexpected_next(found, "',' or ')'")),
            }
        }
        self.next += self.rest().len() - self.rest().trim_start_matches(BLANKS).len();
        match self.advance() {
            None | Some(',') => {}
            found => return Err(self.unexpected_next(found, "',' or end of text")),
        }
        Ok(requirement(head.path, head.excludes, values))
    }

    /// Parses a value up to the `,` or `)` that ends it, without the blanks around it.
    fn set_value(&mut self) -> Result<String, SelectorError> {
        let mut value = String::new();
        let mut length_without_blanks = 0;
        while let Some(character) = self.rest().chars().next() {
            match character {
                ',' | ')' => break,
                '=' | '(' => {
                    return Err(self.unexpected(
                        self.next,
                        format!("'{character}'"),
                        "a backslash before it, ',' or ')'",
                    ));
                }
                '\\' => value.push(self.escaped(needs_escape_in_set, SET_ESCAPES)?),
                blank if BLANKS.contains(&blank) => {
                    self.advance();
                    if !value.is_empty() {
                        value.push(blank);
                    }
                    continue;
                }
                plain => {
                    self.advance();
                    value.push(plain);
                }
            }
            length_without_blanks = value.len();
        }
        value.truncate(length_without_blanks);
        Ok(value)
    }

    /// Parses the value of a `path=value` term, which starts at `start`.
    fn unescape(&self, escaped: &str, start: usize) -> Result<String, SelectorError> {
        let end = start + escaped.len();
        let mut inner = FieldSelectorParser {
            text: &self.text[..end],
            next: start,
        };
        let mut value = String::with_capacity(escaped.len());
        while let Some(character) = inner.rest().chars().next() {
            match character {
                '\\' => value.push(inner.escaped(needs_escape, VALUE_ESCAPES)?),
                '=' => {
                    return Err(inner.unexpected(
                        inner.next,
                        "'='".to_owned(),
                        "a backslash before it, or ','",
                    ));
                }
                plain => {
                    inner.advance();
                    value.push(plain);
                }
            }
        }
        Ok(value)
    }

    /// Parses a backslash and the character that it escapes.
    fn escaped(
        &mut self,
        known: impl Fn(char) -> bool,
        expected: &'static str,
    ) -> Result<char, SelectorError> {
        let start = self.next;
        self.advance();
        match self.advance() {
            Some(character) if known(character) => Ok(character),
            other => {
                let found = other.map_or_else(
                    || r"'\' at the end".to_owned(),
                    |character| format!(r"'\{character}'"),
                );
                Err(SelectorError::UnknownEscape {
                    position: self.position(start),
                    found,
                    expected,
                })
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.next..]
    }

    fn advance(&mut self) -> Option<char> {
        let character = self.rest().chars().next()?;
        self.next += character.len_utf8();
        Some(character)
    }

    fn position(&self, byte: usize) -> usize {
        self.text[..byte].chars().count() + 1
    }

    /// The error for the last character, or for the end of the text.
    fn unexpected_next(&self, found: Option<char>, expected: &'static str) -> SelectorError {
        let start = self.next - found.map_or(0, char::len_utf8);
        let text = found.map_or_else(
            || "end of text".to_owned(),
            |character| format!("'{character}'"),
        );
        self.unexpected(start, text, expected)
    }

    fn unexpected(&self, byte: usize, found: String, expected: &'static str) -> SelectorError {
        SelectorError::Unexpected {
            position: self.position(byte),
            found,
            expected,
        }
    }
}

fn requirement(path: &str, excludes: bool, values: BTreeSet<String>) -> FieldRequirement {
    let test = if excludes {
        FieldTest::NotIn
    } else {
        FieldTest::In
    };
    FieldRequirement {
        path: FieldPath::new(path),
        test: test(values),
    }
}

/// The start of a set: `path in (` or `path notin (`.
struct SetHead<'a> {
    path: &'a str,
    excludes: bool,
    /// In bytes, with the parenthesis.
    length: usize,
}

impl<'a> SetHead<'a> {
    fn at_start_of(text: &'a str) -> Option<Self> {
        let from_path = text.trim_start_matches(BLANKS);
        let path_length = from_path.find(|character| !is_path_character(character))?;
        let (path, after_path) = from_path.split_at(path_length);
        let from_operator = after_path.trim_start_matches(BLANKS);
        if path.is_empty() || from_operator.len() == after_path.len() {
            return None;
        }
        let (excludes, after_operator) = match from_operator.strip_prefix("notin") {
            Some(after) => (true, after),
            None => (false, from_operator.strip_prefix("in")?),
        };
        let values = after_operator
            .trim_start_matches(BLANKS)
            .strip_prefix('(')?;
        Some(Self {
            path,
            excludes,
            length: text.len() - values.len(),
        })
    }
}

fn is_path_character(character: char) -> bool {
    !BLANKS.contains(&character)
        && !matches!(character, ',' | '=' | '!' | '(' | ')' | '\\' | '<' | '>')
}

/// The text before the first comma without a backslash.
fn until_comma(text: &str) -> &str {
    let mut protected = false;
    for (index, character) in text.char_indices() {
        match character {
            _ if protected => protected = false,
            '\\' => protected = true,
            ',' => return &text[..index],
            _ => {}
        }
    }
    text
}

/// Path, operator and escaped value. The first operator counts.
fn split_operator(term: &str) -> Option<(&str, &str, &str)> {
    let equal = term.find('=')?;
    let (start, operator) = if term[..equal].ends_with('!') {
        (equal - 1, "!=")
    } else if term[equal..].starts_with("==") {
        (equal, "==")
    } else {
        (equal, "=")
    };
    Some((&term[..start], operator, &term[start + operator.len()..]))
}
