//! The table of metrics: each family has its field, name, unit and help text in one place, from
//! which it is registered and described.

use std::sync::Arc;

use prometheus_client::{
    metrics::{
        MetricType, TypedMetric, counter::Counter, family::Family, gauge::Gauge,
        histogram::Histogram,
    },
    registry::{Metric, Registry, Unit},
};

/// The prefix of the names of all metrics.
pub(super) const PREFIX: &str = "fleetdex";

/// A family of metrics, as `docs/metrics.md` shows it.
#[derive(Clone, Debug)]
pub struct Description {
    /// The name in queries, with prefix, unit and the suffix `_total` of counters.
    pub name: String,
    /// The type.
    pub kind: String,
    /// The unit of its values; `None` for numbers of things.
    pub unit: Option<&'static str>,
    /// The names of its labels, and their possible values.
    pub labels: &'static [MetricLabel],
    /// What it measures.
    pub help: &'static str,
}

/// A label of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricLabel {
    /// The name.
    pub name: &'static str,
    /// Its possible values; empty if they are names, such as those of clusters.
    pub values: &'static [&'static str],
}

/// A set of labels whose names are known before there is any series.
pub(super) trait LabelSet {
    const LABELS: &'static [MetricLabel];
}

/// A type of label values.
pub(super) trait LabelValues {
    /// All values; empty if they are not a closed set.
    const VALUES: &'static [&'static str];
}

impl LabelValues for Arc<str> {
    const VALUES: &'static [&'static str] = &[];
}

impl LabelValues for u16 {
    const VALUES: &'static [&'static str] = &[];
}

/// A metric, or a family of metrics, with labels of this type.
pub(super) trait Labelled {
    const LABELS: &'static [MetricLabel];
}

impl<S: LabelSet, M, C> Labelled for Family<S, M, C> {
    const LABELS: &'static [MetricLabel] = S::LABELS;
}

impl Labelled for Counter {
    const LABELS: &'static [MetricLabel] = &[];
}

impl Labelled for Histogram {
    const LABELS: &'static [MetricLabel] = &[];
}

impl<N, A> Labelled for Gauge<N, A> {
    const LABELS: &'static [MetricLabel] = &[];
}

/// The units of metrics.
#[derive(Clone, Copy, Debug)]
pub(super) enum UnitOf {
    /// A number of what the name says.
    Count,
    Seconds,
    Bytes,
    /// A share, up to 1.
    Ratio,
    /// A time, in seconds since 1970 in UTC.
    TimestampSeconds,
}

impl UnitOf {
    /// The last part of the name, which the registry appends.
    fn unit(self) -> Option<Unit> {
        match self {
            Self::Count => None,
            Self::Seconds | Self::TimestampSeconds => Some(Unit::Seconds),
            Self::Bytes => Some(Unit::Bytes),
            Self::Ratio => Some(Unit::Other("ratio".to_owned())),
        }
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Self::Count => None,
            Self::Seconds => Some("seconds"),
            Self::Bytes => Some("bytes"),
            Self::Ratio => Some("share"),
            Self::TimestampSeconds => Some("seconds since 1970"),
        }
    }
}

/// Registers a family under a name without its unit.
pub(super) fn register(
    registry: &mut Registry,
    name: &'static str,
    unit: UnitOf,
    help: &'static str,
    family: impl Metric,
) {
    match unit.unit() {
        Some(unit) => registry.register_with_unit(name, help, unit, family),
        None => registry.register(name, help, family),
    }
}

/// Describes the families of type `M` under that name.
pub(super) fn describe<M: TypedMetric + Labelled>(
    name: &'static str,
    unit: UnitOf,
    help: &'static str,
) -> Description {
    let suffix = match M::TYPE {
        MetricType::Counter => "_total",
        _ => "",
    };
    let unit_suffix = unit
        .unit()
        .map_or_else(String::new, |unit| format!("_{}", unit.as_str()));
    Description {
        name: format!("{PREFIX}_{name}{unit_suffix}{suffix}"),
        kind: M::TYPE.as_str().to_owned(),
        unit: unit.name(),
        labels: M::LABELS,
        help,
    }
}

/// Defines a struct with one field for each family, and registers and describes all of them:
///
/// ```text
/// field: Type = initial value, "name without prefix and unit", Unit, "help";
/// ```
macro_rules! families {
    ($(#[$meta:meta])* $struct:ident { $($field:ident: $type:ty = $new:expr, $name:literal, $unit:ident, $help:literal;)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub(super) struct $struct {
            $(pub(super) $field: $type,)+
        }

        impl Default for $struct {
            fn default() -> Self {
                Self { $($field: $new,)+ }
            }
        }

        impl $struct {
            pub(super) fn register(&self, registry: &mut prometheus_client::registry::Registry) {
                $($crate::families::register(
                    registry,
                    $name,
                    $crate::families::UnitOf::$unit,
                    $help,
                    self.$field.clone(),
                );)+
            }

            pub(super) fn descriptions() -> Vec<$crate::families::Description> {
                vec![$($crate::families::describe::<$type>(
                    $name,
                    $crate::families::UnitOf::$unit,
                    $help,
                )),+]
            }
        }
    };
}

pub(super) use families;
