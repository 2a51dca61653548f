//! One stored object: what it is found and ordered by, and its JSON, packed.

use std::{borrow::Cow, cmp::Ordering, collections::BTreeSet, io, sync::Arc};

use fleetdex_core::{
    model::{
        ClusterName, FieldPath, FieldType, Json, Leaves, Object, Version, sort_value, sorted_value,
        uuid,
    },
    query::{Hit, ResourceName, Sort, SortKey, merge::OrderKey},
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::{
    content::{Content, Identity, SEPARATOR},
    packed::{Dictionary, Packed, Packer, Unpacker},
    terms::{Vocabulary, Words, read_numbers, write_numbers},
};
use crate::{KindExtent, StoreError};

/// What all documents of one kind of one generation have in common.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) cluster: ClusterName,
    pub(super) resource: ResourceName,
    pub(super) api_version: Box<str>,
    pub(super) kind: Box<str>,
    /// What the ids begin with: `<apiVersion>/<kind>/`.
    pub(super) id_prefix: Box<str>,
    /// What the numbers of their terms stand for.
    pub(super) vocabulary: Arc<Vocabulary>,
}

/// One version of one object. Never changes, other than in how it is packed: the next version is another document.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) origin: Arc<Origin>,
    pub(super) version: Version,
    pub(super) identity: Identity,
    /// Tells one object from another. See [`Codec::fingerprint`](super::codec::Codec::fingerprint).
    pub(super) fingerprint: u64,
    /// Namespace and name, and then the numbers of the terms: one piece of memory instead of two.
    head: Box<[u8]>,
    /// Bytes of namespace and name.
    path_len: u32,
    /// Seconds since 1970, which is all that API servers tell; 0 where it is not known.
    created: u32,
    packed: Mutex<Packed>,
}

/// A UID, for comparing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Uid<'a> {
    Uuid([u8; 16]),
    Text(Cow<'a, str>),
}

/// What decides where a document stands in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) cluster: &'a str,
    pub(super) created: u32,
    pub(super) uid: Uid<'a>,
    pub(super) api_version: &'a str,
    /// What it sorts by besides; empty unless fields are among the keys of the order.
    pub(super) texts: Cow<'a, [Option<String>]>,
}

/// What a document sorts by, one text for each field of an order.
pub(super) type SortTexts = Box<[Option<String>]>;

impl Document {
    pub(super) fn new(origin: Arc<Origin>, content: Content) -> Self {
        let Content {
            version,
            identity,
            path,
            created,
            fingerprint,
            packed,
            terms,
        } = content;
        let path_len = u32::try_from(path.len()).unwrap_or_default();
        let mut head = path.into_bytes();
        write_numbers(&terms.take(), &mut head);
        let (head, created) = (head.into(), created.unwrap_or_default());
        Self {
            origin,
            version,
            identity,
            fingerprint,
            head,
            path_len,
            created,
            packed: Mutex::new(packed),
        }
    }

