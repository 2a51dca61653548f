//! Documents for tests of the log.

use std::sync::Arc;

use fleetdex_core::model::{IndexPrefix, Object, Projection, Projector, Resource};
use serde_json::Value;

use crate::{bulk::Write, codec::Codec, document::Document, draft::draft, packed::Packer};

/// The document of an object of `member1`.
pub(crate) fn document(resource: &Resource, object: &Value) -> Arc<Document> {
    let json = object.to_string();
    let cluster = "member1".parse().unwrap();
    let projector = Projector::new(&cluster, resource, &Projection::default(), &[]);
    let document = projector
        .document(
            &Object::parse(&json).unwrap(),
            &json,
            "2026-01-01T00:00:00Z",
        )
        .unwrap();
    let index = IndexPrefix::default().write_alias(&cluster, 1);
    let write = Write {
        index,
        id: document.id,
        version: document.version,
        body: Some(document.body),
    };
    let draft = draft(
        &write,
        write.body.as_ref().unwrap(),
        &Codec::default(),
        &Arc::default(),
        &mut Packer::new(),
    )
    .unwrap();
    Arc::new(Document::new(Arc::new(draft.origin), draft.content))
}
