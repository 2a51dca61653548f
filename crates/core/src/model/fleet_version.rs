//! Versions of the fleet: the `resourceVersion` of lists and watches over many clusters.
//!
//! Guarantees: a version is a positive decimal integer below 2^63, and grows as long as the clock
//! does not go back, because newer Kubernetes clients compare versions (KEP-5504). A version of an
//! earlier run, or of a replica with another tag, is never taken for one of this run: replicas
//! whose names end in different ordinals have different tags, two others have the same one with a
//! probability of 1 in 65,536.

use std::{fmt, num::NonZeroU64, str::FromStr, time::Duration};

/// 2024-01-01T00:00:00Z in milliseconds since 1970.
const EPOCH_MILLIS: u64 = 1_704_067_200_000;
/// A run may number 2 to this power changes for each millisecond that it lasts, before its numbers
/// reach those of a later run.
const SEQUENCE_BITS: u32 = 7;
/// Bits of the replica's tag.
const TAG_BITS: u32 = 16;
/// Keeps every version below 2^63, until the year 2058.
const MAX_POSITION: u64 = (1 << (63 - TAG_BITS)) - 1;

/// A version of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FleetVersion(NonZeroU64);

/// The text is no version of any fleet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no resourceVersion of the fleet: those are positive decimal integers, as lists and watches over the fleet give them"
)]
pub struct InvalidFleetVersion {
    /// The text.
    pub text: String,
}

impl FromStr for FleetVersion {
    type Err = InvalidFleetVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidFleetVersion {
            text: text.to_owned(),
        };
        let is_canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        let number: u64 = Some(text)
            .filter(|_| is_canonical)
            .and_then(|text| text.parse().ok())
            .ok_or_else(invalid)?;
        NonZeroU64::new(number).map(Self).ok_or_else(invalid)
    }
}

impl fmt::Display for FleetVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// One run of one replica, whose numbers grow from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaRun {
    /// The position of number 0.
    first: u64,
    tag: u16,
}

impl ReplicaRun {
    /// A run of the replica with this tag that began at a time, in milliseconds since 1970.
    pub fn new(began_millis: u64, tag: u16) -> Self {
        let first = began_millis
            .saturating_sub(EPOCH_MILLIS)
            .saturating_mul(1 << SEQUENCE_BITS);
        Self {
            first: first.min(MAX_POSITION / 2),
            tag,
        }
    }

    /// How many numbers a run has for the time that it lasts.
    pub fn numbers_within(lasted: Duration) -> u64 {
        let nanos = lasted.as_nanos().saturating_mul(1 << SEQUENCE_BITS);
        u64::try_from(nanos / 1_000_000).unwrap_or(u64::MAX)
    }

    /// The tag of a replica whose name ends in an ordinal, such as a Pod of a `StatefulSet`:
    /// `fleetdex-3`; `None` for any other name.
    pub fn tag_of(replica: &str) -> Option<u16> {
        let (_, ordinal) = replica.rsplit_once('-')?;
        let is_plain = ordinal == "0" || !ordinal.starts_with('0');
        Some(ordinal)
            .filter(|_| is_plain)
            .and_then(|ordinal| ordinal.parse().ok())
    }

    /// The version of the fleet after a numbered change.
    pub fn version(self, sequence: u64) -> FleetVersion {
        let position = self.first.saturating_add(sequence).clamp(1, MAX_POSITION);
        let number = (position << TAG_BITS) | u64::from(self.tag);
        FleetVersion(NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN))
    }

    /// The number of a change of this run, whose last one is `newest`; `None` for a version of
    /// another run or replica.
    pub fn sequence(self, version: FleetVersion, newest: u64) -> Option<u64> {
        let number = version.0.get();
        let is_of_replica = number & ((1 << TAG_BITS) - 1) == u64::from(self.tag);
        let sequence = (number >> TAG_BITS).checked_sub(self.first)?;
        (is_of_replica && (1..=newest).contains(&sequence)).then_some(sequence)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Ten years from 2024 on.
    fn start_times() -> impl Strategy<Value = u64> {
        EPOCH_MILLIS..EPOCH_MILLIS + 315_360_000_000
    }

    #[test]
    fn only_positive_decimal_integers_are_versions() {
        for text in [
            "",
            "0",
            "00",
            "-1",
            "+1",
            "1.0",
            "0x1",
            " 1",
            "１",
            "18446744073709551616",
            "abc",
        ] {
            assert!(text.parse::<FleetVersion>().is_err(), "{text:?}");
        }
        assert_eq!(
            "18446744073709551615"
                .parse::<FleetVersion>()
                .map(|version| version.to_string())
                .as_deref(),
            Ok("18446744073709551615")
        );
    }

    #[test]
    fn the_tag_of_a_replica_is_its_ordinal() {
        let tags = [
            "fleetdex-0",
            "fleetdex-3",
            "fleetdex-65535",
            "fleetdex-65536",
            "fleetdex-03",
            "fleetdex",
            "a-b",
            "7",
        ]
        .map(ReplicaRun::tag_of);
        assert_eq!(
            tags,
            [Some(0), Some(3), Some(65_535), None, None, None, None, None]
        );
    }

    #[test]
    fn a_wrong_clock_makes_valid_versions() {
        for began in [0, 1, u64::MAX] {
            let run = ReplicaRun::new(began, 7);
            let versions = [run.version(1), run.version(2)];
            assert!(versions[0] < versions[1], "{versions:?}");
            assert_eq!(run.sequence(versions[1], 2), Some(2));
        }
    }

    proptest! {
        #[test]
        fn a_version_is_read_as_it_was_written(began in start_times(), tag: u16, sequence in 1_u64..1 << 40) {
            let run = ReplicaRun::new(began, tag);
            let version = run.version(sequence);
            let read: FleetVersion = version.to_string().parse().unwrap();
            prop_assert_eq!(read, version);
            prop_assert_eq!(run.sequence(read, sequence), Some(sequence));
            prop_assert!(version.to_string().parse::<i64>().is_ok());
        }

        #[test]
        fn versions_grow_with_every_change_and_every_run(
            began in start_times(), lasted in 1_u64..1_000_000_000, tags: (u16, u16), sequences: (u32, u16),
        ) {
            let earlier = ReplicaRun::new(began, tags.0);
            let later = ReplicaRun::new(began + lasted, tags.1);
            let made = u64::from(sequences.0).min(lasted << SEQUENCE_BITS).max(1) - 1;
            prop_assert!(earlier.version(made) < earlier.version(made + 1));
            prop_assert!(earlier.version(made) < later.version(u64::from(sequences.1) + 1));
        }

        #[test]
        fn a_version_of_another_run_or_replica_is_never_taken_for_ours(
            began in start_times(), after in 0_u64..100_000_000, tags: (u16, u16),
            newest in 0_u64..1 << 36, sequence in 1_u64..1 << 37,
        ) {
            // Within a day of each other, so that the times of both runs overlap.
            let other = began + after;
            let (ours, theirs) = (ReplicaRun::new(began, tags.0), ReplicaRun::new(other, tags.1));
            let found = ours.sequence(theirs.version(sequence), newest);
            let shift = after << SEQUENCE_BITS;
            let is_same = tags.0 == tags.1;
            prop_assert_eq!(found.is_some(), is_same && sequence + shift <= newest);
        }
    }
}