    /// The numbers of its terms, in ascending order.
    pub(super) fn terms(&self) -> impl Iterator<Item = u32> + '_ {
        read_numbers(self.head.get(self.path_len as usize..).unwrap_or_default())
    }

    pub(super) fn namespace(&self) -> &str {
        self.split().0
    }

    pub(super) fn name(&self) -> &str {
        self.split().1
    }

    fn split(&self) -> (&str, &str) {
        let path = self
            .head
            .get(..self.path_len as usize)
            .and_then(|path| str::from_utf8(path).ok())
            .unwrap_or_default();
        path.split_once(SEPARATOR).unwrap_or(("", path))
    }

    /// The id, as writes name it.
    pub(super) fn id(&self) -> Cow<'_, str> {
        match &self.identity {
            Identity::Uuid(bytes) => {
                format!("{}{}", self.origin.id_prefix, uuid::text(*bytes)).into()
            }
            Identity::Text(uid) => format!("{}{uid}", self.origin.id_prefix).into(),
            Identity::Apart(both) => Cow::Borrowed(&both.0),
        }
    }

    /// Whether this is the document with an id.
    pub(super) fn is(&self, id: &str) -> bool {
        let rest = || id.strip_prefix(&*self.origin.id_prefix);
        match &self.identity {
            Identity::Uuid(bytes) => rest().and_then(uuid::parse) == Some(*bytes),
            Identity::Text(uid) => rest() == Some(uid),
            Identity::Apart(both) => *both.0 == *id,
        }
    }

    pub(super) fn uid(&self) -> Cow<'_, str> {
        self.place().uid.into_text()
    }

    pub(super) fn place(&self) -> Place<'_> {
        let (namespace, name) = self.split();
        let uid = match &self.identity {
            Identity::Uuid(bytes) => Uid::Uuid(*bytes),
            Identity::Text(uid) => Uid::Text(Cow::Borrowed(uid)),
            Identity::Apart(both) => Uid::Text(Cow::Borrowed(&both.1)),
        };
        let origin = &*self.origin;
        let (cluster, created) = (origin.cluster.as_str(), self.created);
        Place {
            namespace,
            name,
            cluster,
            created,
            uid,
            api_version: &origin.api_version,
            texts: Cow::Borrowed(&[]),
        }
    }

    /// Whether it was created in these seconds, the second bound left out; one without a time never was.
    pub(super) fn is_created_in(&self, since: Option<i64>, before: Option<i64>) -> bool {
        let created = i64::from(self.created);
        created > 0
            && since.is_none_or(|since| created >= since)
            && before.is_none_or(|before| created < before)
    }

    /// What it sorts by, one text for each field among the keys of an order.
    pub(super) fn sort_keys(&self, sorts: &[Sort], words: &Words) -> SortTexts {
        let fields = sorts.iter().filter_map(|sort| match &sort.key {
            SortKey::Field(path, kind) => Some((path, *kind)),
            _ => None,
        });
        let text = |(path, kind): (&FieldPath, FieldType)| {
            let terms = self
                .terms()
                .filter_map(|number| words.term(number))
                .filter(|term| term.key() == path.as_str());
            let least = terms.map(|term| sort_value(kind, term.value())).min();
            least.filter(|text| kind.reads_without_sort_value() != Some(sorted_value(text)))
        };
        fields.map(text).collect()
    }

    /// Whether it belongs to one kind, in one namespace or in all.
    pub(super) fn is_of(&self, extent: &KindExtent) -> bool {
        let same_kind =
            *self.origin.api_version == *extent.api_version && *self.origin.kind == *extent.kind;
        same_kind
            && extent
                .namespace
                .as_ref()
                .is_none_or(|namespace| namespace.as_str() == self.namespace())
    }

    /// About how many bytes it takes.
    pub(super) fn footprint(&self) -> usize {
        size_of::<Self>() + self.head.len() + self.packed().len()
    }

    /// The bytes of the object as JSON; none if it cannot be read.
    pub(super) fn object_len(&self) -> usize {
        self.packed().object_len().unwrap_or_default()
    }

    /// The object as JSON.
    pub(super) fn object(&self, unpacker: &mut Unpacker) -> io::Result<Vec<u8>> {
        unpacker.unpack(&self.packed())
    }

    /// What some paths read in the object; nothing if it cannot be read, which nobody can then find by them.
    pub(super) fn leaves(
        &self,
        paths: &BTreeSet<FieldPath>,
        unpacker: &mut Unpacker,
    ) -> Vec<(String, String)> {
        let mut found = Wanted {
            paths,
            found: Vec::new(),
        };
        let json = self
            .object(unpacker)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok());
        match json.as_deref().map(Object::parse) {
            Some(Ok(object)) => {
                object.leaves(&self.origin.api_version, &self.origin.kind, &mut found);
            }
            _ => tracing::debug!(id = %self.id(), "a document cannot be looked into"),
        }
        found.found
    }

    /// The object as an answer holds it.
    pub(super) fn hit(&self, unpacker: &mut Unpacker) -> Result<Hit, StoreError> {
        let failed = |reason: String| {
            StoreError::Embedded(format!("document {} cannot be read: {reason}", self.id()))
        };
        let bytes = self
            .object(unpacker)
            .map_err(|error| failed(error.to_string()))?;
        let json = String::from_utf8(bytes).map_err(|error| failed(error.to_string()))?;
        Ok(Hit {
            cluster: self.origin.cluster.clone(),
            object: Json::known(json),
        })
    }

    /// Packs it with another dictionary, if it is not packed with that one already.
    pub(super) fn pack_again(
        &self,
        dictionary: &Arc<Dictionary>,
        packer: &mut Packer,
        unpacker: &mut Unpacker,
    ) -> io::Result<()> {
        if self.packed().is_packed_with(dictionary) {
            return Ok(());
        }
        let packed = packer.pack(Some(Arc::clone(dictionary)), &self.object(unpacker)?)?;
        *self.packed() = packed;
        Ok(())
    }

    /// Whether two documents of one id are the same.
    pub(super) fn equals(&self, version: Version, fingerprint: u64) -> bool {
        self.version == version && self.fingerprint == fingerprint
    }

    /// Held while it is unpacked, by which only those wait who read the same object.
    pub(super) fn packed(&self) -> MutexGuard<'_, Packed> {
        self.packed.lock()
    }
}

/// Takes the leaves at some paths.
struct Wanted<'p> {
    paths: &'p BTreeSet<FieldPath>,
    found: Vec<(String, String)>,
}

impl Leaves for Wanted<'_> {
    fn enters(&self, path: &str) -> bool {
        let is_at = |wanted: &FieldPath| {
            let rest = wanted.as_str().strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.paths.iter().any(is_at)
    }

    fn leaf(&mut self, path: &str, value: Cow<'_, str>) {
        if self.paths.iter().any(|wanted| wanted.as_str() == path) {
            self.found.push((path.to_owned(), value.into_owned()));
        }
    }
}

impl Drop for Document {
    fn drop(&mut self) {
        self.origin.vocabulary.forget(self.terms());
    }
}

impl<'a> Uid<'a> {
    fn into_text(self) -> Cow<'a, str> {
        match self {
            Self::Uuid(bytes) => uuid::text(bytes).into(),
            Self::Text(text) => text,
        }
    }

    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Uuid(bytes) => uuid::text(*bytes).into(),
            Self::Text(text) => Cow::Borrowed(text),
        }
    }
}

impl PartialOrd for Uid<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Uid<'_> {
    /// As the texts are ordered: those of two UUIDs are as their bytes.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Uuid(left), Self::Uuid(right)) => left.cmp(right),
            _ => self.text().cmp(&other.text()),
        }
    }
}

impl<'a> Place<'a> {
    /// The order of a query's answer: its keys, then what tells equal ones apart.
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

    /// A document without a time counts as the oldest, one without a value as the least. `field`: how many fields were among the keys before.
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

    /// What it sorts by in an answer of several stores.
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

    /// As a cursor holds it.
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

    /// What a cursor holds; nothing if it is none of this store.
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
            uid: uuid::parse(uid).map_or(Uid::Text(Cow::Borrowed(uid)), Uid::Uuid),
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
        let uid = |text: &'static str| uuid::parse(text).map_or(Uid::Text(text.into()), Uid::Uuid);
        for (left, right) in texts.iter().zip(&texts[1..]) {
            assert_eq!(uid(left).cmp(&uid(right)), Ordering::Less, "{left} {right}");
        }
    }
}
