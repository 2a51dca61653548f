//! What a replica reports about the clusters that it reads, for the statuses that the leader
//! writes: stored in a `ConfigMap` beside its Lease.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use fleetdex_core::model::{ClusterName, StoreName, causes};
use fleetdex_replicas::{
    Replicas,
    assignment::{ReplicaName, ReplicaNames},
    lease_object::{REPLICA_LABEL, object_name, replica_of},
};
use fleetdex_sync::progress::{UnitState, UnitStatus};
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PartialObjectMeta, Patch, PatchParams},
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};

use crate::{completeness::CompletenessReport, plan::StreamKey, registry_status::MemberHealth};

/// The key of the report in the `ConfigMap`: JSON, gzip.
const REPORT_KEY: &str = "report.json.gz";
/// The completeness of streams, in the metadata of the `ConfigMap`, so that every replica can read
/// it without the reports: JSON, gzip, base64.
const COMPLETENESS_ANNOTATION: &str = "fleetdex.io/gaps";
/// The largest size of that annotation: all annotations of an object may have 256 KiB. A thousand
/// clusters that all differ take 60 kB. Beyond the limit the annotation is left out, and the other
/// replicas warn that the completeness is unknown.
const MAX_COMPLETENESS_BYTES: usize = 128 << 10;
/// The field managers of server-side apply: the completeness of streams is written more often than
/// the report.
const FIELD_MANAGER: &str = "fleetdex-replica";
const COMPLETENESS_MANAGER: &str = "fleetdex-replica-completeness";
/// How long the control plane may take for one request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The largest size of an unpacked report. etcd takes objects of 1.5 MiB; a report packs to a
/// thirtieth.
const MAX_REPORT_BYTES: u64 = 64 << 20;
/// Bytes of a packed report that are written for each second between two writes of it.
const BYTES_PER_MILLISECOND: u64 = 50;

/// How many failing streams of a cluster are reported with the message of the member or the store;
/// the status of a registry names as many. Those messages do not pack as well as everything else:
/// all kinds of a member that invents them would take more than etcd takes.
const MAX_QUOTED: usize = 20;

/// What a replica reports about the clusters that it reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaReport {
    /// The progress of the streams, by [`stream_key`].
    pub units: BTreeMap<String, UnitStatus>,
    /// The clusters whose queries are answered from what the streams write, by [`cluster_key`].
    pub live: BTreeSet<String>,
    /// The health of the clusters.
    pub health: BTreeMap<String, MemberHealth>,
    /// The replicas among which the clusters are assigned; empty during a handover.
    #[serde(rename = "group")]
    pub replicas: ReplicaNames,
    /// UIDs of registries that are being deleted, and names of former store locations, of which
    /// nothing is left in the clusters that are assigned to this one of these replicas.
    #[serde(rename = "swept")]
    pub cleaned_up: BTreeSet<String>,
}

/// Identifies a stream in reports.
pub fn stream_key(stream: &StreamKey) -> String {
    format!("{} {}", stream.store, stream.unit)
}

/// The progress of streams as it is reported: only so many of each cluster have the messages of
/// members and stores.
pub fn unit_statuses<'a>(
    streams: impl Iterator<Item = (&'a StreamKey, UnitStatus)>,
) -> BTreeMap<String, UnitStatus> {
    let mut quoted: BTreeMap<&ClusterName, usize> = BTreeMap::new();
    let mut statuses = BTreeMap::new();
    for (stream, mut status) in streams {
        let has_message =
            matches!(status.state, UnitState::Failing { .. }) || status.rejected_example.is_some();
        // Statuses show seconds, and fractions pack badly.
        let times = [
            &mut status.synced_at,
            &mut status.audits.last,
            &mut status.audits.drift_found,
        ];
        for time in times.into_iter().flatten() {
            *time = Timestamp::from_second(time.as_second()).unwrap_or(*time);
        }
        let count = quoted.entry(&stream.unit.cluster).or_default();
        *count += usize::from(has_message);
        if *count > MAX_QUOTED {
            status.rejected_example = None;
            if let UnitState::Failing { message, .. } = &mut status.state {
                "many kinds of this cluster fail; the log of the replica that reads it gives the reasons"
                    .clone_into(message);
            }
        }
        statuses.insert(stream_key(stream), status);
    }
    statuses
}

/// Identifies a cluster in a store in reports.
pub fn cluster_key(store: &StoreName, cluster: &ClusterName) -> String {
    format!("{store} {cluster}")
}

