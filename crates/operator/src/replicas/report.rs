//! What a replica knows of its share, for the status that the leader writes: kept in a `ConfigMap` beside its Lease.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use fleetdex_core::model::{ClusterName, StoreName, causes};
use fleetdex_sync::progress::{UnitState, View};
use k8s_openapi::{
    ByteString, api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PartialObjectMeta, Patch, PatchParams},
};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{
    lease::{LABEL, Replicas, object_name, replica_of},
    share::{Group, ReplicaName},
};
use crate::{gaps::ShareGaps, plan::Stream, status::MemberHealth};

/// Where the report is in the `ConfigMap`: JSON, gzip.
const KEY: &str = "report.json.gz";
/// What answers lack, in the metadata of the `ConfigMap`, so that every replica can read it without the reports: JSON, gzip, base64.
const GAPS: &str = "fleetdex.io/gaps";
/// The size of that annotation, at most: all annotations of an object may have 256 KiB. A thousand clusters of which something else is to be said
/// each take 60 kB; beyond the bound nothing is said, and the other replicas warn that they do not know.
const MAX_GAPS: usize = 128 << 10;
/// Names the fields that this writes.
const FIELD_MANAGER: &str = "fleetdex-replica";
/// How long the control plane may take for one request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The size of a report when it is unpacked, at most. etcd takes objects of 1.5 MiB; a report packs to less than a tenth.
const MAX_REPORT: u64 = 16 << 20;

/// Failing streams of a cluster that are reported with what the member or the store said; the status of a registry names as many. Those words do not pack as well
/// as everything else does: all kinds of one member that makes them up would take more than etcd takes.
const MAX_QUOTED: usize = 20;

/// What a replica knows of its share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How far the streams are, by [`stream_key`].
    pub units: BTreeMap<String, View>,
    /// Clusters whose queries are answered from what the streams write, by [`cluster_key`].
    pub live: BTreeSet<String>,
    /// How the clusters are.
    pub health: BTreeMap<String, MemberHealth>,
    /// Among which replicas everything is shared out; empty while anything is being handed over.
    pub group: Group,
    /// UIDs of registries that are being deleted, of which nothing is left in the share of that group.
    pub swept: BTreeSet<String>,
}

/// Names a stream in reports.
pub fn stream_key(stream: &Stream) -> String {
    format!("{} {}", stream.store, stream.unit)
}

/// How far streams are, as it is reported: of each cluster only so many views hold the words of others.
pub fn unit_views<'a>(streams: impl Iterator<Item = (&'a Stream, View)>) -> BTreeMap<String, View> {
    let mut quoted: BTreeMap<&ClusterName, usize> = BTreeMap::new();
    let mut views = BTreeMap::new();
    for (stream, mut view) in streams {
        let has_words =
            matches!(view.state, UnitState::Failing { .. }) || view.rejected_example.is_some();
        let count = quoted.entry(&stream.unit.cluster).or_default();
        *count += usize::from(has_words);
        if *count > MAX_QUOTED {
            view.rejected_example = None;
            if let UnitState::Failing { message, .. } = &mut view.state {
                "many kinds of this cluster fail; the log of its replica says why"
                    .clone_into(message);
            }
        }
        views.insert(stream_key(stream), view);
    }
    views
}

/// Names a store's cluster in reports.
pub fn cluster_key(store: &StoreName, cluster: &ClusterName) -> String {
    format!("{store} {cluster}")
}

/// A report could not be written or read; the next attempt follows.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The control plane gave no answer.
    #[error("the control plane does not answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// The control plane refused.
    #[error("cannot {doing} ConfigMaps of replicas")]
    Refused {
        /// What was to be done.
        doing: &'static str,
        /// What it said.
        source: Box<kube::Error>,
    },
    /// It cannot be packed.
    #[error("cannot pack a report")]
    Pack(#[from] std::io::Error),
    /// It is no JSON.
    #[error("a report is no valid JSON")]
    Json(#[from] serde_json::Error),
}

/// The reports of all replicas.
pub struct Reports {
    replicas: Replicas,
    config_maps: Api<ConfigMap>,
    name: String,
    written: Option<(Report, ShareGaps)>,
}

/// What the other replicas have written that are alive.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// What they know of their shares.
    pub reports: BTreeMap<ReplicaName, Report>,
    /// What answers lack of the clusters that they read.
    pub gaps: BTreeMap<ReplicaName, ShareGaps>,
}

