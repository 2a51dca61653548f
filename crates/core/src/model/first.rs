//! Lists of which only the first elements are kept in memory.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, SeqAccess, Visitor},
};

/// The first `N` elements of a list, and the number of the others, so that a list takes no more
/// memory than its limit.
#[derive(Debug)]
pub struct First<T, const N: usize> {
    /// The first elements.
    pub first: Vec<T>,
    /// The number of the others.
    pub more: usize,
}

impl<T, const N: usize> Default for First<T, N> {
    fn default() -> Self {
        Self {
            first: Vec::new(),
            more: 0,
        }
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for First<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FirstVisitor(PhantomData))
    }
}

struct FirstVisitor<T, const N: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for FirstVisitor<T, N> {
    type Value = First<T, N>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list")
    }

    /// Go writes an empty list as `null`.
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(First::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut list = First::default();
        while list.first.len() < N {
            match sequence.next_element()? {
                Some(element) => list.first.push(element),
                None => return Ok(list),
            }
        }
        while sequence.next_element::<IgnoredAny>()?.is_some() {
            list.more += 1;
        }
        Ok(list)
    }
}