/// A report could not be written or read; that is retried.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The control plane did not respond in time.
    #[error("the control plane does not answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// The control plane refused the request.
    #[error("cannot {doing} ConfigMaps of replicas")]
    Refused {
        /// The verb of the request.
        doing: &'static str,
        /// The response.
        source: Box<kube::Error>,
    },
    /// It could not be packed.
    #[error("cannot pack a report")]
    Pack(#[from] std::io::Error),
    /// It is not valid JSON.
    #[error("a report is not valid JSON")]
    Json(#[from] serde_json::Error),
}

impl ReportError {
    /// Whether the control plane would refuse it again: it is too large, or the replica lacks a
    /// right.
    pub fn is_refusal(&self) -> bool {
        let Self::Refused { source, .. } = self else {
            return false;
        };
        matches!(&**source, kube::Error::Api(status) if [403, 413, 422].contains(&status.code))
    }
}

/// The answer to a request about a `ConfigMap` of replicas.
async fn answer<T>(
    doing: &'static str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ReportError> {
    let refused = |source| ReportError::Refused {
        doing,
        source: Box::new(source),
    };
    timeout(TIMEOUT, request)
        .await
        .map_err(|_| ReportError::Timeout)?
        .map_err(refused)
}

/// Reads and writes the reports of replicas.
pub struct ReplicaReports {
    replicas: Replicas,
    config_maps: Api<ConfigMap>,
    name: String,
    written_report: Option<WrittenReport>,
    written_completeness: Option<CompletenessReport>,
}

/// The report that was written last.
struct WrittenReport {
    report: ReplicaReport,
    bytes: usize,
    at: Instant,
}

impl WrittenReport {
    /// Whether a report has to be written now. A large one is not written every two seconds, unless
    /// other replicas or the deletion of a registry wait for it.
    fn is_outdated_by(&self, report: &ReplicaReport) -> bool {
        if self.report == *report {
            return false;
        }
        let is_awaited =
            self.report.replicas != report.replicas || self.report.cleaned_up != report.cleaned_up;
        let interval = Duration::from_millis(self.bytes as u64 / BYTES_PER_MILLISECOND);
        is_awaited || self.at.elapsed() >= interval
    }
}

/// What the other replicas that are alive have written.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PeerReports {
    /// Their reports.
    pub reports: BTreeMap<ReplicaName, ReplicaReport>,
    /// Their completeness reports.
    pub completeness: BTreeMap<ReplicaName, CompletenessReport>,
}

impl ReplicaReports {
    /// The reports of several replicas; `None` if there is one only.
    pub fn of(replicas: &Replicas) -> Option<Self> {
        let config = replicas.config()?;
        let config_maps = Api::namespaced(replicas.control_plane()?.clone(), &config.namespace);
        Some(Self {
            replicas: replicas.clone(),
            config_maps,
            name: object_name(&config.name),
            written_report: None,
            written_completeness: None,
        })
    }

    /// Writes the report of this replica, and the completeness of its streams, unless they are the
    /// same as last time.
    pub async fn write(
        &mut self,
        report: ReplicaReport,
        completeness: CompletenessReport,
    ) -> Result<(), ReportError> {
        // Without a Lease as its owner, nothing would delete the report.
        let Some(owner) = self.replicas.owner() else {
            return Ok(());
        };
        let written = self.written_report.as_ref();
        if written.is_none_or(|written| written.is_outdated_by(&report)) {
            let packed = pack(&report)?;
            let bytes = packed.len();
            let config_map = ConfigMap {
                metadata: self.metadata(owner.clone()),
                binary_data: Some([(REPORT_KEY.to_owned(), ByteString(packed))].into()),
                ..ConfigMap::default()
            };
            self.apply(FIELD_MANAGER, &config_map).await?;
            self.written_report = Some(WrittenReport {
                report,
                bytes,
                at: Instant::now(),
            });
        }
        if self.written_completeness.as_ref() != Some(&completeness) {
            let packed = pack_completeness(&completeness)?;
            let mut metadata = self.metadata(owner);
            metadata.annotations =
                packed.map(|packed| [(COMPLETENESS_ANNOTATION.to_owned(), packed)].into());
            let config_map = ConfigMap {
                metadata,
                ..ConfigMap::default()
            };
            self.apply(COMPLETENESS_MANAGER, &config_map).await?;
            self.written_completeness = Some(completeness);
        }
        Ok(())
    }