impl Reports {
    /// The reports of a group of replicas; nothing if there is one only.
    pub fn of(replicas: &Replicas) -> Option<Self> {
        let settings = replicas.settings()?;
        let config_maps = Api::namespaced(replicas.hub()?.clone(), &settings.namespace);
        Some(Self {
            replicas: replicas.clone(),
            config_maps,
            name: object_name(&settings.name),
            written: None,
        })
    }

    /// Writes this replica's report, and what answers lack of its share, if that is not what it was.
    pub async fn write(&mut self, report: Report, gaps: ShareGaps) -> Result<(), ReportError> {
        // Before there is a Lease nobody would remove the report.
        let Some(owner) = self.replicas.owner() else {
            return Ok(());
        };
        if self
            .written
            .as_ref()
            .is_some_and(|(of_report, of_gaps)| *of_report == report && *of_gaps == gaps)
        {
            return Ok(());
        }
        let config_map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(BTreeMap::from([(LABEL.to_owned(), "true".to_owned())])),
                annotations: pack_gaps(&gaps)?
                    .map(|packed| BTreeMap::from([(GAPS.to_owned(), packed)])),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            binary_data: Some(BTreeMap::from([(
                KEY.to_owned(),
                ByteString(pack(&report)?),
            )])),
            ..ConfigMap::default()
        };
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(&config_map);
        let answer = timeout(
            TIMEOUT,
            self.config_maps.patch(&self.name, &parameters, &patch),
        )
        .await;
        let refused = |source| ReportError::Refused {
            doing: "write",
            source: Box::new(source),
        };
        answer.map_err(|_| ReportError::Timeout)?.map_err(refused)?;
        self.written = Some((report, gaps));
        Ok(())
    }

    /// What answers lack of the clusters that the others read, as they say.
    pub async fn read_gaps(&self) -> Result<BTreeMap<ReplicaName, ShareGaps>, ReportError> {
        let parameters = ListParams::default().labels(LABEL);
        let answer = timeout(TIMEOUT, self.config_maps.list_metadata(&parameters)).await;
        let refused = |source| ReportError::Refused {
            doing: "list",
            source: Box::new(source),
        };
        let found = answer.map_err(|_| ReportError::Timeout)?.map_err(refused)?;
        let alive = self.replicas.others();
        let said = |config_map: PartialObjectMeta<ConfigMap>| {
            let name = replica_of(&config_map).filter(|name| alive.contains(name))?;
            Some((name, gaps_of(&config_map)))
        };
        Ok(found.into_iter().filter_map(said).collect())
    }

    /// The reports of the others that are alive, too.
    pub async fn read(&self) -> Result<Heard, ReportError> {
        let parameters = ListParams::default().labels(LABEL);
        let answer = timeout(TIMEOUT, self.config_maps.list(&parameters)).await;
        let refused = |source| ReportError::Refused {
            doing: "list",
            source: Box::new(source),
        };
        let found = answer.map_err(|_| ReportError::Timeout)?.map_err(refused)?;
        let alive = self.replicas.others();
        let named = |config_map: ConfigMap| {
            Some((
                replica_of(&config_map).filter(|name| alive.contains(name))?,
                config_map,
            ))
        };
        let named: Vec<(ReplicaName, ConfigMap)> = found.into_iter().filter_map(named).collect();
        let gaps = named
            .iter()
            .map(|(name, config_map)| (name.clone(), gaps_of(config_map)))
            .collect();
        let packed = named.into_iter().filter_map(|(name, config_map)| {
            let ByteString(packed) = config_map.binary_data?.remove(KEY)?;
            Some((name, packed))
        });
        Ok(Heard {
            reports: readable(packed),
            gaps,
        })
    }
}

/// A report that cannot be read hides its own replica's share only.
fn readable(packed: impl Iterator<Item = (ReplicaName, Vec<u8>)>) -> BTreeMap<ReplicaName, Report> {
    let mut reports = BTreeMap::new();
    for (replica, packed) in packed {
        match unpack(&packed) {
            Ok(report) => drop(reports.insert(replica, report)),
            Err(error) => {
                tracing::warn!(%replica, error = %causes(&error), "the report of a replica cannot be read");
            }
        }
    }
    reports
}

