//! Documents for tests of the log.

use std::sync::Arc;

use fleetdex_core::model::{IndexPrefix, Object, Projection, Projector, Resource};
use serde_json::Value;

use crate::{
    bulk::Write, codec::Codec, compressed::Compressor, compressed_document::compress_document,
    document::StoredDocument,
};

/// The document of an object of `member1`.
pub(crate) fn document(resource: &Resource, object: &Value) -> Arc<StoredDocument> {
    let json = object.to_string();
    let cluster = "member1".parse().unwrap();
    let projector = Projector::new(&cluster, resource, &Projection::default(), &[]);
    let document = projector
        .document(&Object::parse(&json).unwrap(), "2026-01-01T00:00:00Z")
        .unwrap();
    let index = IndexPrefix::default().write_alias(&cluster, 1);
    let write = Write { index, document };
    let compressed = compress_document(
        &write,
        write.document.body.as_ref().unwrap(),
        &Codec::default(),
        &Arc::default(),
        &mut Compressor::new(),
    )
    .unwrap();
    Arc::new(StoredDocument::new(
        Arc::new(compressed.origin),
        compressed.content,
    ))
}
