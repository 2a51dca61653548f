//! Aggregations: counts of objects by group.

use std::collections::HashMap;

use super::{Query, QueryError, selectable::SortField};
use crate::model::FieldPath;

/// Keys of one aggregation at most: each label among them doubles the requests to OpenSearch.
pub const MAX_KEYS: usize = 4;

/// Groups of one aggregation at most, before the largest are selected: each takes some 100 bytes
/// here, all of them a dozen requests to OpenSearch.
pub const MAX_GROUPS: usize = 100_000;

/// A key that objects are grouped by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupKey {
    /// The member.
    Cluster,
    /// `metadata.namespace`
    Namespace,
    /// The value of a label.
    Label(String),
    /// The value of a selectable field; of several values the least.
    Field(FieldPath),
}

/// The objects with the same values of all keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// One value for each key; `None` if the objects have none.
    pub values: Vec<Option<String>>,
    /// How many objects there are.
    pub count: u64,
}

/// The result of an aggregation: the largest groups first, then by their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// The groups.
    pub groups: Vec<Group>,
    /// Objects in all groups.
    pub total: u64,
    /// Objects in the groups beyond the largest.
    pub others: u64,
}

/// A group key with its field resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedGroupKey {
    /// The member.
    Cluster,
    /// The value of a label.
    Label(String),
    /// A field.
    SortField(SortField),
}

/// The number of objects of each group, while they are counted.
#[derive(Debug, Default)]
pub struct GroupCounts(HashMap<Vec<Option<String>>, u64>);

impl GroupCounts {
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

    /// The result with the `top` largest groups.
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

/// Resolves group keys. Refuses a field that is not selectable, and too many keys.
pub fn resolve_group_keys(
    query: &Query,
    by: &[GroupKey],
) -> Result<Vec<ResolvedGroupKey>, QueryError> {
    if by.len() > MAX_KEYS {
        return Err(QueryError::TooLarge {
            what: "keys to group by",
            found: by.len(),
            limit: MAX_KEYS,
        });
    }
    let read = |key: &GroupKey| match key {
        GroupKey::Cluster => Ok(ResolvedGroupKey::Cluster),
        GroupKey::Namespace => Ok(ResolvedGroupKey::SortField(SortField::Namespace)),
        GroupKey::Label(label) => Ok(ResolvedGroupKey::Label(label.clone())),
        GroupKey::Field(path) => Ok(ResolvedGroupKey::SortField(
            query.selectable.sort_field(path.as_str())?,
        )),
    };
    by.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_groups_come_first_and_the_rest_is_counted() {
        let mut counts = GroupCounts::default();
        for (value, count) in [("a", 2), ("b", 5), ("c", 2), ("d", 1)] {
            counts.add(vec![Some(value.to_owned())], count).unwrap();
        }
        counts.add(vec![None], 2).unwrap();
        let result = counts.largest(3);
        let shown: Vec<(Option<&str>, u64)> = result
            .groups
            .iter()
            .map(|group| (group.values[0].as_deref(), group.count))
            .collect();
        assert_eq!(shown, [(Some("b"), 5), (None, 2), (Some("a"), 2)]);
        assert_eq!((result.total, result.others), (12, 3));
    }

    #[test]
    fn too_many_groups_are_refused() {
        let mut counts = GroupCounts::default();
        let filled =
            (0..=MAX_GROUPS).try_for_each(|number| counts.add(vec![Some(number.to_string())], 1));
        assert!(
            filled
                .unwrap_err()
                .to_string()
                .contains("100001 groups, and at most 100000")
        );
    }
}
