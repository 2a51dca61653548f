//! Finds the values that a path selects, for code that removes them.
//!
//! Such code must miss nothing, so a path never fails here for what a value is like, as it may in
//! kubectl, but only without fuel:
//!
//! - `[*]` and filters apply to the members of a map, too.
//! - An index or a slice beyond a list selects what there is, and of a map it selects nothing.
//! - A filter compares an absent value as RFC 9535 does: it equals an absent value only, so
//!   `[?(@.name!="a")]` selects an item without a name.
//!
//! No step has a value twice, so none holds more values than there are.

use std::{borrow::Cow, cmp::Ordering, ptr};

use ahash::AHashSet;
use serde_json::Value;

use super::{
    ast::{ComparisonOperator, Expression, FilterExpression, PathStep, Slice},
    evaluate::{add, children},
    print::take_value,
};
use crate::fuel::{Fuel, OutOfFuel};

/// A selection and the fuel that it takes.
#[derive(Clone, Copy)]
pub(super) struct PathSelection<'f>(pub &'f Fuel);

impl PathSelection<'_> {
    /// What the steps select, each value once.
    pub(super) fn steps<'v>(
        self,
        steps: &[PathStep],
        from: Vec<&'v Value>,
    ) -> Result<Vec<&'v Value>, OutOfFuel> {
        let mut values = from;
        for step in steps {
            values = self.step(step, values)?;
        }
        Ok(values)
    }

    fn step<'v>(
        self,
        step: &PathStep,
        values: Vec<&'v Value>,
    ) -> Result<Vec<&'v Value>, OutOfFuel> {
        let mut found = Vec::new();
        match step {
            PathStep::Field(key) => {
                for value in values {
                    self.0.take_text(key.len())?;
                    found.extend(value.as_object().and_then(|members| members.get(key)));
                }
            }
            PathStep::Wildcard | PathStep::BracketWildcard => {
                add(self.0, &mut found, values.into_iter().flat_map(children))?;
            }
            PathStep::Recursive => {
                let mut seen = AHashSet::new();
                for value in values {
                    self.descend(value, &mut seen, &mut found)?;
                }
            }
            PathStep::Slice(slice) => {
                for value in values {
                    self.0.take(1)?;
                    add(self.0, &mut found, slice.select(value))?;
                }
            }
            PathStep::Filter(filter) => {
                for item in values.into_iter().flat_map(children) {
                    self.0.take(1)?;
                    if self.passes(filter, item)? {
                        add(self.0, &mut found, [item])?;
                    }
                }
            }
            PathStep::Union(branches) => {
                for branch in branches {
                    self.0.take(values.len())?;
                    found.extend(self.steps(branch, values.clone())?);
                    self.0.take(found.len())?;
                    found.sort_unstable_by_key(|value| ptr::from_ref(*value));
                    found.dedup_by_key(|value| ptr::from_ref(*value));
                }
            }
        }
        Ok(found)
    }

    /// Every collection with something in it that was not seen, the value itself included. Parsed
    /// JSON is at most 128 levels deep.
    fn descend<'v>(
        self,
        value: &'v Value,
        seen: &mut AHashSet<*const Value>,
        found: &mut Vec<&'v Value>,
    ) -> Result<(), OutOfFuel> {
        self.0.take(1)?;
        let mut inside = children(value).peekable();
        if inside.peek().is_none() || !seen.insert(ptr::from_ref(value)) {
            return Ok(());
        }
        add(self.0, found, [value])?;
        inside.try_for_each(|child| self.descend(child, seen, found))
    }

    fn passes(self, filter: &FilterExpression, item: &Value) -> Result<bool, OutOfFuel> {
        Ok(match filter {
            FilterExpression::Exists(Expression::Literal(_)) => true,
            FilterExpression::Exists(Expression::Path(steps)) => {
                !self.steps(steps, vec![item])?.is_empty()
            }
            FilterExpression::Compare(left, comparison, right) => {
                let left = self.operand(left, item)?;
                let right = self.operand(right, item)?;
                for side in [&left, &right].into_iter().flatten() {
                    take_value(&**side, self.0)?;
                }
                comparison.holds_between(left.as_deref(), right.as_deref())
            }
        })
    }

    /// One side of a comparison; `None` if it is absent. A path that is compared leads to one value
    /// at most.
    fn operand<'v>(
        self,
        side: &'v Expression,
        item: &'v Value,
    ) -> Result<Option<Cow<'v, Value>>, OutOfFuel> {
        Ok(match side {
            Expression::Literal(literal) => Some(Cow::Owned(literal.into())),
            Expression::Path(steps) => {
                let found = self.steps(steps, vec![item])?;
                found.first().map(|value| Cow::Borrowed(*value))
            }
        })
    }
}

impl Slice {
    fn select<'v>(&self, value: &'v Value) -> impl Iterator<Item = &'v Value> + use<'v> {
        let elements = value.as_array().map_or(&[][..], Vec::as_slice);
        let (start, end) = self.bounds(elements.len());
        // An index before the list is not one within it.
        let end = if self.is_index && start < 0 { 0 } else { end };
        let within = |index: i64| {
            let index = usize::try_from(index.max(0)).unwrap_or(usize::MAX);
            index.min(elements.len())
        };
        let selected = elements.get(within(start)..within(end)).unwrap_or_default();
        selected.iter().step_by(self.step.unwrap_or(1))
    }
}

impl ComparisonOperator {
    /// Compares as RFC 9535 does: values of different types differ and have no order.
    fn holds_between(self, left: Option<&Value>, right: Option<&Value>) -> bool {
        let order = match (left, right) {
            (Some(Value::Number(left)), Some(Value::Number(right))) => {
                left.as_f64().partial_cmp(&right.as_f64())
            }
            (Some(Value::String(left)), Some(Value::String(right))) => Some(left.cmp(right)),
            (Some(left), Some(right)) => {
                let is_same_type = std::mem::discriminant(left) == std::mem::discriminant(right);
                // Other values of one type differ as if the first one were greater.
                let order = if left == right {
                    Ordering::Equal
                } else {
                    Ordering::Greater
                };
                is_same_type.then_some(order)
            }
            (None, None) => return self == Self::Equal,
            _ => None,
        };
        order.map_or(self == Self::NotEqual, |order| self.holds(order))
    }
}
