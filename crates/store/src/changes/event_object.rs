//! Objects of events.

use std::{ops::Deref, sync::OnceLock};

use fleetdex_core::{
    model::{FleetVersion, with_fleet_version},
    query::{Hit, ResourceName},
};

/// The object of an event, as it is stored. All watches that get the event share it.
#[derive(Debug)]
pub struct EventObject {
    hit: Hit,
    resource: ResourceName,
    /// The fleet version of the event.
    version: FleetVersion,
    versioned: OnceLock<Hit>,
}

impl Deref for EventObject {
    type Target = Hit;

    fn deref(&self) -> &Hit {
        &self.hit
    }
}

impl EventObject {
    pub(super) fn new(hit: Hit, resource: ResourceName, version: FleetVersion) -> Self {
        Self {
            hit,
            resource,
            version,
            versioned: OnceLock::new(),
        }
    }

    /// Its resource.
    pub fn resource(&self) -> &ResourceName {
        &self.resource
    }

    /// The fleet version of the event.
    pub fn version(&self) -> FleetVersion {
        self.version
    }

    /// The object with the fleet version as its resourceVersion; made for the first watch that
    /// needs it.
    pub fn versioned(&self) -> &Hit {
        self.versioned.get_or_init(|| Hit {
            cluster: self.hit.cluster.clone(),
            object: with_fleet_version(&self.hit.object, self.version),
            interpretation: self.hit.interpretation.clone(),
            memory: self.hit.memory.clone(),
        })
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        2 * self.hit.object.get().len()
    }
}
