//! Objects of events.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use fleetdex_core::{
    model::{ClusterName, FleetVersion, with_fleet_version},
    query::{Hit, ResourceName},
};

use crate::{StoreError, compressed::Decompressor, document::StoredDocument};

/// The object of an event. All watches that get the event share it. It is unpacked for the first
/// watch that sends it, which reserves memory before, so that events that are not sent yet are
/// small.
pub struct EventObject {
    document: Arc<StoredDocument>,
    /// The fleet version of the event.
    version: FleetVersion,
    hit: OnceLock<Hit>,
    versioned: OnceLock<Hit>,
}

impl fmt::Debug for EventObject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "EventObject({})", self.document.id())
    }
}

impl EventObject {
    pub(super) fn new(document: Arc<StoredDocument>, version: FleetVersion) -> Self {
        Self {
            document,
            version,
            hit: OnceLock::new(),
            versioned: OnceLock::new(),
        }
    }

    /// Its cluster.
    pub fn cluster(&self) -> &ClusterName {
        &self.document.origin.cluster
    }

    /// Its resource.
    pub fn resource(&self) -> &ResourceName {
        &self.document.origin.resource
    }

    /// The fleet version of the event.
    pub fn version(&self) -> FleetVersion {
        self.version
    }

    /// The object as it is stored.
    pub fn hit(&self) -> Result<&Hit, StoreError> {
        if let Some(hit) = self.hit.get() {
            return Ok(hit);
        }
        let hit = self.document.hit(&mut Decompressor::new())?;
        Ok(self.hit.get_or_init(|| hit))
    }

    /// The object with the fleet version as its resourceVersion; made for the first watch that
    /// needs it.
    pub fn versioned(&self) -> Result<&Hit, StoreError> {
        let hit = self.hit()?;
        Ok(self.versioned.get_or_init(|| Hit {
            object: with_fleet_version(&hit.object, self.version),
            ..hit.clone()
        }))
    }

    /// The length of its text.
    pub fn json_len(&self) -> usize {
        self.document.object_len()
    }

    /// About how many bytes it takes when it is unpacked.
    pub(super) fn bytes(&self) -> usize {
        2 * self.json_len()
    }
}
