//! Answers that several stores give together: each has a part of the objects, in the same order.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Hit, Sort};

/// What an object sorts by, for one key of the order. An absent value comes before every other one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrderKey {
    /// A time, in milliseconds since 1970.
    Time(i64),
    /// Any other value.
    Text(String),
}

impl OrderKey {
    /// The key of a text, which counts as absent if it is empty: an object without a namespace has none.
    pub fn of_text(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self::Text(text.to_owned()))
    }
}

/// An object of a page, and where it stands in the answer.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The object.
    pub hit: Hit,
    /// One value for each key of the order, then cluster, UID and `apiVersion`. The same in every store.
    pub order: Vec<Option<OrderKey>>,
    /// [`Cursor::after`](super::Cursor::after) of a page that goes on behind it, in the store that gave it.
    pub after: Vec<Value>,
}

/// One page of the part that one store has of an answer.
#[derive(Clone, Debug, Default)]
pub struct PlacedPage {
    /// The objects, in order.
    pub items: Vec<Placed>,
    /// The view that it was read from. It stays open.
    pub view: Option<String>,
    /// Whether more objects come after this page.
    pub more: bool,
    /// How many objects come after this page, where that is known.
    pub remaining: Option<u64>,
}

/// Where the next page of one store begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The store.
    pub store: String,
    /// Its frozen view.
    pub view: String,
    /// Behind the object with these sort values; empty: at the beginning.
    pub after: Vec<Value>,
    /// How many objects are left, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u64>,
}

/// How much of a page is part of a merged one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// How many objects.
    pub count: usize,
    /// [`Placed::after`] of the last one of them.
    pub after: Option<Vec<Value>>,
}

/// Takes the first `limit` objects of several pages. Gives them, and how much of each page they are.
pub fn merge(pages: Vec<Vec<Placed>>, sorts: &[Sort], limit: usize) -> (Vec<Hit>, Vec<Taken>) {
    let mut taken = vec![Taken::default(); pages.len()];
    let mut pages: Vec<_> = pages.into_iter().map(|page| page.into_iter().peekable()).collect();
    let mut merged = Vec::new();
    while merged.len() < limit {
        let mut first: Option<(usize, &Placed)> = None;
        for (number, page) in pages.iter_mut().enumerate() {
            let Some(head) = page.peek() else { continue };
            if first.is_none_or(|(_, known)| compare(&head.order, &known.order, sorts) == Ordering::Less) {
                first = Some((number, head));
            }
        }
        let Some(number) = first.map(|(number, _)| number) else { break };
        let Some(Placed { hit, after, .. }) = pages[number].next() else { break };
        taken[number] = Taken { count: taken[number].count + 1, after: Some(after) };
        merged.push(hit);
    }
    (merged, taken)
}

/// The order of an answer. What stands behind the keys of the order tells equal objects apart.
pub fn compare(left: &[Option<OrderKey>], right: &[Option<OrderKey>], sorts: &[Sort]) -> Ordering {
    let pairs = left.iter().zip(right).enumerate();
    let orders = pairs.map(|(position, (left, right))| {
        let is_descending = sorts.get(position).is_some_and(|sort| sort.descending);
        if is_descending { right.cmp(left) } else { left.cmp(right) }
    });
    orders.fold(Ordering::Equal, Ordering::then)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::query::SortKey;

    fn placed(text: &str, number: i64) -> Placed {
        let object = serde_json::value::to_raw_value(&json!({ "metadata": { "name": text } })).unwrap();
        Placed {
            hit: Hit { cluster: "member1".parse().unwrap(), object: object.into() },
            order: vec![OrderKey::of_text(text), Some(OrderKey::Time(number))],
            after: Vec::new(),
        }
    }

    proptest! {
        #[test]
        fn merged_pages_are_the_sorted_whole(
            parts in prop::collection::vec(prop::collection::vec(("[a-c]{0,2}", 0_i64..5), 0..8), 0..4),
            descending: bool,
            limit in 0_usize..20,
        ) {
            let sorts = [Sort { key: SortKey::Name, descending }];
            let ordered = |mut page: Vec<Placed>| {
                page.sort_by(|left, right| compare(&left.order, &right.order, &sorts));
                page
            };
            let pages: Vec<Vec<Placed>> = parts
                .iter()
                .map(|part| ordered(part.iter().map(|(text, number)| placed(text, *number)).collect()))
                .collect();
            let whole = ordered(pages.concat());
            let (merged, taken) = merge(pages, &sorts, limit);
            let names = |hits: Vec<&Hit>| hits.iter().map(|hit| hit.object.get().to_owned()).collect::<Vec<_>>();
            prop_assert_eq!(names(merged.iter().collect()), names(whole.iter().take(limit).map(|placed| &placed.hit).collect()));
            prop_assert_eq!(taken.iter().map(|taken| taken.count).sum::<usize>(), merged.len());
        }
    }
}
