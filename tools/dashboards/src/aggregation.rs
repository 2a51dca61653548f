//! Aggregations of visualizations, in Dashboards' own notation.
//!
//! Their order is that of nesting: buckets first to last, metrics in the innermost.

use serde_json::{Value, json};

/// The id of the first metric of every visualization, by which buckets are ordered.
const FIRST_METRIC: &str = "1";

/// Where a visualization shows a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BucketRole {
    /// Rows of a table.
    Row,
    /// Slices of a pie, or the categories of an axis.
    Segment,
    /// Series of a chart.
    Series,
}

impl BucketRole {
    fn schema(self) -> &'static str {
        match self {
            Self::Row => "bucket",
            Self::Segment => "segment",
            Self::Series => "group",
        }
    }
}

/// A metric: `count`, or an aggregation of the values of one field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetricAggregation {
    /// `count`, `cardinality`, `sum` …
    pub(crate) function: &'static str,
    /// The field; empty for `count`.
    pub(crate) field: &'static str,
    /// What people read.
    pub(crate) label: &'static str,
}

/// Buckets of the values of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BucketAggregation {
    /// The most frequent values.
    Terms {
        field: &'static str,
        /// How many values.
        size: u32,
        /// What people read.
        label: &'static str,
        /// A regular expression of the values to count; empty for all.
        include: &'static str,
        /// Where the buckets are shown.
        role: BucketRole,
    },
    /// Intervals of time, of a length that fits the range of time that is shown.
    Times { field: &'static str },
}

pub(crate) const fn count(label: &'static str) -> MetricAggregation {
    MetricAggregation {
        function: "count",
        field: "",
        label,
    }
}

/// How many values a field has.
pub(crate) const fn distinct(field: &'static str, label: &'static str) -> MetricAggregation {
    MetricAggregation {
        function: "cardinality",
        field,
        label,
    }
}

pub(crate) const fn sum(field: &'static str, label: &'static str) -> MetricAggregation {
    MetricAggregation {
        function: "sum",
        field,
        label,
    }
}

pub(crate) const fn terms(
    role: BucketRole,
    field: &'static str,
    size: u32,
    label: &'static str,
) -> BucketAggregation {
    BucketAggregation::Terms {
        field,
        size,
        label,
        include: "",
        role,
    }
}

/// The member `aggs` of a visualization's state.
pub(crate) fn aggregations(metrics: &[MetricAggregation], buckets: &[BucketAggregation]) -> Value {
    let first_bucket = metrics.len() + 1;
    let metrics = (1..).zip(metrics).map(|(id, metric)| metric.json(id));
    let buckets = (first_bucket..)
        .zip(buckets)
        .map(|(id, bucket)| bucket.json(id));
    metrics.chain(buckets).collect()
}

impl MetricAggregation {
    fn json(&self, id: usize) -> Value {
        let mut params = json!({ "customLabel": self.label });
        if !self.field.is_empty() {
            params["field"] = self.field.into();
        }
        json!({ "id": id.to_string(), "enabled": true, "type": self.function, "schema": "metric", "params": params })
    }
}

impl BucketAggregation {
    fn json(&self, id: usize) -> Value {
        let (function, schema, params) = match *self {
            Self::Terms {
                field,
                size,
                label,
                include,
                role,
            } => {
                let mut params = json!({
                    "field": field,
                    "orderBy": FIRST_METRIC,
                    "order": "desc",
                    "size": size,
                    // The rest would be a second request.
                    "otherBucket": false,
                    "otherBucketLabel": "Other",
                    "missingBucket": false,
                    "missingBucketLabel": "Missing",
                    "customLabel": label,
                });
                if !include.is_empty() {
                    params["include"] = include.into();
                }
                ("terms", role.schema(), params)
            }
            Self::Times { field } => {
                let params = json!({
                    "field": field,
                    "interval": "auto",
                    "useNormalizedOpenSearchInterval": true,
                    "scaleMetricValues": false,
                    "drop_partials": false,
                    "min_doc_count": 1,
                    "extended_bounds": {},
                });
                ("date_histogram", BucketRole::Segment.schema(), params)
            }
        };
        json!({ "id": id.to_string(), "enabled": true, "type": function, "schema": schema, "params": params })
    }
}
