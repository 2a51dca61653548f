//! Reads what members have, from the query API. What is not known is said once for each kind.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_cli::{
    ControlPlaneArgs, FleetReader, FleetServerArgs,
    console::{CommandError, Console},
};
use fleetdex_core::model::{Gvk, causes};
use fleetdex_distribution::template_name::TemplateName;
use serde_json::Value;

use crate::observed::{ObservedFilter, ObservedObject, of_room};

/// The kinds that say how much room there is.
const ROOM: [(&str, &str); 2] = [("v1", "Node"), ("v1", "Pod")];

/// The objects that clusters have, by cluster.
pub type ObjectsOfClusters = BTreeMap<String, BTreeMap<TemplateName, Value>>;

/// What members have, as far as it is known.
pub struct MemberObjects {
    /// An error: the server does not answer.
    fleet: Result<FleetReader, String>,
    shown: BTreeSet<String>,
}

impl MemberObjects {
    /// Connects to the server. A server that flags or variables name has to answer; without one,
    /// nothing is known.
    pub async fn connect(
        server: &FleetServerArgs,
        control_plane: &ControlPlaneArgs,
    ) -> Result<Self, CommandError> {
        let fleet = match FleetReader::connect(server, control_plane).await {
            Err(error) if server.is_named() => return Err(error.into()),
            other => other.map_err(|error| causes(&error)),
        };
        Ok(Self {
            fleet,
            shown: BTreeSet::new(),
        })
    }

    /// Nodes and Pods, by which room is counted; empty where they are not known.
    pub async fn room(
        &mut self,
        console: &mut Console<'_>,
    ) -> Result<ObjectsOfClusters, CommandError> {
        let mut found = ObjectsOfClusters::new();
        for (api_version, kind) in ROOM {
            let kind = Gvk::from_api_version(api_version, kind);
            let read = self.read(&kind, |object| of_room(&kind, &object), console);
            match read.await? {
                Ok(objects) => add(&mut found, objects),
                Err(reason) => {
                    let warning = format!(
                        "the room in clusters is what --room or their resourceSummary say: {} objects \
                         are not known: {reason}",
                        kind.kind
                    );
                    self.warn(warning, console)?;
                    return Ok(ObjectsOfClusters::new());
                }
            }
        }
        Ok(found)
    }

    /// The objects of these kinds that matter.
    pub async fn observed(
        &mut self,
        kinds: &BTreeSet<Gvk>,
        filter: &ObservedFilter,
        console: &mut Console<'_>,
    ) -> Result<ObjectsOfClusters, CommandError> {
        let mut found = ObjectsOfClusters::new();
        for kind in kinds {
            let read = self.read(kind, |object| filter.keep(kind, object), console);
            match read.await? {
                Ok(objects) => {
                    if objects.iter().any(|one| one.is_redacted) {
                        let warning = format!(
                            "values of {} that the index does not have are not compared",
                            kind.kind
                        );
                        self.warn(warning, console)?;
                    }
                    add(&mut found, objects);
                }
                Err(reason) => {
                    let warning = match &self.fleet {
                        Ok(_) => format!(
                            "conflicts and changes of {} are not known: {reason}",
                            kind.kind
                        ),
                        Err(_) => format!("what members have is not known: {reason}"),
                    };
                    self.warn(warning, console)?;
                }
            }
        }
        Ok(found)
    }

    /// The objects of a kind that `keep` keeps; an error of the inner result: they are not known.
    async fn read(
        &mut self,
        kind: &Gvk,
        keep: impl Fn(Value) -> Option<ObservedObject>,
        console: &mut Console<'_>,
    ) -> Result<Result<Vec<ObservedObject>, String>, CommandError> {
        let fleet = match &self.fleet {
            Ok(fleet) if fleet.serves(kind) => fleet,
            Ok(_) => return Ok(Err("no registry selects it".to_owned())),
            Err(reason) => return Ok(Err(reason.clone())),
        };
        let mut kept = Vec::new();
        match fleet.read(kind, |object| kept.extend(keep(object))).await {
            Ok(warnings) => {
                for warning in warnings {
                    self.warn(warning, console)?;
                }
                Ok(Ok(kept))
            }
            Err(error) => Ok(Err(causes(&error))),
        }
    }

    /// Prints a warning, each text once.
    fn warn(&mut self, text: String, console: &mut Console<'_>) -> Result<(), CommandError> {
        if !self.shown.contains(&text) {
            console.warn(&text)?;
            self.shown.insert(text);
        }
        Ok(())
    }
}

fn add(found: &mut ObjectsOfClusters, objects: Vec<ObservedObject>) {
    for one in objects {
        let of_cluster = found.entry(one.cluster).or_default();
        of_cluster.insert(one.name, one.object);
    }
}
