//! Merges the pages of several stores, each of which has a part of the objects in the same order.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Hit, Sort};

/// The value of an object for one sort key. An absent value sorts before every other one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrderKey {
    /// A time, in milliseconds since 1970.
    Time(i64),
    /// Any other value.
    Text(String),
}

impl OrderKey {
    /// The value of a text, absent if it is empty: an object without a namespace has none.
    pub fn of_text(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self::Text(text.to_owned()))
    }
}

/// An object of a page with its sort position.
#[derive(Clone, Debug)]
pub struct SortedHit {
    /// The object.
    pub hit: Hit,
    /// One value for each sort key, then cluster, UID and `apiVersion`. The same in every store.
    pub order: Vec<Option<OrderKey>>,
    /// [`Cursor::after`](super::Cursor::after) of the page that starts behind it, in the store that
    /// returned it.
    pub after: Vec<Value>,
}

/// One page of one store.
#[derive(Clone, Debug, Default)]
pub struct SortedPage {
    /// The objects, in order.
    pub items: Vec<SortedHit>,
    /// The open view that the page was read from.
    pub view: Option<String>,
    /// Whether more objects come after this page.
    pub more: bool,
    /// How many objects come after this page, where that is known.
    pub remaining: Option<u64>,
}

/// Where the next page of one store starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorePosition {
    /// The store.
    pub store: String,
    /// Its frozen view.
    pub view: String,
    /// The sort values of the object before it; empty: at the beginning.
    pub after: Vec<Value>,
    /// How many objects are left, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u64>,
}

/// How many objects of a page are in a merged page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenHits {
    /// How many objects.
    pub count: usize,
    /// [`SortedHit::after`] of the last one of them.
    pub after: Option<Vec<Value>>,
}

/// Merges the first `limit` objects of several pages, each with a flag whether more objects come
/// after it. Returns the objects, and how many are of each page. They are fewer if a page ends that
/// has more behind it, because the next object may be there.
pub fn merge(
    pages: Vec<(Vec<SortedHit>, bool)>,
    sorts: &[Sort],
    limit: usize,
) -> (Vec<Hit>, Vec<TakenHits>) {
    let mut taken = vec![TakenHits::default(); pages.len()];
    let mut pages: Vec<_> = pages
        .into_iter()
        .map(|(page, more)| (page.into_iter().peekable(), more))
        .collect();
    let mut merged = Vec::new();
    'objects: while merged.len() < limit {
        let mut first: Option<(usize, &SortedHit)> = None;
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
        let Some(SortedHit { hit, after, .. }) = pages[number].0.next() else {
            break;
        };
        taken[number] = TakenHits {
            count: taken[number].count + 1,
            after: Some(after),
        };
        merged.push(hit);
    }
    (merged, taken)
}

/// Compares the sort positions of two objects. The values behind the sort keys break ties.
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
    use crate::query::{HeldMemory, SortKey};

    fn placed(text: &str, number: i64) -> SortedHit {
        let object =
            serde_json::value::to_raw_value(&json!({ "metadata": { "name": text } })).unwrap();
        SortedHit {
            hit: Hit {
                interpretation: None,
                cluster: "member1".parse().unwrap(),
                object: object.into(),
                memory: HeldMemory::default(),
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
            let ordered = |mut page: Vec<SortedHit>| {
                page.sort_by(|left, right| compare(&left.order, &right.order, &sorts));
                page
            };
            let pages: Vec<Vec<SortedHit>> = parts
                .iter()
                .map(|part| ordered(part.iter().map(|(text, number)| placed(text, *number)).collect()))
                .collect();
            let whole = ordered(pages.concat());
            let (merged, taken) = merge(pages.into_iter().map(|page| (page, false)).collect(), &sorts, limit);
            let names = |hits: Vec<&Hit>| hits.iter().map(|hit| hit.object.get().to_owned()).collect::<Vec<_>>();
            prop_assert_eq!(names(merged.iter().collect()), names(whole.iter().take(limit).map(|placed| &placed.hit).collect()));
            prop_assert_eq!(taken.iter().map(|taken| taken.count).sum::<usize>(), merged.len());
        }

        /// Each page may have fewer objects than requested.
        #[test]
        fn pages_of_any_size_add_up_to_the_sorted_whole(
            parts in prop::collection::vec(prop::collection::vec(("[a-c]{0,2}", 0_i64..5), 0..8), 0..4),
            sizes in prop::collection::vec(1_usize..6, 1..9),
            limit in 1_usize..6,
        ) {
            let sorts = [Sort { key: SortKey::Name, descending: false }];
            let mut left: Vec<Vec<SortedHit>> = parts
                .iter()
                .map(|part| {
                    let mut page: Vec<SortedHit> = part.iter().map(|(text, number)| placed(text, *number)).collect();
                    page.sort_by(|left, right| compare(&left.order, &right.order, &sorts));
                    page
                })
                .collect();
            let mut whole = left.concat();
            whole.sort_by(|left, right| compare(&left.order, &right.order, &sorts));
            let mut sizes = sizes.iter().cycle();
            let mut found = Vec::new();
            while left.iter().any(|part| !part.is_empty()) {
                let page = |part: &Vec<SortedHit>| {
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
