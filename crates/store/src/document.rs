//! Stored documents: the terms and keys that an object is found and ordered by, and its packed
//! JSON.

use std::{borrow::Cow, collections::BTreeSet, io, sync::Arc};

use fleetdex_core::{
    model::{
        ClusterName, FieldPath, FieldType, Interpretation, Json, LeafVisitor, Object, Version,
        decode_sort_key, encode_sort_key, uuid,
    },
    query::{HeldMemory, Hit, ResourceName, Sort, SortKey},
};
use parking_lot::Mutex;

use super::{
    compressed::{Compressed, Compressor, Decompressor, Dictionary},
    content::{Content, DocumentIdentity, SEPARATOR},
    sort_position::{SortPosition, Uid},
    terms::{TermDictionary, TermTable, read_numbers, write_numbers},
};
use crate::{KindExtent, StoreError};

/// What all documents of one kind of one revision share.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) cluster: ClusterName,
    pub(super) resource: ResourceName,
    pub(super) api_version: Box<str>,
    pub(super) kind: Box<str>,
    /// Prefix of the ids: `<apiVersion>/<kind>/`.
    pub(super) id_prefix: Box<str>,
    /// The vocabulary of their term numbers.
    pub(super) vocabulary: Arc<TermDictionary>,
}

/// One version of one object. Only its packing ever changes: the next version is another document.
#[derive(Debug)]
pub(super) struct StoredDocument {
    pub(super) origin: Arc<Origin>,
    pub(super) version: Version,
    pub(super) identity: DocumentIdentity,
    /// Fingerprint of the object. See [`Codec::fingerprint`](super::codec::Codec::fingerprint).
    pub(super) fingerprint: u64,
    /// Namespace and name, followed by the term numbers: one allocation instead of two.
    head: Box<[u8]>,
    /// Bytes of namespace and name.
    path_len: u32,
    /// Seconds since 1970, the resolution of API servers; 0 where it is unknown.
    pub(super) created: u32,
    /// Locked while it is unpacked, which blocks only readers of the same object.
    pub(crate) packed: Mutex<Compressed>,
}

/// The sort texts of a document, one for each field of an order.
pub(super) type SortTexts = Box<[Option<String>]>;

impl StoredDocument {
    pub(super) fn new(origin: Arc<Origin>, content: Content) -> Self {
        let path_len = u32::try_from(content.path.len()).unwrap_or_default();
        let mut head = content.path.into_bytes();
        write_numbers(&content.terms.take(), &mut head);
        Self {
            origin,
            version: content.version,
            identity: content.identity,
            fingerprint: content.fingerprint,
            head: head.into(),
            path_len,
            created: content.created.unwrap_or_default(),
            packed: Mutex::new(content.packed),
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
            DocumentIdentity::Uuid(bytes) => {
                format!("{}{}", self.origin.id_prefix, uuid::text(*bytes)).into()
            }
            DocumentIdentity::Text(uid) => format!("{}{uid}", self.origin.id_prefix).into(),
            DocumentIdentity::Apart(both) => Cow::Borrowed(&both.0),
        }
    }

    /// Whether this is the document with an id.
    pub(super) fn is(&self, id: &str) -> bool {
        let rest = || id.strip_prefix(&*self.origin.id_prefix);
        match &self.identity {
            DocumentIdentity::Uuid(bytes) => rest().and_then(uuid::parse) == Some(*bytes),
            DocumentIdentity::Text(uid) => rest() == Some(uid),
            DocumentIdentity::Apart(both) => *both.0 == *id,
        }
    }

