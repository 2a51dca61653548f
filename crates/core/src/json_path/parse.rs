//! From text to steps.

use super::ast::{Comparison, Expression, Filter, Literal, Slice, Step};

/// Steps of one path with all that are in it: bounds what the columns of a definition make us do for a row.
const MAX_STEPS: usize = 64;

const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

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
    path(&if begins_as_path {
        bare.to_owned()
    } else {
        format!(".{bare}")
    })
}

/// A path that begins as paths do.
pub(super) fn path(text: &str) -> Result<Vec<Step>, String> {
    Parser::default().path(text)
}

/// A path, or what stands for itself.
pub(super) fn expression(text: &str) -> Result<Expression, String> {
    Parser::default().expression(text)
}

/// Where something stands that is in no quotes and has no backslash before it.
pub(super) fn position_outside_quotes(
    text: &str,
    is_there: impl Fn(&str) -> bool,
) -> Option<usize> {
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

/// Reads one path, and those in it.
#[derive(Default)]
struct Parser {
    steps: usize,
}

impl Parser {
    fn path(&mut self, text: &str) -> Result<Vec<Step>, String> {
        match self.expression(text)? {
            Expression::Path(steps) => Ok(steps),
            Expression::Literal(_) => Err(format!(
                "{text:?} is no path; paths begin with a dot, such as .metadata.name"
            )),
        }
    }

    fn expression(&mut self, text: &str) -> Result<Expression, String> {
        let mut steps = Vec::new();
        let mut literal = None;
        let mut rest = text.trim_start();
        while let Some(letter) = rest.chars().next() {
            let before = steps.len();
            let used = match letter {
                ' ' | '@' | '$' => 1,
                '.' => self.dotted(rest, &mut steps)?,
                '[' => self.bracket(rest, &mut steps)?,
                _ => {
                    // As in kubectl, what stands for itself takes the place of all before it.
                    let (length, value) = if matches!(letter, '"' | '\'') {
                        quoted(rest)?
                    } else {
                        word(rest)?
                    };
                    literal = Some(value);
                    length
                }
            };
            if literal.is_some() && steps.len() > before {
                return Err(format!("{rest:?} follows something that is no path"));
            }
            rest = &rest[used..];
        }
        Ok(literal.map_or(Expression::Path(steps), Expression::Literal))
    }

    fn push(&mut self, steps: &mut Vec<Step>, step: Step) -> Result<(), String> {
        self.count()?;
        steps.push(step);
        Ok(())
    }

    fn count(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(format!("more than {MAX_STEPS} steps"));
        }
        Ok(())
    }

    /// `.field`, `.*`, `..`; how much of the text that is.
    fn dotted(&mut self, text: &str, steps: &mut Vec<Step>) -> Result<usize, String> {
        let Some(rest) = text.strip_prefix("..") else {
            return Ok(1 + self.key(&text[1..], steps)?);
        };
        if steps.last() == Some(&Step::Recursive) {
            return Err("two descents in a row".to_owned());
        }
        self.push(steps, Step::Recursive)?;
        let begins_key = rest
            .starts_with(|letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '*'));
        Ok(2 + if begins_key {
            self.key(rest, steps)?
        } else {
            0
        })
    }

    /// A name up to the next mark; a backslash takes the mark's meaning away.
    fn key(&mut self, text: &str, steps: &mut Vec<Step>) -> Result<usize, String> {
        let ends = |letter: &char| {
            matches!(
                letter,
                ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
            )
        };
        let mut name = String::new();
        let mut letters = text.char_indices();
        let mut end = text.len();
        while let Some((position, letter)) = letters.next() {
            match letter {
                '\\' => name.extend(
                    letters
                        .next()
                        .map(|(_, escaped)| escaped)
                        .filter(|escaped| *escaped != '\\'),
                ),
                letter if ends(&letter) => {
                    end = position;
                    break;
                }
                letter => name.push(letter),
            }
        }
        match name.as_str() {
            // `.` alone is what is there.
            "" => {}
            "*" => self.push(steps, Step::Wildcard)?,
            _ => self.push(steps, Step::Field(name))?,
        }
        Ok(end)
    }

    /// What stands in brackets: a filter, or what [`Self::subscript`] reads, or several of that.
    fn bracket(&mut self, text: &str, steps: &mut Vec<Step>) -> Result<usize, String> {
        let unclosed = || "a bracket [ is not closed".to_owned();
        if let Some(rest) = text.strip_prefix("[?(") {
            let length = position_outside_quotes(rest, |rest| rest.starts_with(")]"))
                .ok_or_else(unclosed)?;
            let filter = self.filter(&rest[..length])?;
            self.push(steps, Step::Filter(filter))?;
            return Ok("[?(".len() + length + ")]".len());
        }
        let length = position_outside_quotes(&text[1..], |rest| rest.starts_with(']'))
            .ok_or_else(unclosed)?;
        let mut branches: Vec<Vec<Step>> = Vec::new();
        let mut rest = &text[1..=length];
        while let Some(comma) = position_outside_quotes(rest, |rest| rest.starts_with(',')) {
            // A branch is walked even if there is no step in it.
            self.count()?;
            branches.push(self.subscript(rest[..comma].trim())?);
            rest = &rest[comma + 1..];
        }
        let last = self.subscript(rest.trim())?;
        if branches.is_empty() {
            steps.extend(last);
        } else {
            branches.push(last);
            self.push(steps, Step::Union(branches))?;
        }
        Ok(length + "[]".len())
    }

    /// `'key'`, `*`, `2`, `0:3`, `-1:`, `::2`
    fn subscript(&mut self, text: &str) -> Result<Vec<Step>, String> {
        let quote = text
            .chars()
            .next()
            .filter(|letter| matches!(letter, '\'' | '"'));
        if let Some(inner) = quote.and_then(|quote| text[1..].strip_suffix(quote)) {
            // As in kubectl, a dot in the quotes still parts keys unless it has a backslash.
            return self.path(&format!(".{inner}"));
        }
        let mut steps = Vec::new();
        self.push(&mut steps, Step::Slice(slice(text)?))?;
        Ok(steps)
    }

    fn filter(&mut self, text: &str) -> Result<Filter, String> {
        let Some(position) =
            position_outside_quotes(text, |rest| rest.starts_with(['=', '!', '<', '>']))
        else {
            return self.expression(text).map(Filter::Exists);
        };
        let (left, rest) = text.split_at(position);
        let operator = rest
            .find(|letter| !matches!(letter, '=' | '!' | '<' | '>'))
            .unwrap_or(rest.len());
        let (operator, right) = rest.split_at(operator);
        let Some((_, comparison)) = COMPARISONS
            .into_iter()
            .find(|(written, _)| *written == operator)
        else {
            return Err(format!(
                "{operator} compares nothing; these do: ==, !=, <, <=, >, >="
            ));
        };
        if left.trim().is_empty() || right.trim().is_empty() {
            return Err(format!("the filter {text:?} compares nothing"));
        }
        Ok(Filter::Compare(
            self.expression(left)?,
            comparison,
            self.expression(right)?,
        ))
    }
}

