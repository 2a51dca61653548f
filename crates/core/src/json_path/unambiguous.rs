//! Refuses paths that RFC 9535 reads in another way than kubectl, which reads most of them as
//! something that selects nothing, and two mistakes that kubectl reads as something that selects
//! everything.

use super::{
    ast::{Expression, PathStep},
    literal::{NO_LOGIC, no_functions},
};

/// Whether a letter ends a key, unless a backslash stands before it.
pub(super) fn ends_key(letter: char) -> bool {
    matches!(
        letter,
        ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
    )
}

/// Checks a letter of a key that is in no quotes.
pub(super) fn check_key_letter(name: &str, letter: char) -> Result<(), String> {
    match letter {
        '_' | '-' | '/' => Ok(()),
        _ if letter.is_alphanumeric() || !letter.is_ascii() => Ok(()),
        '&' | '|' => Err(NO_LOGIC.to_owned()),
        '(' => Err(no_functions(name)),
        _ => Err(format!(
            "a key with {letter:?} needs quotes, such as ['{name}{letter}']"
        )),
    }
}

/// Checks a letter behind a backslash.
pub(super) fn check_escaped(escaped: Option<char>) -> Result<(), String> {
    match escaped {
        Some(letter) if letter != '\\' && (letter.is_ascii_punctuation() || letter == ' ') => {
            Ok(())
        }
        escaped => Err(format!(
            "a key cannot have the escape \\{}; a backslash stands before a dot, a quote or another mark",
            escaped.map_or_else(String::new, String::from)
        )),
    }
}

/// Checks `@` and `$`.
pub(super) fn check_root(letter: char, is_first: bool, in_filter: bool) -> Result<(), String> {
    match letter {
        '$' if in_filter => Err(
            "$ in a filter is the same as @, the item, and not the whole object; compare with a literal"
                .to_owned(),
        ),
        _ if is_first => Ok(()),
        _ => Err(format!(
            "{letter} begins a path; write \\{letter} if it is a letter of a key"
        )),
    }
}

/// Checks one side of a comparison: a path in it must lead to one value. Implementations of RFC
/// 9535 differ about indices from the end.
pub(super) fn check_operand(text: &str, operand: &Expression) -> Result<(), String> {
    let leads_to_one = |step: &PathStep| match step {
        PathStep::Field(_) => true,
        PathStep::Slice(slice) => slice.is_index && slice.start >= Some(0),
        _ => false,
    };
    match operand {
        Expression::Path(steps) if !steps.iter().all(leads_to_one) => Err(format!(
            "a filter cannot compare {}; it compares paths of fields and of indices from 0 up",
            text.trim()
        )),
        _ => Ok(()),
    }
}

/// Checks what a path ends with. kubectl reads `..` at the end as every collection below.
pub(super) fn check_end(steps: &[PathStep]) -> Result<(), String> {
    match steps.last() {
        Some(PathStep::Recursive) => Err(
            ".. has no key behind it; write ..key for a key at every depth, or leave the dots out"
                .to_owned(),
        ),
        _ => Ok(()),
    }
}

/// Checks a filter without a comparison. kubectl finds a literal, and nothing at all, in every
/// item.
pub(super) fn check_existence(text: &str, operand: &Expression) -> Result<(), String> {
    if text.trim().is_empty() || matches!(operand, Expression::Literal(_)) {
        return Err(format!(
            "the filter [?({text})] has no field of the item; write [?(@.key)], [?(@.key=='value')], or [*] for every item"
        ));
    }
    Ok(())
}

/// The key in a pair of quotes. kubectl reads a mark without a backslash as the end of the key, and
/// a star as every key.
pub(super) fn quoted_key(inner: &str, quote: char) -> Result<String, String> {
    let mut key = String::new();
    let mut written = String::new();
    let mut needs_escape = None;
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        let letter = if letter == '\\' {
            let escaped = letters.next();
            check_escaped(escaped)?;
            written.push('\\');
            escaped.unwrap_or_default()
        } else {
            if ends_key(letter) || letter == quote {
                needs_escape = needs_escape.or(Some(letter));
                written.push('\\');
            }
            letter
        };
        written.push(letter);
        key.push(letter);
    }
    if let Some(mark) = needs_escape {
        // The CRD accepts no brackets in brackets, not even behind a backslash.
        let one_key = if key.contains(['[', ']']) {
            format!(".{}, without quotes and brackets,", escaped_key(&key))
        } else {
            format!("[{quote}{written}{quote}]")
        };
        return Err(format!(
            "a {mark:?} in quotes ends the key, as in kubectl; write {one_key} for one key"
        ));
    }
    match key.as_str() {
        "" => Err(format!("there is no key in [{quote}{quote}]")),
        "*" => Err(format!(
            "[{quote}*{quote}] is every key, as in kubectl; write [*] for that"
        )),
        _ => Ok(key),
    }
}

/// A key as it stands behind a dot, in no quotes.
fn escaped_key(key: &str) -> String {
    let mut escaped = String::new();
    for letter in key.chars() {
        let is_plain = letter.is_alphanumeric() || matches!(letter, '_' | '-' | '/');
        if letter.is_ascii() && !is_plain {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}
