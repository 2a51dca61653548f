//! JSONPath, as far as the columns of custom resources have it: fields, quoted fields, positions, slices, wildcards, recursive
//! descent, unions, and filters that compare or ask whether something exists.
//!
//! Source of the language: <https://kubernetes.io/docs/reference/kubectl/jsonpath/>, `k8s.io/client-go/util/jsonpath`

use std::{cmp::Ordering, str::FromStr};

use super::node::Node;

/// Steps of one path, and of all in it: bounds what a definition can make us do per row.
const MAX_STEPS: usize = 64;
/// Values that one path may find on its way: recursive descent multiplies them.
const MAX_FOUND: usize = 10_000;

/// A path that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the JSONPath {path:?} is not understood at character {at}: {problem}")]
pub struct PathError {
    path: String,
    at: usize,
    problem: &'static str,
}

/// A path through JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    Descent,
    Slice(Slice),
    Union(Vec<Vec<Step>>),
    Exists(Vec<Step>),
    Compare(Operand, Comparison, Operand),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Slice {
    start: i64,
    /// Absent: to the end.
    end: Option<i64>,
    /// Only the one item at `start`.
    is_position: bool,
    step: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(Vec<Step>),
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// The fields that it begins with, up to the first step that is none.
    pub fn leading_fields(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map_while(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The values that it finds; `None` where it does not fit what it meets.
    pub fn find<'n, 'a>(&self, root: &'n Node<'a>) -> Option<Vec<&'n Node<'a>>> {
        walk(&self.steps, vec![root])
    }
}

fn walk<'n, 'a>(steps: &[Step], start: Vec<&'n Node<'a>>) -> Option<Vec<&'n Node<'a>>> {
    let mut found = start;
    for step in steps {
        let mut next = Vec::new();
        for value in found {
            step.take(value, &mut next)?;
            if next.len() > MAX_FOUND {
                return None;
            }
        }
        found = next;
    }
    Some(found)
}

impl Step {
    fn take<'n, 'a>(&self, value: &'n Node<'a>, found: &mut Vec<&'n Node<'a>>) -> Option<()> {
        match self {
            Self::Field(name) => {
                found.extend(value.entries().iter().find(|(key, _)| key == name).map(|(_, member)| member));
            }
            Self::Wildcard => found.extend(children(value)),
            Self::Descent => descend(value, found),
            Self::Union(paths) => {
                for path in paths {
                    found.extend(walk(path, vec![value])?);
                }
            }
            Self::Slice(_) | Self::Exists(_) | Self::Compare(..) if *value == Node::Null => {}
            Self::Slice(slice) => slice.take(list(value)?, found)?,
            Self::Exists(path) => {
                let has = |item: &&'n Node<'a>| walk(path, vec![*item]).is_some_and(|inside| !inside.is_empty());
                found.extend(list(value)?.iter().filter(has));
            }
            Self::Compare(left, comparison, right) => {
                for item in list(value)? {
                    if comparison.holds(left, right, item)? {
                        found.push(item);
                    }
                }
            }
        }
        Some(())
    }
}

fn list<'n, 'a>(value: &'n Node<'a>) -> Option<&'n [Node<'a>]> {
    matches!(value, Node::List(_)).then(|| value.items())
}

fn children<'n, 'a>(value: &'n Node<'a>) -> impl Iterator<Item = &'n Node<'a>> {
    value.items().iter().chain(value.entries().iter().map(|(_, member)| member))
}

/// Every collection with something in it, itself included.
fn descend<'n, 'a>(value: &'n Node<'a>, found: &mut Vec<&'n Node<'a>>) {
    if children(value).next().is_none() || found.len() > MAX_FOUND {
        return;
    }
    found.push(value);
    children(value).for_each(|child| descend(child, found));
}

impl Slice {
    fn take<'n, 'a>(&self, items: &'n [Node<'a>], found: &mut Vec<&'n Node<'a>>) -> Option<()> {
        let length = i64::try_from(items.len()).ok()?;
        let from_end = |position: i64| if position < 0 { position + length } else { position };
        let start = from_end(self.start);
        let end = if self.is_position { start + 1 } else { self.end.map_or(length, from_end) };
        if start == end {
            return Some(());
        }
        let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
        found.extend(items.get(range)?.iter().step_by(self.step));
        Some(())
    }
}

impl Comparison {
    /// Whether it holds for an item; `None` where the two cannot be compared.
    fn holds(self, left: &Operand, right: &Operand, item: &Node<'_>) -> Option<bool> {
        let (Some(left), Some(right)) = (left.value(item)?, right.value(item)?) else { return Some(false) };
        let order = compare(&left, &right);
        match self {
            Self::Equal => Some(order? == Ordering::Equal),
            Self::NotEqual => Some(order? != Ordering::Equal),
            Self::Less => Some(order? == Ordering::Less),
            Self::LessOrEqual => Some(order? != Ordering::Greater),
            Self::Greater => Some(order? == Ordering::Greater),
            Self::GreaterOrEqual => Some(order? != Ordering::Less),
        }
    }
}

impl Operand {
    /// The one value; nothing if there is none, `None` if there are several.
    fn value<'n, 'a: 'n>(&'n self, item: &'n Node<'a>) -> Option<Option<Node<'n>>> {
        Some(match self {
            Self::Path(steps) => match walk(steps, vec![item])?.as_slice() {
                [] => None,
                [one] => Some((*one).clone()),
                _ => return None,
            },
            Self::Text(text) => Some(Node::Text(text.as_str().into())),
            Self::Integer(number) => Some(Node::Integer(*number)),
            Self::Float(number) => Some(Node::Float(*number)),
            Self::Flag(flag) => Some(Node::Flag(*flag)),
        })
    }
}

/// Only values of the same type can be compared.
fn compare(left: &Node<'_>, right: &Node<'_>) -> Option<Ordering> {
    match (left, right) {
        (Node::Text(left), Node::Text(right)) => Some(left.cmp(right)),
        (Node::Integer(left), Node::Integer(right)) => Some(left.cmp(right)),
        (Node::Float(left), Node::Float(right)) => left.partial_cmp(right),
        (Node::Flag(left), Node::Flag(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

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
            Some(_) => {}
            None if matches!(letter, '"' | '\'') => quote = Some(letter),
            None if text[position..].starts_with(")]") => return Some(position),
            None => {}
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
