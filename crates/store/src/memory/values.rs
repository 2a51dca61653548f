//! The values that objects of the embedded store have of some properties.

use std::borrow::Cow;

use fleetdex_core::query::{ValueCounts, ValueField, ValuePrefix, ValuesQuery, values::MAX_VALUES};
use roaring::RoaringBitmap;

use super::{running_query::RunningQuery, table::DocumentTable};
use crate::{
    StoreError,
    terms::{NAMESPACE, TermTable, label_key, label_of},
};

impl RunningQuery {
    pub(super) fn frequent_values(
        &self,
        values: &ValuesQuery,
    ) -> Result<Vec<ValueCounts>, StoreError> {
        let mut counts = vec![ValueCounts::default(); values.prefixes.len()];
        self.for_each_searched_table(&values.queries, |table, selection| {
            let found = table.find(selection);
            if found.is_empty() {
                return;
            }
            let vocabulary = table.vocabulary.read();
            for (prefix, counts) in values.prefixes.iter().zip(&mut counts) {
                count(table, &vocabulary, &found, prefix, counts);
            }
        })?;
        Ok(counts.into_iter().map(most_frequent).collect())
    }
}

/// Adds how many of the found documents have each value.
fn count(
    table: &DocumentTable,
    vocabulary: &TermTable,
    found: &RoaringBitmap,
    prefix: &ValuePrefix,
    counts: &mut ValueCounts,
) {
    let key = match &prefix.field {
        ValueField::Namespace => Cow::Borrowed(NAMESPACE),
        ValueField::Label(key) => label_key(key),
        ValueField::Reason => Cow::Borrowed("healthReason"),
        ValueField::Image => Cow::Borrowed("image"),
        ValueField::LabelKey => return count_label_keys(table, vocabulary, found, prefix, counts),
    };
    table
        .postings
        .for_each_value(vocabulary, &key, |value, positions| {
            let count = positions.count_in(found);
            if count > 0 && prefix.matches(value) {
                counts.add(value, count);
            }
        });
}

fn count_label_keys(
    table: &DocumentTable,
    vocabulary: &TermTable,
    found: &RoaringBitmap,
    prefix: &ValuePrefix,
    counts: &mut ValueCounts,
) {
    for key in table.postings.keys() {
        let Some(label) = label_of(key).filter(|label| prefix.matches(label)) else {
            continue;
        };
        let mut count = 0;
        // A document has one value of a label.
        table
            .postings
            .for_each_value(vocabulary, key, |_, positions| {
                count += positions.count_in(found);
            });
        if count > 0 {
            counts.add(label, count);
        }
    }
}

fn most_frequent(all: ValueCounts) -> ValueCounts {
    let mut counts = ValueCounts::default();
    for (value, count) in all.most_frequent(MAX_VALUES) {
        counts.add(&value, count);
    }
    counts
}
