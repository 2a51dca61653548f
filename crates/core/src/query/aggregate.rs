//! Counting objects in groups: what is asked, and what every store has to answer.

use std::collections::HashMap;

use super::{Query, QueryError, Searchable, selectable::Ordered};
use crate::model::{FieldPath, FieldType, sort_value, sorted_value};

/// Keys of one question at most: each label among them doubles what OpenSearch is asked.
pub const MAX_KEYS: usize = 4;

/// Groups of one answer at most, before the largest are taken: some 100 bytes each here, and a dozen requests to OpenSearch.
pub const MAX_GROUPS: usize = 100_000;

/// What objects are grouped by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupKey {
    /// The member.
    Cluster,
    /// `metadata.namespace`
    Namespace,
    /// The value of a label.
    Label(String),
    /// What a selectable field reads; of several values the least.
    Field(FieldPath),
}

/// The objects that are alike by all keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// One value for each key; nothing where the objects have none.
    pub values: Vec<Option<String>>,
    /// How many objects there are.
    pub count: u64,
}

/// An answer: the largest groups first, then by their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// The groups.
    pub groups: Vec<Group>,
    /// Objects in all groups.
    pub total: u64,
    /// Objects in groups that are not shown.
    pub others: u64,
}

/// A group key, as a store reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grouped {
    /// The member.
    Cluster,
    /// The value of a label.
    Label(String),
    /// A field.
    Ordered(Ordered),
}

/// How many objects each group has, while they are counted.
#[derive(Debug, Default)]
pub struct Tally(HashMap<Vec<Option<String>>, u64>);

impl Tally {
    /// Adds objects to a group.
    pub fn add(&mut self, values: Vec<Option<String>>, count: u64) -> Result<(), QueryError> {
        *self.0.entry(values).or_default() += count;
        if self.0.len() > MAX_GROUPS {
            return Err(QueryError::TooLarge {
                what: "groups",
                found: self.0.len(),
                limit: MAX_GROUPS,
            });
        }
        Ok(())
    }

    /// The answer with the `top` largest groups.
    pub fn largest(self, top: usize) -> Groups {
        let total = self.0.values().sum();
        let mut groups: Vec<Group> = self
            .0
            .into_iter()
            .map(|(values, count)| Group { values, count })
            .collect();
        groups.sort_unstable_by(|left, right| {
            right
                .count
                .cmp(&left.count)
                .then_with(|| left.values.cmp(&right.values))
        });
        groups.truncate(top);
        let shown: u64 = groups.iter().map(|group| group.count).sum();
        Groups {
            groups,
            total,
            others: total - shown,
        }
    }
}

/// The keys, as stores read them; refused where a field is not selectable, or where there are too many.
pub fn grouped(query: &Query, by: &[GroupKey]) -> Result<Vec<Grouped>, QueryError> {
    if by.len() > MAX_KEYS {
        return Err(QueryError::TooLarge {
            what: "keys to group by",
            found: by.len(),
            limit: MAX_KEYS,
        });
    }
    let read = |key: &GroupKey| match key {
        GroupKey::Cluster => Ok(Grouped::Cluster),
        GroupKey::Namespace => Ok(Grouped::Ordered(Ordered::Namespace)),
        GroupKey::Label(label) => Ok(Grouped::Label(label.clone())),
        GroupKey::Field(path) => Ok(Grouped::Ordered(query.selectable.ordered(path.as_str())?)),
    };
    by.iter().map(read).collect()
}

/// The answer over some objects: the meaning that every store has to keep.
pub fn aggregate<'o, S: Searchable + 'o>(
    objects: impl IntoIterator<Item = &'o S>,
    query: &Query,
    by: &[GroupKey],
    top: usize,
) -> Result<Groups, QueryError> {
    query.check()?;
    let keys = grouped(query, by)?;
    let mut tally = Tally::default();
    for object in objects.into_iter().filter(|object| query.matches(*object)) {
        tally.add(keys.iter().map(|key| key.value(object)).collect(), 1)?;
    }
    Ok(tally.largest(top))
}

impl Grouped {
    fn value(&self, object: &impl Searchable) -> Option<String> {
        let text = |text: &str| Some(text.to_owned());
        match self {
            Self::Cluster => text(object.cluster()),
            Self::Label(key) => object.label(key).map(str::to_owned),
            Self::Ordered(Ordered::Always(value)) => text(value),
            Self::Ordered(Ordered::Name) => text(object.name()),
            Self::Ordered(Ordered::Namespace) => {
                text(object.namespace()).filter(|namespace| !namespace.is_empty())
            }
            Self::Ordered(Ordered::Field(path, kind)) => {
                let read = object
                    .field(path.as_str())
                    .filter(|value| *kind != FieldType::Optional || !value.is_empty());
                let value = read.map(|value| sorted_value(&sort_value(*kind, &value)).to_owned());
                value.or_else(|| (*kind != FieldType::Optional).then(|| kind.absent().to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_groups_come_first_and_the_rest_is_counted() {
        let mut tally = Tally::default();
        for (value, count) in [("a", 2), ("b", 5), ("c", 2), ("d", 1)] {
            tally.add(vec![Some(value.to_owned())], count).unwrap();
        }
        tally.add(vec![None], 2).unwrap();
        let answer = tally.largest(3);
        let shown: Vec<(Option<&str>, u64)> = answer
            .groups
            .iter()
            .map(|group| (group.values[0].as_deref(), group.count))
            .collect();
        assert_eq!(shown, [(Some("b"), 5), (None, 2), (Some("a"), 2)]);
        assert_eq!((answer.total, answer.others), (12, 3));
    }

    #[test]
    fn more_groups_than_one_answer_holds_are_refused() {
        let mut tally = Tally::default();
        let filled =
            (0..=MAX_GROUPS).try_for_each(|number| tally.add(vec![Some(number.to_string())], 1));
        assert!(
            filled
                .unwrap_err()
                .to_string()
                .contains("100001 groups, and at most 100000")
        );
    }
}
