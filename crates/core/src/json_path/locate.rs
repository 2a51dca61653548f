//! Finds the locations of the values that a path selects, for code that removes them.
//!
//! Such code must miss nothing, so a path never fails here, as it may in kubectl:
//!
//! - `[*]` and filters apply to the members of a map, too.
//! - An index or a slice beyond a list selects what there is, and of a map it selects nothing.
//! - A filter compares an absent value as RFC 9535 does: it equals an absent value only, so `[?(@.name!="a")]` selects an item without a name.

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::Value;

use super::ast::{ComparisonOperator, Expression, FilterExpression, PathStep, Slice};

/// The way from a value to one of the values in it.
pub type NodeLocation = Vec<LocationStep>;

/// A step into a list or a map. Steps into one list have the order of its elements.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LocationStep {
    /// To an element of a list.
    Element(usize),
    /// To the value of a key.
    Member(String),
}

/// A value and its location, with borrowed keys.
type Located<'v> = (Vec<BorrowedStep<'v>>, &'v Value);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum BorrowedStep<'v> {
    Element(usize),
    Member(&'v str),
}

/// The locations of what the steps select in a value. Each location is there once.
pub(super) fn locations(steps: &[PathStep], value: &Value) -> BTreeSet<NodeLocation> {
    let owned = |step: &BorrowedStep<'_>| match *step {
        BorrowedStep::Element(index) => LocationStep::Element(index),
        BorrowedStep::Member(key) => LocationStep::Member(key.to_owned()),
    };
    select(steps, vec![(Vec::new(), value)])
        .iter()
        .map(|(location, _)| location.iter().map(owned).collect())
        .collect()
}

fn select<'v>(steps: &[PathStep], from: Vec<Located<'v>>) -> Vec<Located<'v>> {
    steps.iter().fold(from, |values, step| next(step, values))
}

fn next<'v>(step: &PathStep, values: Vec<Located<'v>>) -> Vec<Located<'v>> {
    let mut found = Vec::new();
    match step {
        PathStep::Field(key) => {
            for (location, value) in values {
                let member = value.as_object().and_then(|map| map.get_key_value(key));
                found.extend(
                    member.map(|(key, member)| below(&location, BorrowedStep::Member(key), member)),
                );
            }
        }
        PathStep::Wildcard | PathStep::BracketWildcard => {
            found.extend(values.iter().flat_map(children));
        }
        PathStep::Recursive => {
            for value in values {
                descend(value, &mut found);
            }
        }
        PathStep::Slice(slice) => {
            for value in &values {
                found.extend(slice.select(value));
            }
        }
        PathStep::Filter(filter) => {
            let passing = |(_, item): &Located<'_>| filter.passes(item);
            found.extend(values.iter().flat_map(children).filter(passing));
        }
        PathStep::Union(branches) => {
            for branch in branches {
                found.extend(select(branch, values.clone()));
            }
        }
    }
    if matches!(step, PathStep::Recursive | PathStep::Union(_)) {
        // Without repetitions, of which several such steps would make very many.
        found.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        found.dedup_by(|(left, _), (right, _)| left == right);
    }
    found
}

fn below<'v>(
    location: &[BorrowedStep<'v>],
    step: BorrowedStep<'v>,
    value: &'v Value,
) -> Located<'v> {
    (location.iter().copied().chain([step]).collect(), value)
}

fn children<'v>((location, value): &Located<'v>) -> Vec<Located<'v>> {
    let value: &'v Value = value;
    match value {
        Value::Array(elements) => elements
            .iter()
            .enumerate()
            .map(|(index, element)| below(location, BorrowedStep::Element(index), element))
            .collect(),
        Value::Object(members) => members
            .iter()
            .map(|(key, member)| below(location, BorrowedStep::Member(key), member))
            .collect(),
        _ => Vec::new(),
    }
}

/// Every collection with something in it, the value itself included. Parsed JSON is at most 128 levels deep.
fn descend<'v>(value: Located<'v>, found: &mut Vec<Located<'v>>) {
    let inside = children(&value);
    if inside.is_empty() {
        return;
    }
    found.push(value);
    for child in inside {
        descend(child, found);
    }
}

impl Slice {
    fn select<'v>(&self, list: &Located<'v>) -> Vec<Located<'v>> {
        if !list.1.is_array() {
            return Vec::new();
        }
        let elements = children(list);
        let (start, end) = self.bounds(elements.len());
        // An index before the list is not one within it.
        if self.is_index && start < 0 {
            return Vec::new();
        }
        let within = |index: i64| usize::try_from(index.max(0)).unwrap_or(usize::MAX);
        let (start, end) = (within(start), within(end));
        elements
            .into_iter()
            .take(end)
            .skip(start)
            .step_by(self.step.unwrap_or(1))
            .collect()
    }
}

impl FilterExpression {
    fn passes(&self, item: &Value) -> bool {
        match self {
            Self::Exists(Expression::Literal(_)) => true,
            Self::Exists(Expression::Path(steps)) => {
                !select(steps, vec![(Vec::new(), item)]).is_empty()
            }
            Self::Compare(left, comparison, right) => comparison.holds_between(
                operand(left, item).as_deref(),
                operand(right, item).as_deref(),
            ),
        }
    }
}

/// One side of a comparison; `None` if it is absent. A path that is compared leads to one value at most.
fn operand<'v>(side: &'v Expression, item: &'v Value) -> Option<Cow<'v, Value>> {
    match side {
        Expression::Literal(literal) => Some(Cow::Owned(literal.into())),
        Expression::Path(steps) => {
            let found = select(steps, vec![(Vec::new(), item)]);
            found.first().map(|(_, value)| Cow::Borrowed(*value))
        }
    }
}

impl ComparisonOperator {
    /// Compares as RFC 9535 does: values of different types differ and have no order.
    fn holds_between(self, left: Option<&Value>, right: Option<&Value>) -> bool {
        let (equal, less, same_type) = match (left, right) {
            (Some(Value::Number(left)), Some(Value::Number(right))) => {
                let (left, right) = (left.as_f64(), right.as_f64());
                (left == right, left < right, true)
            }
            (Some(Value::String(left)), Some(Value::String(right))) => {
                (left == right, left < right, true)
            }
            (Some(left), Some(right)) => {
                let same = std::mem::discriminant(left) == std::mem::discriminant(right);
                (left == right, false, same)
            }
            (left, right) => (left == right, false, false),
        };
        match self {
            Self::Equal => equal,
            Self::NotEqual => !equal,
            Self::Less => same_type && less,
            Self::LessOrEqual => same_type && (less || equal),
            Self::Greater => same_type && !less && !equal,
            Self::GreaterOrEqual => same_type && !less,
        }
    }
}
