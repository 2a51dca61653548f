//! Sort positions: where documents stand in the order of a list.

use std::{borrow::Cow, cmp::Ordering};

use fleetdex_core::{
    model::uuid,
    query::{Sort, SortKey, merge::OrderKey},
};
use serde_json::{Value, json};

/// A UID, for comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Uid<'a> {
    Uuid([u8; 16]),
    Text(&'a str),
}

/// What decides where a document stands in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SortPosition<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) cluster: &'a str,
    pub(super) created: u32,
    pub(super) uid: Uid<'a>,
    pub(super) api_version: &'a str,
    /// Sort texts; empty unless fields are among the keys of the order.
    pub(super) texts: Cow<'a, [Option<String>]>,
}

impl<'a> Uid<'a> {
    pub(super) fn text(&self) -> Cow<'a, str> {
        match self {
            Self::Uuid(bytes) => uuid::text(*bytes).into(),
            Self::Text(text) => Cow::Borrowed(*text),
        }
    }
}

impl PartialOrd for Uid<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Uid<'_> {
    /// Ordered as texts: two UUIDs are ordered as their bytes.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Uuid(left), Self::Uuid(right)) => left.cmp(right),
            _ => self.text().cmp(&other.text()),
        }
    }
}

impl<'a> SortPosition<'a> {
    /// The order of a list: its sort keys, then what distinguishes equal ones.
    pub(super) fn compare(&self, other: &Self, sorts: &[Sort]) -> Ordering {
        let mut order = Ordering::Equal;
        let mut field = 0;
        for sort in sorts {
            let ascending = self.compare_key(other, &sort.key, &mut field);
            order = order.then(if sort.descending {
                ascending.reverse()
            } else {
                ascending
            });
        }
        order
            .then_with(|| self.cluster.cmp(other.cluster))
            .then_with(|| self.uid.cmp(&other.uid))
            .then_with(|| self.api_version.cmp(other.api_version))
    }

    /// A document without a time counts as the oldest, one without a value as the least. `field`:
    /// how many fields were among the keys before.
    fn compare_key(&self, other: &Self, key: &SortKey, field: &mut usize) -> Ordering {
        match key {
            SortKey::Namespace => self.namespace.cmp(other.namespace),
            SortKey::Name => self.name.cmp(other.name),
            SortKey::Cluster => self.cluster.cmp(other.cluster),
            SortKey::CreationTimestamp => self.created.cmp(&other.created),
            SortKey::Field(..) => {
                let position = *field;
                *field += 1;
                self.text(position).cmp(&other.text(position))
            }
        }
    }

    fn text(&self, position: usize) -> Option<&str> {
        self.texts.get(position)?.as_deref()
    }

    /// Its sort keys in a list of several stores.
    pub(super) fn order(&self, sorts: &[Sort]) -> Vec<Option<OrderKey>> {
        let mut field = 0;
        let mut keys = Vec::with_capacity(sorts.len() + 3);
        for sort in sorts {
            keys.push(match &sort.key {
                SortKey::Namespace => OrderKey::of_text(self.namespace),
                SortKey::Name => OrderKey::of_text(self.name),
                SortKey::Cluster => OrderKey::of_text(self.cluster),
                SortKey::CreationTimestamp => {
                    (self.created > 0).then(|| OrderKey::Time(i64::from(self.created) * 1_000))
                }
                SortKey::Field(..) => {
                    field += 1;
                    self.text(field - 1)
                        .map(|text| OrderKey::Text(text.to_owned()))
                }
            });
        }
        keys.extend([
            OrderKey::of_text(self.cluster),
            OrderKey::of_text(&self.uid.text()),
            OrderKey::of_text(self.api_version),
        ]);
        keys
    }

    pub(super) fn to_cursor(&self) -> Vec<Value> {
        let uid = self.uid.text();
        let mut values = vec![
            json!(self.namespace),
            json!(self.name),
            json!(self.cluster),
            json!(self.created),
            json!(uid),
            json!(self.api_version),
        ];
        values.extend(self.texts.iter().map(|text| json!(text)));
        values
    }

    /// Reads the values of a cursor; `None` if it is not one of this store.
    pub(super) fn from_cursor(values: &'a [Value]) -> Option<Self> {
        let [
            namespace,
            name,
            cluster,
            created,
            uid,
            api_version,
            texts @ ..,
        ] = values
        else {
            return None;
        };
        let uid = uid.as_str()?;
        Some(Self {
            namespace: namespace.as_str()?,
            name: name.as_str()?,
            cluster: cluster.as_str()?,
            created: created.as_u64()?.try_into().ok()?,
            uid: uuid::parse(uid).map_or(Uid::Text(uid), Uid::Uuid),
            api_version: api_version.as_str()?,
            texts: texts
                .iter()
                .map(|text| text.as_str().map(str::to_owned))
                .collect::<Vec<_>>()
                .into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_ordered_as_their_texts() {
        let texts = [
            "",
            "0",
            "6f1c2e4a-0b3d-4c5e-8f70-123456789abc",
            "6f1c2e4a-0b3d-4c5e-8f70-123456789abd",
            "6f1c2e4b",
            "z",
        ];
        let uid = |text: &'static str| uuid::parse(text).map_or(Uid::Text(text), Uid::Uuid);
        for (left, right) in texts.iter().zip(&texts[1..]) {
            assert_eq!(uid(left).cmp(&uid(right)), Ordering::Less, "{left} {right}");
        }
    }
}