fn pack(report: &Report) -> Result<Vec<u8>, ReportError> {
    Ok(compress(&serde_json::to_vec(report)?)?)
}

fn unpack(packed: &[u8]) -> Result<Report, ReportError> {
    Ok(serde_json::from_slice(&decompress(packed)?)?)
}

/// Nothing if it is too long.
fn pack_gaps(gaps: &ShareGaps) -> Result<Option<String>, ReportError> {
    let packed = STANDARD.encode(compress(&gaps.to_json()?)?);
    if packed.len() > MAX_GAPS {
        tracing::debug!(
            bytes = packed.len(),
            "what answers lack is too long to be said to the other replicas"
        );
        return Ok(None);
    }
    Ok(Some(packed))
}

/// What a replica says that answers lack; nothing of what it does not say, or says in a way that is not understood here.
fn gaps_of(config_map: &impl ResourceExt) -> ShareGaps {
    let Some(text) = config_map.annotations().get(GAPS) else {
        return ShareGaps::default();
    };
    let read = || -> Result<ShareGaps, ReportError> {
        let packed = STANDARD.decode(text).map_err(std::io::Error::other)?;
        Ok(ShareGaps::from_json(&decompress(&packed)?)?)
    };
    read().unwrap_or_else(|error| {
        tracing::debug!(config_map = config_map.name_any(), %error, "what a replica says that answers lack cannot be read");
        ShareGaps::default()
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
        .take(MAX_REPORT)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use fleetdex_core::model::{Gvk, Resource, Scope, Unit};
    use fleetdex_sync::progress::Audited;

    use super::*;

    fn view(objects: u64) -> View {
        View {
            sought: None,
            state: UnitState::Synced,
            synced_at: Some("2026-02-03T10:00:00Z".parse().unwrap()),
            objects,
            skipped: 0,
            rejected: 0,
            rejected_example: None,
            audits: Audited::default(),
        }
    }

    #[test]
    fn a_report_of_a_large_share_fits_into_an_object() {
        let kinds = |cluster: u64| (0..30_u64).map(move |kind| (cluster, kind));
        let units = (0..1_000).flat_map(kinds).map(|(cluster, kind)| {
            (format!("https://opensearch.example.com:9200/fleetdex member{cluster}:apps/v1/Kind{kind}"), view(cluster * kind))
        });
        let report = Report {
            units: units.collect(),
            ..Report::default()
        };
        let packed = pack(&report).unwrap();
        assert!(
            packed.len() < 700_000,
            "{} bytes; base64 adds a third",
            packed.len()
        );
        assert_eq!(unpack(&packed).unwrap(), report);
    }

    #[test]
    fn a_member_whose_kinds_all_fail_with_words_of_its_own_does_not_fill_a_report() {
        let words = || {
            std::iter::repeat_with(fastrand::alphanumeric)
                .take(512)
                .collect::<String>()
        };
        let stream = |kind: usize| {
            let gvk = Gvk::new("apps", "v1", &format!("Kind{kind}"));
            let resource = Resource {
                gvk,
                plural: format!("kinds{kind}").as_str().into(),
                namespaced: true,
            };
            Stream {
                unit: Unit {
                    cluster: "evil".parse().unwrap(),
                    resource,
                    scope: Scope::All,
                },
                store: "main".parse().unwrap(),
            }
        };
        let streams: Vec<Stream> = (0..10_000).map(stream).collect();
        let failing = || UnitState::Failing {
            reason: "InvalidAnswer".into(),
            message: words(),
        };
        let views = || View {
            state: failing(),
            rejected: 1,
            rejected_example: Some(words().as_str().into()),
            ..view(0)
        };
        let units = unit_views(streams.iter().map(|stream| (stream, views())));
        assert_eq!(units.len(), 10_000);
        assert_eq!(
            units
                .values()
                .filter(|view| view.rejected_example.is_some())
                .count(),
            MAX_QUOTED
        );
        let packed = pack(&Report {
            units,
            ..Report::default()
        })
        .unwrap();
        assert!(
            packed.len() < 700_000,
            "{} bytes; base64 adds a third",
            packed.len()
        );
    }

    #[test]
    fn a_report_that_cannot_be_read_does_not_hide_the_others() {
        let replica = |name: &str| name.parse::<ReplicaName>().unwrap();
        let good = pack(&Report::default()).unwrap();
        let cut = pack(&Report {
            swept: [String::from_utf8(vec![b'a'; 17 << 20]).unwrap()].into(),
            ..Report::default()
        })
        .unwrap();
        let packed = [
            (replica("a"), good.clone()),
            (replica("b"), cut),
            (replica("c"), b"no gzip".to_vec()),
            (replica("d"), good),
        ];
        let read: Vec<ReplicaName> = readable(packed.into_iter()).into_keys().collect();
        assert_eq!(read, [replica("a"), replica("d")]);
    }

    #[test]
    fn what_answers_lack_of_many_clusters_fits_into_an_annotation_or_is_left_out() {
        use fleetdex_core::model::{Gvk, Resource, Scope, Unit};

        use crate::gaps::{Gap, Known};
        let known = |clusters: u64, gap: &dyn Fn(u64, u64) -> Option<Gap>| -> Known {
            let of_cluster = |cluster: u64| {
                (0..30).map(move |kind| {
                    let gvk = Gvk::new("apps.example.com", "v1", &format!("Kind{kind}"));
                    let resource = Resource {
                        gvk,
                        plural: format!("kind{kind}s").into(),
                        namespaced: true,
                    };
                    let unit = Unit {
                        cluster: format!("member{cluster}").parse().unwrap(),
                        resource,
                        scope: Scope::All,
                    };
                    (
                        cluster,
                        kind,
                        Stream {
                            unit,
                            store: "fleetdex-0123456789abcdef".parse().unwrap(),
                        },
                    )
                })
            };
            let streams = (0..clusters).flat_map(of_cluster);
            streams
                .map(|(cluster, kind, stream)| (stream, gap(cluster, kind)))
                .collect()
        };
        let packed = |known: &Known| pack_gaps(&ShareGaps::of(known)).unwrap();
        // Every cluster has got as far as no other.
        let filling = known(1_000, &|cluster, kind| {
            (((cluster * 7_919) >> (kind % 13)) & 1 == 0).then_some(Gap::FirstList)
        });
        let text = packed(&filling).unwrap();
        assert!(text.len() < MAX_GAPS, "{} bytes", text.len());
        let annotations = Some(BTreeMap::from([(GAPS.to_owned(), text)]));
        let mut config_map = ConfigMap {
            metadata: ObjectMeta {
                annotations,
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        assert_eq!(gaps_of(&config_map), ShareGaps::of(&filling));
        // Random names do not pack.
        let reason = |cluster: u64, kind: u64| {
            format!(
                "{:x}",
                fastrand::Rng::with_seed(cluster * 30 + kind).u128(..)
            )
        };
        let failing = |cluster, kind| {
            Some(Gap::Failing {
                reason: reason(cluster, kind).into(),
                is_shown: false,
                is_given_up: false,
            })
        };
        assert_eq!(packed(&known(500, &failing)), None);
        for broken in ["%", "aGVsbG8="] {
            config_map.metadata.annotations =
                Some(BTreeMap::from([(GAPS.to_owned(), broken.to_owned())]));
            assert_eq!(gaps_of(&config_map), ShareGaps::default());
        }
    }

    #[test]
    fn what_failed_is_reported_as_it_is() {
        let failing = UnitState::Failing {
            reason: "Forbidden".into(),
            message: "pods is forbidden".to_owned(),
        };
        let report = Report {
            units: BTreeMap::from([(
                "store member1:v1/Pod".to_owned(),
                View {
                    state: failing,
                    ..view(0)
                },
            )]),
            live: BTreeSet::from(["store member1".to_owned()]),
            health: BTreeMap::from([(
                "member1".to_owned(),
                MemberHealth {
                    ready: false,
                    reason: "Unreachable".into(),
                    message: "no route".to_owned(),
                    note: None,
                },
            )]),
            group: Group::from(["fleetdex-0".parse().unwrap()]),
            swept: BTreeSet::from(["uid".to_owned()]),
        };
        assert_eq!(unpack(&pack(&report).unwrap()).unwrap(), report);
        assert!(unpack(b"not gzip").is_err());
    }
}
