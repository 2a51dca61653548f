//! Parses paths and expressions.

use super::{
    ast::{ComparisonOperator, Expression, FilterExpression, PathStep},
    literal::{quoted, slice, word},
    unambiguous::{
        check_end, check_escaped, check_existence, check_key_letter, check_operand, check_root,
        ends_key, quoted_key,
    },
};

/// Steps of one path, those in its filters and unions included. Bounds the work that the printer
/// columns of a definition cause for each row.
const MAX_STEPS: usize = 64;

const COMPARISONS: [(&str, ComparisonOperator); 6] = [
    ("==", ComparisonOperator::Equal),
    ("!=", ComparisonOperator::NotEqual),
    ("<=", ComparisonOperator::LessOrEqual),
    (">=", ComparisonOperator::GreaterOrEqual),
    ("<", ComparisonOperator::Less),
    (">", ComparisonOperator::Greater),
];

/// Parses a path, with or without braces and its first dot, as kubectl does.
pub(super) fn relaxed_path(text: &str) -> Result<Vec<PathStep>, String> {
    let mut parser = PathParser::default();
    parser.path(&bare_path(text)?)
}

/// Parses a path as [`relaxed_path`] does, and refuses one that RFC 9535 reads in another way.
pub(super) fn unambiguous_path(text: &str) -> Result<Vec<PathStep>, String> {
    let mut parser = PathParser {
        is_unambiguous: true,
        ..PathParser::default()
    };
    parser.path(&bare_path(text)?)
}

/// A path without braces and with its first dot.
fn bare_path(text: &str) -> Result<String, String> {
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
    Ok(if begins_as_path {
        bare.to_owned()
    } else {
        format!(".{bare}")
    })
}

/// Parses a path that begins with a dot, a bracket, `@` or `$`.
#[cfg(test)]
pub(super) fn path(text: &str) -> Result<Vec<PathStep>, String> {
    PathParser::default().path(text)
}

/// Parses a path or a literal.
#[cfg(test)]
pub(super) fn expression(text: &str) -> Result<Expression, String> {
    PathParser::default().expression(text)
}

/// The first position, outside of quotes and not behind a backslash, from which the rest of the
/// text matches.
pub(super) fn position_outside_quotes(
    text: &str,
    matches_rest: impl Fn(&str) -> bool,
) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (position, letter) in text.char_indices() {
        match (quote, letter) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (Some(open), _) => quote = quote.filter(|_| letter != open),
            (None, _) if matches_rest(&text[position..]) => return Some(position),
            (None, '"' | '\'') => quote = Some(letter),
            _ => {}
        }
    }
    None
}

/// Parses one path, and the paths in its filters and unions.
#[derive(Default)]
struct PathParser {
    steps: usize,
    /// Refuse what RFC 9535 reads in another way.
    is_unambiguous: bool,
    in_filter: bool,
}

impl PathParser {
    fn path(&mut self, text: &str) -> Result<Vec<PathStep>, String> {
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
        let begin = text.trim_start();
        let mut rest = begin;
        while let Some(letter) = rest.chars().next() {
            let before = steps.len();
            let used = match letter {
                ' ' => 1,
                '@' | '$' => {
                    if self.is_unambiguous {
                        check_root(letter, rest.len() == begin.len(), self.in_filter)?;
                    }
                    1
                }
                '.' => self.dotted(rest, &mut steps)?,
                '[' => self.bracket(rest, &mut steps)?,
                _ => {
                    // As in kubectl, a literal replaces what stands before it.
                    let (length, value) = if matches!(letter, '"' | '\'') {
                        quoted(rest)?
                    } else {
                        word(rest)?
                    };
                    if self.is_unambiguous && rest.len() < begin.len() {
                        return Err(format!("unexpected {:?}", &rest[..length]));
                    }
                    literal = Some(value);
                    length
                }
            };
            if literal.is_some() && steps.len() > before {
                return Err(format!("{rest:?} follows a literal"));
            }
            rest = &rest[used..];
        }
        if self.is_unambiguous {
            check_end(&steps)?;
        }
        Ok(literal.map_or(Expression::Path(steps), Expression::Literal))
    }

    fn push(&mut self, steps: &mut Vec<PathStep>, step: PathStep) -> Result<(), String> {
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

    /// Parses `.field`, `.*` or `..`. Returns the length that it read.
    fn dotted(&mut self, text: &str, steps: &mut Vec<PathStep>) -> Result<usize, String> {
        let Some(rest) = text.strip_prefix("..") else {
            return Ok(1 + self.key(&text[1..], steps)?);
        };
        if steps.last() == Some(&PathStep::Recursive) {
            return Err("two descents in a row".to_owned());
        }
        self.push(steps, PathStep::Recursive)?;
        let begins_key = rest
            .starts_with(|letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '*'));
        Ok(2 + if begins_key {
            self.key(rest, steps)?
        } else {
            0
        })
    }

