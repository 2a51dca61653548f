//! Evaluates paths as kubectl does: the values that the steps select.

use std::cmp::Ordering;

use super::{
    ast::{
        ComparisonOperator, Expression, FilterExpression, JsonPathError, Literal, PathStep, Slice,
    },
    json::{JsonValue, Scalar},
    print::{scalar_text, text_within},
};
use crate::fuel::{Fuel, OutOfFuel};

/// An evaluation and the fuel that it takes.
#[derive(Clone, Copy)]
pub(super) struct Evaluation<'f>(pub &'f Fuel);

impl Evaluation<'_> {
    /// The values that the steps select.
    pub fn steps<'v, T: JsonValue>(
        self,
        steps: &[PathStep],
        from: Vec<&'v T>,
    ) -> Result<Vec<&'v T>, JsonPathError> {
        let mut values = from;
        for step in steps {
            values = self.step(step, values)?;
        }
        Ok(values)
    }

    fn step<'v, T: JsonValue>(
        self,
        step: &PathStep,
        values: Vec<&'v T>,
    ) -> Result<Vec<&'v T>, JsonPathError> {
        let mut found = Vec::new();
        match step {
            PathStep::Field(key) => {
                for value in values {
                    self.0.take_text(key.len())?;
                    found.extend(value.member(key));
                }
            }
            PathStep::Wildcard => add(self.0, &mut found, values.into_iter().flat_map(children))?,
            PathStep::Recursive => {
                for value in values {
                    self.descend(value, &mut found)?;
                }
            }
            PathStep::BracketWildcard => {
                for value in values {
                    add(self.0, &mut found, self.list(value)?)?;
                }
            }
            PathStep::Slice(slice) => {
                for value in values {
                    add(self.0, &mut found, self.slice(slice, value)?)?;
                }
            }
            PathStep::Filter(filter) => {
                for value in values {
                    self.filter(filter, value, &mut found)?;
                }
            }
            PathStep::Union(branches) => {
                // One branch after the other, each for all values.
                for branch in branches {
                    self.0.take(values.len())?;
                    add(self.0, &mut found, self.steps(branch, values.clone())?)?;
                }
            }
        }
        Ok(found)
    }

    /// Every collection with something in it, itself included. Parsed JSON is at most 128 levels
    /// deep.
    fn descend<'v, T: JsonValue>(
        self,
        value: &'v T,
        found: &mut Vec<&'v T>,
    ) -> Result<(), OutOfFuel> {
        self.0.take(1)?;
        let mut inside = children(value).peekable();
        if inside.peek().is_none() {
            return Ok(());
        }
        add(self.0, found, [value])?;
        inside.try_for_each(|child| self.descend(child, found))
    }

    fn filter<'v, T: JsonValue>(
        self,
        filter: &FilterExpression,
        value: &'v T,
        found: &mut Vec<&'v T>,
    ) -> Result<(), JsonPathError> {
        for item in self.list(value)? {
            self.0.take(1)?;
            if self.passes(filter, item)? {
                add(self.0, found, [item])?;
            }
        }
        Ok(())
    }

    fn passes<T: JsonValue>(
        self,
        filter: &FilterExpression,
        item: &T,
    ) -> Result<bool, JsonPathError> {
        match filter {
            FilterExpression::Exists(Expression::Literal(_)) => Ok(true),
            FilterExpression::Exists(Expression::Path(steps)) => {
                match self.steps(steps, vec![item]) {
                    Ok(found) => Ok(!found.is_empty()),
                    Err(error @ JsonPathError::OutOfFuel(_)) => Err(error),
                    // Kubernetes counts the values before the step that failed as found.
                    Err(_) => Ok(true),
                }
            }
            FilterExpression::Compare(left, comparison, right) => {
                let (Some(left), Some(right)) =
                    (self.operand(left, item)?, self.operand(right, item)?)
                else {
                    return Ok(false);
                };
                self.compare(&left, *comparison, &right)
            }
        }
    }

    /// The value of one side of a comparison for one item; `None` if it is absent.
    fn operand<'v, T: JsonValue>(
        self,
        side: &'v Expression,
        item: &'v T,
    ) -> Result<Option<Operand<'v, T>>, JsonPathError> {
        let steps = match side {
            Expression::Literal(literal) => return Ok(Some(Operand::Scalar(literal.scalar()))),
            Expression::Path(steps) => steps,
        };
        match *self.steps(steps, vec![item])?.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(
                one.scalar()
                    .map_or(Operand::Collection(one), Operand::Scalar),
            )),
            _ => Err(JsonPathError::SeveralValues),
        }
    }

    fn compare<T: JsonValue>(
        self,
        left: &Operand<'_, T>,
        comparison: ComparisonOperator,
        right: &Operand<'_, T>,
    ) -> Result<bool, JsonPathError> {
        let incompatible = || match (self.operand_text(left), self.operand_text(right)) {
            (Ok(left), Ok(right)) => JsonPathError::Incompatible(left, right),
            (Err(error), _) | (_, Err(error)) => error.into(),
        };
        let (Operand::Scalar(first), Operand::Scalar(second)) = (left, right) else {
            return Err(incompatible());
        };
        if let (Scalar::Text(first), Scalar::Text(second)) = (first, second) {
            self.0.take_text(first.len().min(second.len()))?;
        }
        let order = match (first, second) {
            // Booleans are alike or not, but have no order.
            (Scalar::Flag(first), Scalar::Flag(second))
                if matches!(
                    comparison,
                    ComparisonOperator::Equal | ComparisonOperator::NotEqual
                ) =>
            {
                first.cmp(second)
            }
            _ => first.order(*second).ok_or_else(incompatible)?,
        };
        Ok(comparison.holds(order))
    }

    /// The text of an operand, for an error.
    fn operand_text<T: JsonValue>(self, operand: &Operand<'_, T>) -> Result<String, OutOfFuel> {
        match operand {
            Operand::Scalar(Scalar::Text(text)) => {
                self.0.take_text(text.len())?;
                Ok((*text).to_owned())
            }
            Operand::Scalar(scalar) => Ok(scalar_text(*scalar)),
            Operand::Collection(collection) => text_within(*collection, self.0),
        }
    }

    /// The items of a list; `null` has none.
    fn list<T: JsonValue>(self, value: &T) -> Result<&[T], JsonPathError> {
        match value.items() {
            Some(items) => Ok(items),
            None if value.scalar() == Some(Scalar::Null) => Ok(&[]),
            None => Err(JsonPathError::NoList(text_within(value, self.0)?)),
        }
    }

    /// As Kubernetes has it: an index or a slice beyond the list is an error, an empty slice is
    /// not.
    fn slice<'v, T: JsonValue>(
        self,
        slice: &Slice,
        value: &'v T,
    ) -> Result<impl Iterator<Item = &'v T> + use<'v, T>, JsonPathError> {
        let step = slice.step.unwrap_or(1);
        let nothing: &'v [T] = &[];
        if value.scalar() == Some(Scalar::Null) {
            return Ok(nothing.iter().step_by(step));
        }
        let items = self.list(value)?;
        let (start, end) = slice.bounds(items.len());
        if start == end {
            return Ok(nothing.iter().step_by(step));
        }
        let beyond = |index: i64| JsonPathError::OutOfBounds {
            index,
            length: items.len(),
        };
        let Some(start) = usize::try_from(start)
            .ok()
            .filter(|start| *start < items.len())
        else {
            return Err(beyond(start));
        };
        let Some(end) = usize::try_from(end).ok().filter(|end| *end <= items.len()) else {
            return Err(beyond(end.saturating_sub(1)));
        };
        let taken = items
            .get(start..end)
            .ok_or(JsonPathError::Backwards { start, end })?;
        Ok(taken.iter().step_by(step))
    }
}

/// One value that is compared.
enum Operand<'v, T> {
    Scalar(Scalar<'v>),
    Collection(&'v T),
}

impl ComparisonOperator {
    pub(super) fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order == Ordering::Equal,
            Self::NotEqual => order != Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterOrEqual => order != Ordering::Less,
        }
    }
}

impl Literal {
    pub(super) fn scalar(&self) -> Scalar<'_> {
        match self {
            Self::Text(text) => Scalar::Text(text),
            Self::Integer(number) => Scalar::Integer(*number),
            Self::Float(number) => Scalar::Float(*number),
            Self::Flag(flag) => Scalar::Flag(*flag),
        }
    }
}

/// Adds values to those that a step has found. One value may be reached on several ways.
pub(super) fn add<'v, T>(
    fuel: &Fuel,
    found: &mut Vec<&'v T>,
    more: impl IntoIterator<Item = &'v T>,
) -> Result<(), OutOfFuel> {
    for value in more {
        fuel.take(1)?;
        found.push(value);
    }
    Ok(())
}

pub(super) fn children<T: JsonValue>(value: &T) -> impl Iterator<Item = &T> {
    value
        .items()
        .unwrap_or_default()
        .iter()
        .chain(value.members().map(|(_, member)| member))
}
