//! `JSONPath`, as far as the columns of custom resources have it: fields, quoted fields, positions, slices, wildcards, recursive
//! descent, unions, and filters that compare or ask whether something exists.
//!
//! Source of the language: <https://kubernetes.io/docs/reference/kubectl/jsonpath/>, `k8s.io/client-go/util/jsonpath`

mod parse;

use std::cmp::Ordering;

use super::node::Node;

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
        let (Value::One(left), Value::One(right)) = (left.value(item)?, right.value(item)?) else { return Some(false) };
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

/// What an operand is for one item.
enum Value<'n> {
    Absent,
    One(Node<'n>),
}

impl Operand {
    /// The value, if it is not one of several.
    fn value<'n, 'a: 'n>(&'n self, item: &'n Node<'a>) -> Option<Value<'n>> {
        Some(Value::One(match self {
            Self::Path(steps) => match walk(steps, vec![item])?.as_slice() {
                [] => return Some(Value::Absent),
                [one] => (*one).clone(),
                _ => return None,
            },
            Self::Text(text) => Node::Text(text.as_str().into()),
            Self::Integer(number) => Node::Integer(*number),
            Self::Float(number) => Node::Float(*number),
            Self::Flag(flag) => Node::Flag(*flag),
        }))
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