/// The length of a quoted text, quotes included, and what it says.
fn quoted(text: &str) -> Result<(usize, Literal), String> {
    let mut letters = text.char_indices();
    let quote = letters.next().map_or('"', |(_, quote)| quote);
    let mut said = String::new();
    while let Some((position, letter)) = letters.next() {
        match letter {
            _ if letter == quote => return Ok((position + 1, Literal::Text(said))),
            '\\' => match letters.next().map(|(_, escaped)| escaped) {
                Some('n') => said.push('\n'),
                Some('t') => said.push('\t'),
                Some('r') => said.push('\r'),
                Some(escaped @ ('\\' | '"' | '\'')) => said.push(escaped),
                Some(other) => {
                    return Err(format!(
                        "\\{other} in quotes is nothing that is known; \\n, \\t, \\r, \\\\ and quotes are"
                    ));
                }
                None => break,
            },
            plain => said.push(plain),
        }
    }
    Err(format!("a quote {quote} is not closed"))
}

/// A number, `true` or `false`, and its length.
fn word(text: &str) -> Result<(usize, Literal), String> {
    let is_part =
        |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '+' | '.');
    let end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    let word = &text[..end];
    let literal = match word {
        "true" => Literal::Flag(true),
        "false" => Literal::Flag(false),
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

/// `*`, `2`, `0:3`, `-1:`, `::2`
fn slice(text: &str) -> Result<Slice, String> {
    if text == "*" {
        return Ok(Slice::default());
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
