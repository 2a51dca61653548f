//! Parses literals, and slices in brackets.

use super::ast::{Literal, Slice};

/// Why a filter cannot have several conditions.
pub(super) const NO_LOGIC: &str =
    "Kubernetes' JSONPath has no && and no ||; write one path for each alternative";

/// Why a path cannot call a function.
pub(super) fn no_functions(name: &str) -> String {
    format!("{name}() is a function, and Kubernetes' JSONPath has none; compare a field instead")
}

/// Parses a quoted text. Returns its length, quotes included, and the text.
pub(super) fn quoted(text: &str) -> Result<(usize, Literal), String> {
    let mut letters = text.char_indices();
    let quote = letters.next().map_or('"', |(_, quote)| quote);
    let mut unescaped = String::new();
    while let Some((position, letter)) = letters.next() {
        match letter {
            _ if letter == quote => return Ok((position + 1, Literal::Text(unescaped))),
            '\\' => match letters.next().map(|(_, escaped)| escaped) {
                Some('n') => unescaped.push('\n'),
                Some('t') => unescaped.push('\t'),
                Some('r') => unescaped.push('\r'),
                Some(escaped @ ('\\' | '"' | '\'')) => unescaped.push(escaped),
                Some(other) => {
                    return Err(format!(
                        "unknown escape \\{other} in quotes; \\n, \\t, \\r, \\\\ and escaped quotes are known"
                    ));
                }
                None => break,
            },
            plain => unescaped.push(plain),
        }
    }
    Err(format!("a quote {quote} is not closed"))
}

/// Parses a number, `true` or `false`. Returns its length and value.
pub(super) fn word(text: &str) -> Result<(usize, Literal), String> {
    let is_part =
        |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '+' | '.');
    let end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    let word = &text[..end];
    let literal = match word {
        "true" => Literal::Flag(true),
        "false" => Literal::Flag(false),
        "" if text.starts_with(['&', '|']) => return Err(NO_LOGIC.to_owned()),
        "" => {
            return Err(format!(
                "unexpected {:?}",
                text.chars().next().unwrap_or_default()
            ));
        }
        "range" | "end" => {
            return Err(format!(
                "{word} stands alone in its braces, or before a path"
            ));
        }
        "null" => {
            return Err(
                "a filter cannot compare with null; write [?(@.key)] for a key that is there"
                    .to_owned(),
            );
        }
        _ if text[end..].starts_with('(') => return Err(no_functions(word)),
        _ => match (word.parse::<i64>(), word.parse::<f64>()) {
            (Ok(number), _) => Literal::Integer(number),
            (_, Ok(number))
                if word.starts_with(|letter: char| {
                    letter.is_ascii_digit() || matches!(letter, '-' | '+')
                }) =>
            {
                Literal::Float(number)
            }
            _ => {
                return Err(format!(
                    "{word:?} is no path; paths begin with a dot, such as .{word}"
                ));
            }
        },
    };
    Ok((end, literal))
}

/// Parses `2`, `0:3`, `-1:` or `::2`.
pub(super) fn slice(text: &str) -> Result<Slice, String> {
    if let Some(filter) = text.strip_prefix('?') {
        return Err(format!(
            "a filter stands in parentheses; write [?({})]",
            filter.trim()
        ));
    }
    let invalid = || format!("[{text}] is neither an index, a slice, a filter nor a key in quotes");
    let mut numbers = [None; 3];
    let parts: Vec<&str> = text.split(':').collect();
    if text.is_empty() || parts.len() > numbers.len() {
        return Err(invalid());
    }
    for (number, part) in numbers.iter_mut().zip(&parts) {
        *number = if part.is_empty() {
            None
        } else {
            Some(part.parse::<i64>().map_err(|_| invalid())?)
        };
    }
    let [start, end, step] = numbers;
    let step = step.map(|step| usize::try_from(step).ok().filter(|step| *step > 0));
    if step == Some(None) {
        return Err(format!("[{text}]: the step must be above 0"));
    }
    Ok(Slice {
        start,
        end,
        step: step.flatten(),
        is_index: parts.len() == 1,
    })
}
