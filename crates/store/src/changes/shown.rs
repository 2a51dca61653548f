//! Objects as those who follow are told of them.

use std::{ops::Deref, sync::OnceLock};

use fleetdex_core::{
    model::{FleetVersion, with_fleet_version},
    query::Hit,
};

/// An object of an event, as it is stored. All who are told of the event share it.
#[derive(Debug)]
pub struct Shown {
    hit: Hit,
    /// The version of the fleet that it has in this event.
    version: FleetVersion,
    told: OnceLock<Hit>,
}

impl Deref for Shown {
    type Target = Hit;

    fn deref(&self) -> &Hit {
        &self.hit
    }
}

impl Shown {
    pub(super) fn new(hit: Hit, version: FleetVersion) -> Self {
        Self {
            hit,
            version,
            told: OnceLock::new(),
        }
    }

    /// The object with the version of the fleet in place of its own; made by the first one who needs it.
    pub fn told(&self) -> &Hit {
        self.told.get_or_init(|| Hit {
            cluster: self.hit.cluster.clone(),
            object: with_fleet_version(&self.hit.object, self.version),
        })
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        2 * self.hit.object.get().len()
    }
}
