//! What a replica writes on its Lease, and how the others read it.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
    jiff::Timestamp,
};
use kube::{Resource, ResourceExt};

use super::{
    assignment::{ReplicaName, ReplicaNames},
    config::ReplicaConfig,
};

/// The label of the Leases and reports of replicas.
pub const REPLICA_LABEL: &str = "fleetdex.io/replica";
/// The annotation of a Lease with the replicas that its holder has announced, separated by commas.
const REPLICAS_ANNOTATION: &str = "fleetdex.io/replicas";
/// The annotation of a Lease with the address at which the others reach the query API of its
/// holder.
const ADDRESS_ANNOTATION: &str = "fleetdex.io/address";

/// The name of a replica's Lease and of its report.
pub fn object_name(replica: &ReplicaName) -> String {
    format!("fleetdex-replica-{replica}")
}

/// The replica that a Lease or a report belongs to.
pub fn replica_of(object: &impl Resource) -> Option<ReplicaName> {
    object
        .meta()
        .name
        .as_deref()?
        .strip_prefix("fleetdex-replica-")?
        .parse()
        .ok()
}

/// The Lease of a replica: who holds it, the replicas that it assigns clusters among, and where its
/// query API is reached.
pub(super) fn new_lease(
    config: &ReplicaConfig,
    holder: &str,
    announced: &ReplicaNames,
    duration: Duration,
) -> Lease {
    let owner = |uid: &String| OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: config.name.to_string(),
        uid: uid.clone(),
        ..OwnerReference::default()
    };
    let address = config
        .address
        .map(|address| (ADDRESS_ANNOTATION.to_owned(), address.to_string()));
    let annotations = [(REPLICAS_ANNOTATION.to_owned(), join_names(announced))]
        .into_iter()
        .chain(address)
        .collect();
    Lease {
        metadata: ObjectMeta {
            name: Some(object_name(&config.name)),
            labels: Some(BTreeMap::from([(
                REPLICA_LABEL.to_owned(),
                "true".to_owned(),
            )])),
            annotations: Some(annotations),
            // The garbage collector deletes it with the Pod, and the report with it.
            owner_references: config.pod_uid.as_ref().map(|uid| vec![owner(uid)]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: i32::try_from(duration.as_secs()).ok(),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..LeaseSpec::default()
        }),
    }
}

/// The replicas that the holder of a Lease has announced to assign clusters among. Names that are
/// not valid are left out.
pub(super) fn announced(lease: &Lease) -> ReplicaNames {
    let names = lease
        .annotations()
        .get(REPLICAS_ANNOTATION)
        .map(String::as_str)
        .unwrap_or_default();
    names
        .split(',')
        .filter_map(|name| name.parse().ok())
        .collect()
}

/// Where the query API of a Lease's holder is reached.
pub(super) fn address(lease: &Lease) -> Option<SocketAddr> {
    lease.annotations().get(ADDRESS_ANNOTATION)?.parse().ok()
}

/// The names, separated by commas.
pub(super) fn join_names(group: &ReplicaNames) -> String {
    group
        .iter()
        .map(ReplicaName::as_str)
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_reads_back_as_it_was_written() {
        let names = |names: &[&str]| -> ReplicaNames {
            names.iter().map(|name| name.parse().unwrap()).collect()
        };
        let address: SocketAddr = "10.1.2.3:8443".parse().unwrap();
        for (replicas, address) in [
            (names(&[]), None),
            (names(&["fleetdex-0"]), Some(address)),
            (names(&["fleetdex-0", "fleetdex-1"]), None),
        ] {
            let name: ReplicaName = "fleetdex-0".parse().unwrap();
            let config = ReplicaConfig {
                name: name.clone(),
                namespace: "fleetdex-system".to_owned(),
                address,
                pod_uid: Some("uid".to_owned()),
            };
            let lease = new_lease(&config, "holder", &replicas, Duration::from_secs(8));
            let owners = lease.metadata.owner_references.as_ref().unwrap();
            assert_eq!(
                (owners[0].kind.as_str(), owners[0].uid.as_str()),
                ("Pod", "uid")
            );
            assert_eq!(replica_of(&lease), Some(name));
            assert_eq!(announced(&lease), replicas);
            assert_eq!(super::address(&lease), address);
            let spec = lease.spec.unwrap();
            assert_eq!(
                (spec.holder_identity.as_deref(), spec.lease_duration_seconds),
                (Some("holder"), Some(8))
            );
        }
    }

    #[test]
    fn a_lease_that_something_else_wrote_announces_no_replica_and_no_address() {
        let annotated = |name: &str, replicas: &str, address: &str| Lease {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                annotations: Some(BTreeMap::from([
                    (REPLICAS_ANNOTATION.to_owned(), replicas.to_owned()),
                    (ADDRESS_ANNOTATION.to_owned(), address.to_owned()),
                ])),
                ..ObjectMeta::default()
            },
            ..Lease::default()
        };
        let lease = annotated("kube-scheduler", "-,A,,a b", "fleetdex-0:8443");
        assert_eq!(replica_of(&lease), None);
        assert_eq!(announced(&lease), ReplicaNames::new());
        assert_eq!(address(&lease), None);
        assert_eq!(replica_of(&annotated("fleetdex-replica-", "", "")), None);
    }
}
