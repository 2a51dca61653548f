//! What share of the steps that it may take an evaluation takes (`fleetdex_core::fuel`).

use std::fmt;

use fleetdex_core::fuel::{MeteredEvaluation, SHARE_BOUNDS};
use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, TypedMetric},
};

use super::families::{Labelled, MetricLabel};

/// The label that names an evaluation.
const LABEL: &str = "evaluation";

/// A histogram for each kind of evaluation in this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct EvaluationSteps;

impl TypedMetric for EvaluationSteps {
    const TYPE: MetricType = MetricType::Histogram;
}

impl Labelled for EvaluationSteps {
    const LABELS: &'static [MetricLabel] = &[MetricLabel {
        name: LABEL,
        values: &{
            let mut names = [""; MeteredEvaluation::ALL.len()];
            let mut index = 0;
            while index < names.len() {
                names[index] = MeteredEvaluation::ALL[index].name();
                index += 1;
            }
            names
        },
    }];
}

impl EncodeMetric for EvaluationSteps {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for evaluation in MeteredEvaluation::ALL {
            let shares = evaluation.shares();
            let mut buckets: Vec<(f64, u64)> =
                SHARE_BOUNDS.into_iter().zip(shares.buckets).collect();
            // Beyond all bounds, which a histogram has to have.
            buckets.push((f64::MAX, 0));
            let labels = [(LABEL, evaluation.name())];
            encoder
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(shares.sum, shares.count(), &buckets, None)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