    /// Parses a key up to the next mark. A backslash takes a mark's meaning away. Returns the
    /// length that it read.
    fn key(&mut self, text: &str, steps: &mut Vec<PathStep>) -> Result<usize, String> {
        let mut name = String::new();
        let mut problem = None;
        let mut letters = text.char_indices();
        let mut end = text.len();
        while let Some((position, letter)) = letters.next() {
            match letter {
                '\\' => {
                    let escaped = letters.next().map(|(_, escaped)| escaped);
                    if self.is_unambiguous {
                        check_escaped(escaped)?;
                    }
                    name.extend(escaped.filter(|escaped| *escaped != '\\'));
                }
                letter if ends_key(letter) => {
                    end = position;
                    break;
                }
                letter => {
                    if self.is_unambiguous && problem.is_none() {
                        problem = check_key_letter(&name, letter).err();
                    }
                    name.push(letter);
                }
            }
        }
        match (name.as_str(), problem) {
            ("", _) if self.is_unambiguous => return Err("a dot has no key behind it".to_owned()),
            // `.` alone is the value itself.
            ("", _) => {}
            ("*", _) if self.is_unambiguous && text.starts_with('\\') => {
                return Err("\\* is every key, as in kubectl; write * for that".to_owned());
            }
            ("*", _) => self.push(steps, PathStep::Wildcard)?,
            (_, Some(problem)) => return Err(problem),
            (_, None) => self.push(steps, PathStep::Field(name))?,
        }
        Ok(end)
    }

    /// Parses brackets: a filter, or one or several subscripts. Returns the length that it read.
    fn bracket(&mut self, text: &str, steps: &mut Vec<PathStep>) -> Result<usize, String> {
        let unclosed = || "a bracket [ is not closed".to_owned();
        if let Some(rest) = text.strip_prefix("[?(") {
            let length = position_outside_quotes(rest, |rest| rest.starts_with(")]"))
                .ok_or_else(unclosed)?;
            let filter = self.filter(&rest[..length])?;
            self.push(steps, PathStep::Filter(filter))?;
            return Ok("[?(".len() + length + ")]".len());
        }
        let length = position_outside_quotes(&text[1..], |rest| rest.starts_with(']'))
            .ok_or_else(unclosed)?;
        let mut branches: Vec<Vec<PathStep>> = Vec::new();
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
            self.push(steps, PathStep::Union(branches))?;
        }
        Ok(length + "[]".len())
    }

    /// Parses `'key'`, `*`, `2`, `0:3`, `-1:` or `::2`.
    fn subscript(&mut self, text: &str) -> Result<Vec<PathStep>, String> {
        let quote = text
            .chars()
            .next()
            .filter(|letter| matches!(letter, '\'' | '"'));
        let mut steps = Vec::new();
        if let Some(quote) = quote
            && let Some(inner) = text[1..].strip_suffix(quote)
        {
            if self.is_unambiguous {
                let key = quoted_key(inner, quote)?;
                self.push(&mut steps, PathStep::Field(key))?;
                return Ok(steps);
            }
            // As in kubectl, a dot in quotes separates keys unless it has a backslash.
            return self.path(&format!(".{inner}"));
        }
        let step = match text {
            "*" => PathStep::BracketWildcard,
            _ => PathStep::Slice(slice(text)?),
        };
        self.push(&mut steps, step)?;
        Ok(steps)
    }

    fn filter(&mut self, text: &str) -> Result<FilterExpression, String> {
        let outer = std::mem::replace(&mut self.in_filter, true);
        let filter = self.filter_expression(text);
        self.in_filter = outer;
        filter
    }

    fn filter_expression(&mut self, text: &str) -> Result<FilterExpression, String> {
        let Some(position) =
            position_outside_quotes(text, |rest| rest.starts_with(['=', '!', '<', '>']))
        else {
            let operand = self.expression(text)?;
            if self.is_unambiguous {
                check_existence(text, &operand)?;
            }
            return Ok(FilterExpression::Exists(operand));
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
                "{operator} is no comparison; these are: ==, !=, <, <=, >, >="
            ));
        };
        if left.trim().is_empty() || right.trim().is_empty() {
            return Err(format!(
                "the filter {text:?} lacks a side of its comparison"
            ));
        }
        let (first, second) = (self.expression(left)?, self.expression(right)?);
        if self.is_unambiguous {
            check_operand(left, &first)?;
            check_operand(right, &second)?;
        }
        Ok(FilterExpression::Compare(first, comparison, second))
    }
}
