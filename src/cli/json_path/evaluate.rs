//! From steps and a value to values.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Comparison, Filter, JsonPathError, Node, Slice, Step, print::text};

/// Appends the text of nodes.
pub(super) fn render(nodes: &[Node], value: &Value, out: &mut String) -> Result<(), JsonPathError> {
    for node in nodes {
        match node {
            Node::Text(text) => out.push_str(text),
            Node::Path(steps) => {
                let texts: Vec<String> = walk(steps, vec![value])?.into_iter().map(text).collect();
                out.push_str(&texts.join(" "));
            }
            Node::Range(steps, body) => {
                for element in walk(steps, vec![value])? {
                    render(body, element, out)?;
                }
            }
        }
    }
    Ok(())
}

/// Where the steps lead.
pub(super) fn walk<'v>(steps: &'v [Step], from: Vec<&'v Value>) -> Result<Vec<&'v Value>, JsonPathError> {
    let mut values = from;
    for step in steps {
        values = take(step, values)?;
    }
    Ok(values)
}

fn take<'v>(step: &'v Step, values: Vec<&'v Value>) -> Result<Vec<&'v Value>, JsonPathError> {
    let mut found = Vec::new();
    match step {
        Step::Field(key) => found.extend(values.into_iter().filter_map(|value| value.as_object()?.get(key))),
        Step::Wildcard => found.extend(values.into_iter().flat_map(children)),
        Step::Recursive => values.into_iter().for_each(|value| descend(value, &mut found)),
        Step::Literal(literal) => found.extend(values.into_iter().map(|_| literal)),
        Step::Slice(slice) => {
            for value in values {
                take_slice(slice, value, &mut found)?;
            }
        }
        Step::Filter(filter) => {
            for value in values {
                take_passing(filter, value, &mut found)?;
            }
        }
        Step::Union(branches) => {
            // One branch after the other, each for all values.
            for branch in branches {
                found.extend(walk(branch, values.clone())?);
            }
        }
    }
    Ok(found)
}

fn take_passing<'v>(filter: &'v Filter, value: &'v Value, found: &mut Vec<&'v Value>) -> Result<(), JsonPathError> {
    for element in list(value)? {
        if passes(filter, element)? {
            found.push(element);
        }
    }
    Ok(())
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(elements) => elements.iter().collect(),
        Value::Object(entries) => entries.values().collect(),
        _ => Vec::new(),
    }
}

/// Parsed JSON is at most 128 levels deep.
fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    let inside = children(value);
    if inside.is_empty() {
        return;
    }
    found.push(value);
    for child in inside {
        descend(child, found);
    }
}

/// The elements of a list; none of what is null.
fn list(value: &Value) -> Result<&[Value], JsonPathError> {
    match value {
        Value::Array(elements) => Ok(elements),
        Value::Null => Ok(&[]),
        other => Err(JsonPathError::NoList(text(other))),
    }
}

/// As kubectl has it: an index or a slice beyond the list is an error, an empty slice is not.
fn take_slice<'v>(slice: &Slice, value: &'v Value, found: &mut Vec<&'v Value>) -> Result<(), JsonPathError> {
    let elements = list(value)?;
    if value.is_null() {
        return Ok(());
    }
    let count = i64::try_from(elements.len()).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { index + count } else { index };
    let start = from_end(slice.start.unwrap_or(0));
    let end = match slice.end {
        _ if slice.is_index && slice.start.is_some() => start + 1,
        Some(end) => from_end(end),
        None => count,
    };
    if start == end {
        return Ok(());
    }
    let beyond = |index: i64| JsonPathError::OutOfBounds { index, length: elements.len() };
    let Some(first) = usize::try_from(start).ok().filter(|first| *first < elements.len()) else { return Err(beyond(start)) };
    let Some(last) = usize::try_from(end).ok().filter(|last| *last <= elements.len()) else { return Err(beyond(end - 1)) };
    let step = slice.step.and_then(|step| usize::try_from(step).ok()).unwrap_or(1);
    found.extend(elements.get(first..last).unwrap_or_default().iter().step_by(step.max(1)));
    Ok(())
}

fn passes(filter: &Filter, element: &Value) -> Result<bool, JsonPathError> {
    let (left, comparison, right) = match filter {
        Filter::Exists(steps) => return Ok(!walk(steps, vec![element])?.is_empty()),
        Filter::Compare(left, comparison, right) => (left, comparison, right),
    };
    let (left, right) = (walk(left, vec![element])?, walk(right, vec![element])?);
    match (left.as_slice(), right.as_slice()) {
        ([], _) | (_, []) => Ok(false),
        ([left], [right]) => compare(left, *comparison, right),
        _ => Err(JsonPathError::SeveralValues),
    }
}

fn compare(left: &Value, comparison: Comparison, right: &Value) -> Result<bool, JsonPathError> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) if matches!(comparison, Comparison::Equal | Comparison::NotEqual) => {
            Some(left.cmp(right))
        }
        (Value::Number(left), Value::Number(right)) if left.is_f64() == right.is_f64() => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => left.as_f64().zip(right.as_f64()).and_then(|(left, right)| left.partial_cmp(&right)),
        },
        _ => None,
    };
    let Some(order) = order else { return Err(JsonPathError::Incompatible(text(left), text(right))) };
    Ok(match comparison {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::NotEqual => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    })
}
