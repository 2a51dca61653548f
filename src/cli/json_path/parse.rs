//! From text to nodes and steps.

use serde_json::Value;

use super::{Comparison, Filter, Node, Slice, Step};

/// Ranges in ranges at most; a person writes two or three.
const MAX_DEPTH: usize = 32;

/// Comparisons as they are written, the longer ones first.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// What stands between two braces.
enum Action {
    Path(Vec<Step>),
    Range(Vec<Step>),
    End,
}

/// A whole template.
pub(super) fn template(text: &str) -> Result<Vec<Node>, String> {
    let mut open: Vec<(Vec<Step>, Vec<Node>)> = Vec::new();
    let mut nodes = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        if start > 0 {
            nodes.push(Node::Text(rest[..start].to_owned()));
        }
        let length = end_of_action(&rest[start + 1..]).ok_or("a brace { is not closed")?;
        let action = &rest[start + 1..start + 1 + length];
        rest = &rest[start + length + 2..];
        match parse_action(action)? {
            Action::Path(steps) => nodes.push(Node::Path(steps)),
            Action::Range(steps) if open.len() < MAX_DEPTH => open.push((steps, std::mem::take(&mut nodes))),
            Action::Range(_) => return Err(format!("more than {MAX_DEPTH} ranges in one another")),
            Action::End => {
                let (steps, outer) = open.pop().ok_or("{end} without {range}")?;
                let body = std::mem::replace(&mut nodes, outer);
                nodes.push(Node::Range(steps, body));
            }
        }
    }
    if !open.is_empty() {
        return Err("{range} without {end}".to_owned());
    }
    if !rest.is_empty() {
        nodes.push(Node::Text(rest.to_owned()));
    }
    Ok(nodes)
}

/// A path, with or without braces and the dot that it begins with.
pub(super) fn relaxed_path(text: &str) -> Result<Vec<Step>, String> {
    let trimmed = text.trim();
    let bare = match trimmed.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or("a brace { is not closed")?,
        None if trimmed.contains(['{', '}']) => {
            return Err("expected a path, with at most one pair of braces around it".to_owned());
        }
        None => trimmed,
    };
    if position_outside_quotes(bare, |rest| rest.starts_with(['{', '}'])).is_some() {
        return Err("expected a path, with at most one pair of braces around it".to_owned());
    }
    if bare.is_empty() {
        return Err("expected a path, such as .metadata.name".to_owned());
    }
    let begins_as_path = bare.starts_with(['.', '[', '@', '$']);
    steps(&if begins_as_path { bare.to_owned() } else { format!(".{bare}") })
}

/// Where the brace is closed, quotes aside.
fn end_of_action(text: &str) -> Option<usize> {
    position_outside_quotes(text, |rest| rest.starts_with('}'))
}

fn position_outside_quotes(text: &str, is_there: impl Fn(&str) -> bool) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (position, letter) in text.char_indices() {
        match (quote, letter) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (Some(open), _) => quote = quote.filter(|_| letter != open),
            (None, _) if is_there(&text[position..]) => return Some(position),
            (None, '"' | '\'') => quote = Some(letter),
            _ => {}
        }
    }
    None
}

fn parse_action(text: &str) -> Result<Action, String> {
    let trimmed = text.trim();
    if trimmed == "end" {
        return Ok(Action::End);
    }
    match trimmed.strip_prefix("range") {
        Some(path) if path.starts_with(|letter: char| !letter.is_alphanumeric()) => Ok(Action::Range(steps(path)?)),
        _ => Ok(Action::Path(steps(trimmed)?)),
    }
}

fn steps(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = text.trim_start();
    while let Some(letter) = rest.chars().next() {
        let used = match letter {
            ' ' | '@' | '$' => 1,
            '.' => dotted(rest, &mut steps),
            '[' => bracket(rest, &mut steps)?,
            '"' | '\'' => {
                let (length, literal) = quoted(rest)?;
                steps.push(Step::Literal(Value::String(literal)));
                length
            }
            _ => word(rest, &mut steps)?,
        };
        rest = &rest[used..];
    }
    Ok(steps)
}

/// `.field`, `.*`, `..`; how much of the text that is.
fn dotted(text: &str, steps: &mut Vec<Step>) -> usize {
    if let Some(rest) = text.strip_prefix("..") {
        steps.push(Step::Recursive);
        let begins_key = rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '*');
        return 2 + if begins_key { key(rest, steps) } else { 0 };
    }
    1 + key(&text[1..], steps)
}

fn key(text: &str, steps: &mut Vec<Step>) -> usize {
    let mut name = String::new();
    let mut escaped = false;
    let mut end = text.len();
    for (position, letter) in text.char_indices() {
        match letter {
            _ if escaped => {
                escaped = false;
                name.push(letter);
            }
            '\\' => escaped = true,
            '.' | '[' | ']' | ' ' | '"' | '\'' | '@' | '$' | ',' | '(' | ')' => {
                end = position;
                break;
            }
            _ => name.push(letter),
        }
    }
    match name.as_str() {
        // `{.}` is what is there.
        "" => {}
        "*" => steps.push(Step::Wildcard),
        _ => steps.push(Step::Field(name)),
    }
    end
}