    fn metadata(&self, owner: OwnerReference) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.name.clone()),
            labels: Some([(REPLICA_LABEL.to_owned(), "true".to_owned())].into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        }
    }

    async fn apply(&self, manager: &str, config_map: &ConfigMap) -> Result<(), ReportError> {
        let parameters = PatchParams::apply(manager).force();
        let patch = Patch::Apply(config_map);
        let applied = self
            .config_maps
            .patch_metadata(&self.name, &parameters, &patch);
        answer("write", applied).await.map(drop)
    }

    /// The completeness reports of the other replicas that are alive.
    pub async fn read_peer_completeness(
        &self,
    ) -> Result<BTreeMap<ReplicaName, CompletenessReport>, ReportError> {
        let parameters = ListParams::default().labels(REPLICA_LABEL);
        let found = answer("list", self.config_maps.list_metadata(&parameters)).await?;
        let alive = self.replicas.peer_names();
        let read = |config_map: PartialObjectMeta<ConfigMap>| {
            let name = replica_of(&config_map).filter(|name| alive.contains(name))?;
            Some((name, read_completeness(&config_map)))
        };
        Ok(found.into_iter().filter_map(read).collect())
    }

    /// The reports and the completeness reports of the other replicas that are alive.
    pub async fn read(&self) -> Result<PeerReports, ReportError> {
        let parameters = ListParams::default().labels(REPLICA_LABEL);
        let found = answer("list", self.config_maps.list(&parameters)).await?;
        let alive = self.replicas.peer_names();
        let named = |config_map: ConfigMap| {
            Some((
                replica_of(&config_map).filter(|name| alive.contains(name))?,
                config_map,
            ))
        };
        let named: Vec<(ReplicaName, ConfigMap)> = found.into_iter().filter_map(named).collect();
        let completeness = named
            .iter()
            .map(|(name, config_map)| (name.clone(), read_completeness(config_map)))
            .collect();
        let packed = named.into_iter().filter_map(|(name, config_map)| {
            let ByteString(packed) = config_map.binary_data?.remove(REPORT_KEY)?;
            Some((name, packed))
        });
        Ok(PeerReports {
            reports: readable(packed),
            completeness,
        })
    }
}

/// The reports that can be read. One that cannot hides only its own replica's clusters.
fn readable(
    packed: impl Iterator<Item = (ReplicaName, Vec<u8>)>,
) -> BTreeMap<ReplicaName, ReplicaReport> {
    let mut reports = BTreeMap::new();
    for (replica, packed) in packed {
        match unpack(&packed) {
            Ok(report) => drop(reports.insert(replica, report)),
            Err(error) => {
                tracing::warn!(%replica, error = %causes(&error), "cannot read the report of a replica");
            }
        }
    }
    reports
}

fn pack(report: &ReplicaReport) -> Result<Vec<u8>, ReportError> {
    Ok(compress(&serde_json::to_vec(report)?)?)
}

fn unpack(packed: &[u8]) -> Result<ReplicaReport, ReportError> {
    Ok(serde_json::from_slice(&decompress(packed)?)?)
}

/// Packs a completeness report; `None` if it is too long.
fn pack_completeness(completeness: &CompletenessReport) -> Result<Option<String>, ReportError> {
    let packed = STANDARD.encode(compress(&completeness.to_json()?)?);
    if packed.len() > MAX_COMPLETENESS_BYTES {
        tracing::debug!(
            bytes = packed.len(),
            "the completeness report is too long for the other replicas"
        );
        return Ok(None);
    }
    Ok(Some(packed))
}

/// The completeness report on a `ConfigMap`; empty if it is absent, or not understood here.
fn read_completeness(config_map: &impl ResourceExt) -> CompletenessReport {
    let Some(text) = config_map.annotations().get(COMPLETENESS_ANNOTATION) else {
        return CompletenessReport::default();
    };
    let read = || -> Result<CompletenessReport, ReportError> {
        let packed = STANDARD.decode(text).map_err(std::io::Error::other)?;
        Ok(CompletenessReport::from_json(&decompress(&packed)?)?)
    };
    read().unwrap_or_else(|error| {
        tracing::debug!(config_map = config_map.name_any(), %error, "cannot read the completeness report of a replica");
        CompletenessReport::default()
    })
}

fn compress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn decompress(packed: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    GzDecoder::new(packed)
        .take(MAX_REPORT_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
