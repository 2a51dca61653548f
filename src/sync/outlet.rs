//! Where the objects of a unit go, which of them, and as what.

use std::{borrow::Cow, sync::Arc};

use super::progress::Progress;
use crate::{
    bulk::Write,
    model::{IndexName, Object, Projector, Version},
    pipeline::Pipeline,
    registry::filter::ObjectFilter,
};

/// Where the objects of a unit go.
#[derive(Clone)]
pub struct Outlet {
    /// The writer of the store.
    pub pipeline: Pipeline,
    /// Makes the documents.
    pub projector: Projector,
    /// An object is wanted when any of these wants it.
    pub filters: Vec<ObjectFilter>,
}

/// Whether a write may wait for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A list is read no faster than the store takes it.
    ForRoom,
    /// A watch that is not read is closed by the apiserver: its events are taken as they come.
    Never,
}

impl Outlet {
    /// Whether a document should be made of an object.
    pub fn wants(&self, object: &Object<'_>) -> bool {
        let mut values = None;
        self.filters.iter().any(|filter| {
            if filter.wants_everything() {
                return true;
            }
            let values = values.get_or_insert_with(|| self.projector.field_values(object));
            let field = |path: &str| match path {
                "metadata.name" => Some(Cow::Owned(object.name().to_owned())),
                "metadata.namespace" => object.namespace().map(|namespace| Cow::Owned(namespace.to_owned())),
                _ => {
                    let position = self.projector.fields().iter().position(|field| field.path.as_str() == path)?;
                    values.get(position).map(|value| Cow::Owned(value.to_owned()))
                }
            };
            filter.wants(object.namespace(), |key| object.label(key), field)
        })
    }

    /// Whether what an object's metadata says is enough to tell whether it is wanted.
    pub fn decides_by_metadata(&self) -> bool {
        self.filters.iter().all(ObjectFilter::decides_by_metadata)
    }

    /// Hands a change over to the writer.
    pub async fn send(&self, progress: &Arc<Progress>, write: Write, wait: Wait) {
        if wait == Wait::ForRoom {
            self.pipeline.room().await;
        }
        let room = self.pipeline.room_for_large(&write).await;
        self.pipeline.submit(write, progress.ticket().keeping(room));
    }

    /// Deletes a document.
    pub async fn delete(&self, progress: &Arc<Progress>, target: &IndexName, id: Arc<str>, version: Version, wait: Wait) {
        let write = Write { index: target.clone(), id, version, body: None };
        self.send(progress, write, wait).await;
    }
}