    pub(super) fn uid(&self) -> Cow<'_, str> {
        self.sort_position().uid.text()
    }

    pub(super) fn sort_position(&self) -> SortPosition<'_> {
        let (namespace, name) = self.split();
        let uid = match &self.identity {
            DocumentIdentity::Uuid(bytes) => Uid::Uuid(*bytes),
            DocumentIdentity::Text(uid) => Uid::Text(uid),
            DocumentIdentity::Apart(both) => Uid::Text(&both.1),
        };
        SortPosition {
            namespace,
            name,
            cluster: self.origin.cluster.as_str(),
            created: self.created,
            uid,
            api_version: &self.origin.api_version,
            texts: Cow::Borrowed(&[]),
        }
    }

    /// Whether it was created from `since` until before `before`, in seconds; false without a
    /// creation time.
    pub(super) fn is_created_in(&self, since: Option<i64>, before: Option<i64>) -> bool {
        let created = i64::from(self.created);
        created > 0
            && since.is_none_or(|since| created >= since)
            && before.is_none_or(|before| created < before)
    }

    /// Its sort texts, one for each field among the keys of an order.
    pub(super) fn sort_keys(&self, sorts: &[Sort], vocabulary: &TermTable) -> SortTexts {
        let fields = sorts.iter().filter_map(|sort| match &sort.key {
            SortKey::Field(path, kind) => Some((path, *kind)),
            _ => None,
        });
        let text = |(path, kind): (&FieldPath, FieldType)| {
            let terms = self
                .terms()
                .filter_map(|number| vocabulary.term(number))
                .filter(|term| term.key() == path.as_str());
            let least = terms.map(|term| encode_sort_key(kind, term.value())).min();
            least.filter(|text| kind.reads_without_sort_key() != Some(decode_sort_key(text)))
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
        size_of::<Self>() + self.head.len() + self.packed.lock().len()
    }

    /// The length of the object as JSON; 0 if it cannot be read.
    pub(super) fn object_len(&self) -> usize {
        self.packed.lock().object_len().unwrap_or_default()
    }

    pub(super) fn object(&self, decompressor: &mut Decompressor) -> io::Result<Vec<u8>> {
        decompressor.unpack(&self.packed.lock())
    }

    /// The values at some paths of the object; none if it cannot be read, so that it is not found
    /// by them.
    pub(super) fn leaves(
        &self,
        paths: &BTreeSet<FieldPath>,
        decompressor: &mut Decompressor,
    ) -> Vec<(String, String)> {
        let mut found = LeafCollector {
            paths,
            found: Vec::new(),
        };
        let json = self
            .object(decompressor)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok());
        match json.as_deref().map(Object::parse) {
            Some(Ok(object)) => {
                object.leaves(&self.origin.api_version, &self.origin.kind, &mut found);
            }
            _ => tracing::debug!(id = %self.id(), "cannot read the object of a document"),
        }
        found.found
    }

    /// The object as a query returns it.
    pub(super) fn hit(&self, decompressor: &mut Decompressor) -> Result<Hit, StoreError> {
        let failed = |reason: String| {
            StoreError::Embedded(format!("document {} cannot be read: {reason}", self.id()))
        };
        let bytes = self
            .object(decompressor)
            .map_err(|error| failed(error.to_string()))?;
        let json = String::from_utf8(bytes).map_err(|error| failed(error.to_string()))?;
        Ok(Hit {
            cluster: self.origin.cluster.clone(),
            object: Json::known(json),
            interpretation: self.interpretation().map(Box::new),
            memory: HeldMemory::default(),
        })
    }

    /// What the object means, as its terms say.
    fn interpretation(&self) -> Option<Interpretation> {
        let vocabulary = self.origin.vocabulary.read();
        let terms = self.terms().filter_map(|number| vocabulary.term(number));
        Interpretation::from_terms(terms.map(|term| (term.key(), term.value())))
    }

    /// Packs it with another dictionary, unless it is packed with that one already.
    pub(super) fn compress_again(
        &self,
        dictionary: &Arc<Dictionary>,
        compressor: &mut Compressor,
        decompressor: &mut Decompressor,
    ) -> io::Result<()> {
        if self.packed.lock().is_packed_with(dictionary) {
            return Ok(());
        }
        let packed = compressor.pack(Some(Arc::clone(dictionary)), &self.object(decompressor)?)?;
        *self.packed.lock() = packed;
        Ok(())
    }

    /// Whether a document of the same id is the same.
    pub(super) fn equals(&self, version: Version, fingerprint: u64) -> bool {
        self.version == version && self.fingerprint == fingerprint
    }
}

/// Collects the leaves at some paths.
struct LeafCollector<'p> {
    paths: &'p BTreeSet<FieldPath>,
    found: Vec<(String, String)>,
}

impl LeafVisitor for LeafCollector<'_> {
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

impl Drop for StoredDocument {
    fn drop(&mut self) {
        self.origin.vocabulary.release(self.terms());
    }
}
