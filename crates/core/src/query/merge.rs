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

/// Takes the first `limit` objects of several pages, each with whether more objects come after it. Gives them, and how much of each page they are. They
/// are fewer where a page of fewer ends: what comes after it may be next.
pub fn merge(
    pages: Vec<(Vec<Placed>, bool)>,
    sorts: &[Sort],
    limit: usize,
) -> (Vec<Hit>, Vec<Taken>) {
    let mut taken = vec![Taken::default(); pages.len()];
    let mut pages: Vec<_> = pages
        .into_iter()
        .map(|(page, more)| (page.into_iter().peekable(), more))
        .collect();
    let mut merged = Vec::new();
    'objects: while merged.len() < limit {
        let mut first: Option<(usize, &Placed)> = None;
        for (number, (page, more)) in pages.iter_mut().enumerate() {
            let Some(head) = page.peek() else {
                if *more {
                    break 'objects;
                }
                continue;
            };
            if first.is_none_or(|(_, known)| {
                compare(&head.order, &known.order, sorts) == Ordering::Less
            }) {
                first = Some((number, head));
            }
        }
        let Some(number) = first.map(|(number, _)| number) else {
            break;
        };
        let Some(Placed { hit, after, .. }) = pages[number].0.next() else {
            break;
        };
        taken[number] = Taken {
            count: taken[number].count + 1,
            after: Some(after),
        };
        merged.push(hit);
    }
    (merged, taken)
}

/// The order of an answer. What stands behind the keys of the order tells equal objects apart.
pub fn compare(left: &[Option<OrderKey>], right: &[Option<OrderKey>], sorts: &[Sort]) -> Ordering {
    let pairs = left.iter().zip(right).enumerate();
    let orders = pairs.map(|(position, (left, right))| {
        let is_descending = sorts.get(position).is_some_and(|sort| sort.descending);
        if is_descending {
            right.cmp(left)
        } else {
            left.cmp(right)
        }
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
        let object =
            serde_json::value::to_raw_value(&json!({ "metadata": { "name": text } })).unwrap();
        Placed {
            hit: Hit {
                cluster: "member1".parse().unwrap(),
                object: object.into(),
            },
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
            let (merged, taken) = merge(pages.into_iter().map(|page| (page, false)).collect(), &sorts, limit);
            let names = |hits: Vec<&Hit>| hits.iter().map(|hit| hit.object.get().to_owned()).collect::<Vec<_>>();
            prop_assert_eq!(names(merged.iter().collect()), names(whole.iter().take(limit).map(|placed| &placed.hit).collect()));
            prop_assert_eq!(taken.iter().map(|taken| taken.count).sum::<usize>(), merged.len());
        }

        /// Pages may have fewer objects than were asked for, each as it comes.
        #[test]
        fn pages_of_any_size_add_up_to_the_sorted_whole(
            parts in prop::collection::vec(prop::collection::vec(("[a-c]{0,2}", 0_i64..5), 0..8), 0..4),
            sizes in prop::collection::vec(1_usize..6, 1..9),
            limit in 1_usize..6,
        ) {
            let sorts = [Sort { key: SortKey::Name, descending: false }];
            let mut left: Vec<Vec<Placed>> = parts
                .iter()
                .map(|part| {
                    let mut page: Vec<Placed> = part.iter().map(|(text, number)| placed(text, *number)).collect();
                    page.sort_by(|left, right| compare(&left.order, &right.order, &sorts));
                    page
                })
                .collect();
            let mut whole = left.concat();
            whole.sort_by(|left, right| compare(&left.order, &right.order, &sorts));
            let mut sizes = sizes.iter().cycle();
            let mut found = Vec::new();
            while left.iter().any(|part| !part.is_empty()) {
                let page = |part: &Vec<Placed>| {
                    let size = sizes.next().map_or(1, |size| *size).min(limit).min(part.len());
                    (part[..size].to_vec(), size < part.len())
                };
                let (merged, taken) = merge(left.iter().map(page).collect(), &sorts, limit);
                prop_assert!(!merged.is_empty());
                found.extend(merged);
                for (part, taken) in left.iter_mut().zip(taken) {
                    part.drain(..taken.count);
                }
            }
            let names = |hits: Vec<&Hit>| hits.iter().map(|hit| hit.object.get().to_owned()).collect::<Vec<_>>();
            prop_assert_eq!(names(found.iter().collect()), names(whole.iter().map(|placed| &placed.hit).collect()));
        }
    }
}