/// The length of a quoted text, quotes included, and what it says.
fn quoted(text: &str) -> Result<(usize, String), String> {
    let mut letters = text.char_indices();
    let quote = letters.next().map_or('"', |(_, quote)| quote);
    let mut said = String::new();
    while let Some((position, letter)) = letters.next() {
        match letter {
            _ if letter == quote => return Ok((position + 1, said)),
            '\\' => match letters.next().map(|(_, escaped)| escaped) {
                Some('n') => said.push('\n'),
                Some('t') => said.push('\t'),
                Some('r') => said.push('\r'),
                Some(escaped @ ('\\' | '"' | '\'')) => said.push(escaped),
                Some(other) => {
                    return Err(format!("\\{other} in quotes is nothing that is known; \\n, \\t, \\r, \\\\ and quotes are"));
                }
                None => break,
            },
            plain => said.push(plain),
        }
    }
    Err(format!("a quote {quote} is not closed"))
}

/// A number, `true` or `false`.
fn word(text: &str, steps: &mut Vec<Step>) -> Result<usize, String> {
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '+' | '.');
    let end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    let word = &text[..end];
    let literal = match word {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "" => return Err(format!("unexpected {:?}", text.chars().next().unwrap_or_default())),
        "range" | "end" => return Err(format!("{word} stands alone in its braces, or before a path")),
        _ => match (word.parse::<i64>(), word.parse::<f64>()) {
            (Ok(number), _) => Value::from(number),
            (_, Ok(number)) if word.starts_with(|letter: char| letter.is_ascii_digit() || matches!(letter, '-' | '+')) => {
                Value::from(number)
            }
            _ => return Err(format!("{word:?} is no path; paths begin with a dot, such as .{word}")),
        },
    };
    steps.push(Step::Literal(literal));
    Ok(end)
}

fn bracket(text: &str, steps: &mut Vec<Step>) -> Result<usize, String> {
    let unclosed = || "a bracket [ is not closed".to_owned();
    if let Some(rest) = text.strip_prefix("[?(") {
        let length = position_outside_quotes(rest, |rest| rest.starts_with(")]")).ok_or_else(unclosed)?;
        steps.push(Step::Filter(filter(&rest[..length])?));
        return Ok(length + 5);
    }
    let length = position_outside_quotes(&text[1..], |rest| rest.starts_with(']')).ok_or_else(unclosed)?;
    let mut items: Vec<Vec<Step>> = Vec::new();
    let mut rest = &text[1..=length];
    while let Some(comma) = position_outside_quotes(rest, |rest| rest.starts_with(',')) {
        items.push(subscript(rest[..comma].trim())?);
        rest = &rest[comma + 1..];
    }
    let last = subscript(rest.trim())?;
    if items.is_empty() {
        steps.extend(last);
    } else {
        items.push(last);
        steps.push(Step::Union(items));
    }
    Ok(length + 2)
}

/// `'key'`, `*`, `2`, `0:3`, `-1:`, `::2`
fn subscript(text: &str) -> Result<Vec<Step>, String> {
    let quote = text.chars().next().filter(|letter| matches!(letter, '\'' | '"'));
    if let Some(inner) = quote.and_then(|quote| text[1..].strip_suffix(quote)) {
        // As in kubectl, a dot in the quotes still parts keys unless it has a backslash.
        return steps(&format!(".{inner}"));
    }
    if text == "*" {
        return Ok(vec![Step::Slice(Slice::default())]);
    }
    let invalid = || format!("[{text}] is neither an index, a slice, a filter nor a key in quotes");
    let mut numbers = [None; 3];
    let parts: Vec<&str> = text.split(':').collect();
    if text.is_empty() || parts.len() > numbers.len() {
        return Err(invalid());
    }
    for (number, part) in numbers.iter_mut().zip(&parts) {
        *number = if part.is_empty() { None } else { Some(part.parse().map_err(|_| invalid())?) };
    }
    let [start, end, step] = numbers;
    if step.is_some_and(|step| step <= 0) {
        return Err(format!("[{text}]: the step must be above 0"));
    }
    Ok(vec![Step::Slice(Slice { start, end, step, is_index: parts.len() == 1 })])
}

fn filter(text: &str) -> Result<Filter, String> {
    let Some(position) = position_outside_quotes(text, |rest| rest.starts_with(['=', '!', '<', '>'])) else {
        return steps(text).map(Filter::Exists);
    };
    let (left, rest) = text.split_at(position);
    let operator = rest.find(|letter| !matches!(letter, '=' | '!' | '<' | '>')).unwrap_or(rest.len());
    let (operator, right) = rest.split_at(operator);
    let Some((_, comparison)) = COMPARISONS.into_iter().find(|(written, _)| *written == operator) else {
        return Err(format!("{operator} compares nothing; these do: ==, !=, <, <=, >, >="));
    };
    let (left, right) = (steps(left)?, steps(right)?);
    if left.is_empty() && right.is_empty() {
        return Err(format!("the filter {text:?} compares nothing"));
    }
    Ok(Filter::Compare(left, comparison, right))
}
