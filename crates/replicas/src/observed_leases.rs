//! Which Leases of other replicas are alive, by this process's clock alone: a Lease lives as long
//! as it is observed to change, so clocks need not agree.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use tokio::time::Instant;

use super::{
    assignment::{ReplicaName, ReplicaNames},
    lease_object::{announced, replica_of},
};

/// The last observed renewal of each other replica's Lease.
#[derive(Default)]
pub(super) struct ObservedLeases(BTreeMap<ReplicaName, ObservedLease>);

struct ObservedLease {
    renew_time: Option<MicroTime>,
    /// When it was first observed with this renew time.
    observed_at: Instant,
    duration: Duration,
}

impl ObservedLeases {
    /// Takes note of a list of Leases. Returns the other replicas that are alive, and what each has
    /// announced. `default_duration` counts for a Lease that does not state its own.
    pub(super) fn observe(
        &mut self,
        leases: &[Lease],
        local: &ReplicaName,
        default_duration: Duration,
        now: Instant,
    ) -> BTreeMap<ReplicaName, ReplicaNames> {
        let mut alive = BTreeMap::new();
        let mut found = BTreeSet::new();
        for lease in leases {
            let Some(name) = replica_of(lease).filter(|name| name != local) else {
                continue;
            };
            found.insert(name.clone());
            let observed = self.update(&name, lease, default_duration, now);
            if now.duration_since(observed.observed_at) < observed.duration {
                alive.insert(name, announced(lease));
            }
        }
        self.0.retain(|name, _| found.contains(name));
        alive
    }

    /// Whether the Lease of a replica has not been renewed for this long.
    pub(super) fn is_unrenewed_for(
        &self,
        replica: &ReplicaName,
        time: Duration,
        now: Instant,
    ) -> bool {
        self.0
            .get(replica)
            .is_some_and(|observed| now.duration_since(observed.observed_at) >= time)
    }

    fn update(
        &mut self,
        name: &ReplicaName,
        lease: &Lease,
        default_duration: Duration,
        now: Instant,
    ) -> &ObservedLease {
        let spec = lease.spec.as_ref();
        let renew_time = spec.and_then(|spec| spec.renew_time.clone());
        let seconds = spec
            .and_then(|spec| spec.lease_duration_seconds)
            .and_then(|seconds| u64::try_from(seconds).ok());
        let duration = seconds.map_or(default_duration, Duration::from_secs);
        let new = || ObservedLease {
            renew_time: renew_time.clone(),
            observed_at: now,
            duration,
        };
        let observed = self.0.entry(name.clone()).or_insert_with(new);
        if observed.renew_time != renew_time || observed.duration != duration {
            *observed = new();
        }
        observed
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{api::coordination::v1::LeaseSpec, jiff::Timestamp};

    use super::{super::lease_object::object_name, *};

    const DURATION: Duration = Duration::from_secs(8);

    fn name(text: &str) -> ReplicaName {
        text.parse().unwrap()
    }

    fn lease(replica: &str, renewed: i64, duration: Option<i32>) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.name = Some(object_name(&name(replica)));
        lease.spec = Some(LeaseSpec {
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            lease_duration_seconds: duration,
            ..LeaseSpec::default()
        });
        lease
    }

    #[test]
    fn a_replica_is_alive_as_long_as_its_lease_is_observed_to_change() {
        let start = Instant::now();
        let mut observed = ObservedLeases::default();
        // Seconds since the start, the renew time of the Lease, its duration, and whether it is
        // alive.
        for (second, renewed, duration, expected) in [
            (0, 1_000, Some(8), true),
            (7, 1_000, Some(8), true),
            (8, 1_000, Some(8), false),
            // A renew time in the past of this clock is a change as any other.
            (9, 5, Some(8), true),
            (16, 5, Some(8), true),
            (17, 5, Some(8), false),
            // Another duration is a change, too.
            (18, 5, Some(2), true),
            (20, 5, Some(2), false),
            // A duration that is absent or negative is the default one.
            (21, 6, None, true),
            (28, 6, Some(-1), true),
            (29, 6, None, false),
        ] {
            let now = start + Duration::from_secs(second);
            let leases = [lease("b", renewed, duration), lease("a", 1, Some(8))];
            let alive = observed.observe(&leases, &name("a"), DURATION, now);
            let expected: Vec<ReplicaName> = expected.then(|| name("b")).into_iter().collect();
            assert_eq!(
                alive.into_keys().collect::<Vec<_>>(),
                expected,
                "{second} s"
            );
        }
    }

    #[test]
    fn a_lease_expires_by_the_time_since_its_last_observed_renewal() {
        let start = Instant::now();
        let mut observed = ObservedLeases::default();
        let minutes = |number: u64| start + Duration::from_mins(number);
        let limit = Duration::from_mins(10);
        observed.observe(&[lease("b", 1, None)], &name("a"), DURATION, start);
        assert!(!observed.is_unrenewed_for(&name("b"), limit, minutes(9)));
        assert!(observed.is_unrenewed_for(&name("b"), limit, minutes(10)));
        assert!(!observed.is_unrenewed_for(&name("c"), limit, minutes(10)));
        observed.observe(&[lease("b", 2, None)], &name("a"), DURATION, minutes(10));
        assert!(!observed.is_unrenewed_for(&name("b"), limit, minutes(11)));
        observed.observe(&[], &name("a"), DURATION, minutes(12));
        assert!(!observed.is_unrenewed_for(&name("b"), limit, minutes(30)));
    }
}
