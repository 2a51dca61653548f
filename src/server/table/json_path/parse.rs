//! The text of a path to its steps, from left to right.

use std::str::FromStr;

use super::{Comparison, JsonPath, Operand, PathError, Slice, Step};

/// Steps of one path, and of all in it: bounds what a definition can make us do per row.
const MAX_STEPS: usize = 64;
impl FromStr for JsonPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let mut parser = Parser { text, position: 0, steps: 0 };
        let parsed = parser.path();
        let steps = parsed.map_err(|problem| PathError { path: text.to_owned(), at: parser.position, problem })?;
        Ok(Self { steps })
    }
}

/// Reads a path from left to right.
struct Parser<'t> {
    text: &'t str,
    position: usize,
    steps: usize,
}

type Parsed<T> = Result<T, &'static str>;

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.position..]
    }

    fn eat(&mut self, prefix: &str) -> bool {
        let eaten = self.rest().starts_with(prefix);
        if eaten {
            self.position += prefix.len();
        }
        eaten
    }

    /// Everything up to a mark, which is eaten as well.
    fn until(&mut self, mark: &str, missing: &'static str) -> Parsed<&'t str> {
        let length = self.rest().find(mark).ok_or(missing)?;
        let inside = &self.rest()[..length];
        self.position += length + mark.len();
        Ok(inside)
    }

    fn path(&mut self) -> Parsed<Vec<Step>> {
        let mut steps = Vec::new();
        while !self.rest().is_empty() {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return Err("it is too long");
            }
            if self.eat("..") {
                if steps.last() == Some(&Step::Descent) {
                    return Err("two descents in a row");
                }
                steps.push(Step::Descent);
                if self.rest().starts_with(|next: char| next.is_alphanumeric() || next == '_') {
                    steps.push(self.field());
                }
            } else if self.eat("[?(") {
                steps.push(self.filter()?);
            } else if self.eat("[") {
                let inside = self.until("]", "expected ']'")?;
                let inner = self.bracket(inside)?;
                steps.extend(inner);
            } else if self.eat(".") {
                let next = self.rest().chars().next();
                if next.is_some_and(|next| !matches!(next, '[' | '.')) {
                    steps.push(self.field());
                }
            } else if !(self.eat("@") || self.eat("$") || self.eat(" ")) {
                return Err("expected '.' or '['");
            }
        }
        Ok(steps)
    }

    /// A name up to the next mark; a backslash takes the mark's meaning away.
    fn field(&mut self) -> Step {
        let mut name = String::new();
        let mut is_escaped = false;
        for letter in self.rest().chars() {
            let ends = matches!(letter, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}');
            if ends && !is_escaped {
                break;
            }
            self.position += letter.len_utf8();
            is_escaped = letter == '\\' && !is_escaped;
            if letter != '\\' {
                name.push(letter);
            }
        }
        if name == "*" { Step::Wildcard } else { Step::Field(name) }
    }

    fn filter(&mut self) -> Parsed<Step> {
        let length = end_of_filter(self.rest()).ok_or("expected ')]'")?;
        let inside = &self.rest()[..length];
        self.position += length + ")]".len();
        let Some((left, comparison, right)) = split_comparison(inside)? else {
            return Ok(Step::Exists(self.inner(inside)?));
        };
        Ok(Step::Compare(self.operand(left)?, comparison, self.operand(right)?))
    }

    /// What stands in brackets: a position, a slice, a wildcard, a quoted field, or several of them.
    fn bracket(&mut self, inside: &str) -> Parsed<Vec<Step>> {
        let parts: Vec<&str> = inside.split(',').collect();
        if parts.len() > 1 {
            let paths = parts.into_iter().map(|part| self.bracket(part.trim())).collect::<Parsed<_>>()?;
            return Ok(vec![Step::Union(paths)]);
        }
        if inside == "*" {
            return Ok(vec![Step::Slice(Slice { step: 1, ..Slice::default() })]);
        }
        match inside.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
            // Kubernetes reads a quoted name like one after a dot: dots in it separate unless a backslash stands before them.
            Some(name) => self.inner(&format!(".{name}")),
            None => Ok(vec![Step::Slice(slice(inside)?)]),
        }
    }

    fn inner(&mut self, text: &str) -> Parsed<Vec<Step>> {
        let mut parser = Parser { text, position: 0, steps: self.steps };
        let steps = parser.path()?;
        self.steps = parser.steps;
        Ok(steps)
    }

    fn operand(&mut self, text: &str) -> Parsed<Operand> {
        let text = text.trim();
        if let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '\'')) {
            let inside = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)).ok_or("expected a closing quote")?;
            return Ok(Operand::Text(inside.replace(&format!("\\{quote}"), &quote.to_string()).replace("\\\\", "\\")));
        }
        if let Ok(number) = text.parse() {
            return Ok(Operand::Integer(number));
        }
        if text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-')) {
            return text.parse().map(Operand::Float).map_err(|_| "expected a number");
        }
        match text {
            "true" => Ok(Operand::Flag(true)),
            "false" => Ok(Operand::Flag(false)),
            path => Ok(Operand::Path(self.inner(path)?)),
        }
    }
}

/// Where the first `)]` stands that is in no quotes.
fn end_of_filter(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut before = ' ';
    for (position, letter) in text.char_indices() {
        match quote {
            Some(open) if letter == open && before != '\\' => quote = None,
            None if matches!(letter, '"' | '\'') => quote = Some(letter),
            None if text[position..].starts_with(")]") => return Some(position),
            _ => {}
        }
        before = letter;
    }
    None
}

fn split_comparison(text: &str) -> Parsed<Option<(&str, Comparison, &str)>> {
    let is_sign = |letter: char| matches!(letter, '!' | '<' | '>' | '=');
    let Some(start) = text.find(is_sign) else { return Ok(None) };
    let length = text[start..].find(|letter| !is_sign(letter)).ok_or("expected a value to compare with")?;
    let comparison = match &text[start..start + length] {
        "==" => Comparison::Equal,
        "!=" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => return Err("expected ==, !=, <, <=, > or >="),
    };
    Ok(Some((&text[..start], comparison, &text[start + length..])))
}

fn slice(inside: &str) -> Parsed<Slice> {
    let number = |text: &str| text.parse::<i64>().map_err(|_| "expected a position");
    let mut parts = inside.split(':');
    let start = parts.next().filter(|text| !text.is_empty()).map(number).transpose()?;
    let Some(end) = parts.next() else {
        return Ok(Slice { start: start.ok_or("expected a position")?, end: None, is_position: true, step: 1 });
    };
    let end = Some(end).filter(|text| !text.is_empty()).map(number).transpose()?;
    let step = parts.next().filter(|text| !text.is_empty()).map(number).transpose()?.unwrap_or(1);
    let step = usize::try_from(step).ok().filter(|step| *step > 0).ok_or("expected a step above 0")?;
    if parts.next().is_some() {
        return Err("expected at most two ':'");
    }
    Ok(Slice { start: start.unwrap_or_default(), end, is_position: false, step })
}
