use super::{
    Health::{Degraded, Healthy, Progressing, Suspended, Unknown},
    check,
};

#[test]
fn autoscalers_are_judged() {
    for api_version in [
        "autoscaling/v2",
        "autoscaling/v2beta1",
        "autoscaling/v2beta2",
    ] {
        check(
            api_version,
            "HorizontalPodAutoscaler",
            &[
                (
                    "able",
                    "{status: {conditions: [{type: AbleToScale, status: 'True', reason: ReadyForNewScale, message: recommended size matches}, \
                {type: ScalingActive, status: 'True', reason: ValidMetricFound}, {type: ScalingLimited, status: 'False'}]}}",
                    Healthy,
                    "",
                    "recommended size",
                ),
                (
                    "limited",
                    "{status: {conditions: [{type: ScalingLimited, status: 'True', reason: TooFewReplicas, message: at the minimum}]}}",
                    Healthy,
                    "",
                    "at the minimum",
                ),
                (
                    "at the maximum",
                    "{status: {conditions: [{type: AbleToScale, status: 'True'}, {type: ScalingLimited, status: 'True', reason: TooManyReplicas, message: more than the maximum}]}}",
                    Healthy,
                    "TooManyReplicas",
                    "more than the maximum",
                ),
                (
                    "no target",
                    "{status: {conditions: [{type: AbleToScale, status: 'False', reason: FailedGetScale, message: not found}, {type: ScalingActive, status: 'True'}]}}",
                    Degraded,
                    "FailedGetScale",
                    "not found",
                ),
                (
                    "cannot scale",
                    "{status: {conditions: [{type: AbleToScale, status: 'False'}]}}",
                    Degraded,
                    "NotAbleToScale",
                    "",
                ),
                (
                    "no metric",
                    "{status: {conditions: [{type: AbleToScale, status: 'True'}, {type: ScalingActive, status: 'False', reason: FailedGetResourceMetric, message: no metrics}]}}",
                    Degraded,
                    "FailedGetResourceMetric",
                    "no metrics",
                ),
                (
                    "selector",
                    "{status: {conditions: [{type: AbleToScale, status: 'True'}, {type: ScalingActive, status: 'False', reason: InvalidSelector}]}}",
                    Degraded,
                    "InvalidSelector",
                    "",
                ),
                (
                    "metric works again",
                    "{status: {conditions: [{type: AbleToScale, status: 'True'}, {type: ScalingActive, status: 'True', reason: FailedGetResourceMetric}]}}",
                    Healthy,
                    "",
                    "",
                ),
                (
                    "disabled",
                    "{status: {conditions: [{type: AbleToScale, status: 'True'}, {type: ScalingActive, status: 'False', reason: ScalingDisabled, message: replica count of the target is zero}]}}",
                    Suspended,
                    "ScalingDisabled",
                    "zero",
                ),
                (
                    "no status",
                    "{}",
                    Progressing,
                    "WaitingToAutoscale",
                    "waiting to autoscale",
                ),
                (
                    "odd conditions",
                    "{status: {conditions: [1, {type: 2, status: 3}]}}",
                    Progressing,
                    "WaitingToAutoscale",
                    "",
                ),
            ],
        );
    }
}

#[test]
fn autoscalers_of_version_1_are_judged_by_their_annotation() {
    check(
        "autoscaling/v1",
        "HorizontalPodAutoscaler",
        &[
            (
                "able",
                r#"{metadata: {annotations: {autoscaling.alpha.kubernetes.io/conditions: '[{"type":"AbleToScale","status":"True","message":"fine"}]'}}}"#,
                Healthy,
                "",
                "fine",
            ),
            (
                "no target",
                r#"{metadata: {annotations: {autoscaling.alpha.kubernetes.io/conditions: '[{"type":"AbleToScale","status":"False","reason":"FailedGetScale"}]'}}}"#,
                Degraded,
                "FailedGetScale",
                "",
            ),
            (
                "status is not read",
                "{status: {conditions: [{type: AbleToScale, status: 'True'}]}}",
                Progressing,
                "WaitingToAutoscale",
                "",
            ),
            (
                "empty annotation",
                "{metadata: {annotations: {autoscaling.alpha.kubernetes.io/conditions: ''}}}",
                Progressing,
                "WaitingToAutoscale",
                "",
            ),
            (
                "empty list",
                "{metadata: {annotations: {autoscaling.alpha.kubernetes.io/conditions: '[]'}}}",
                Progressing,
                "WaitingToAutoscale",
                "",
            ),
            (
                "not JSON",
                "{metadata: {annotations: {autoscaling.alpha.kubernetes.io/conditions: '[{'}}}",
                Unknown,
                "InvalidConditions",
                "not a list of conditions",
            ),
        ],
    );
}

#[test]
fn an_autoscaler_of_another_version_is_unknown() {
    let able = "{status: {conditions: [{type: AbleToScale, status: 'True'}]}}";
    for api_version in [
        "autoscaling/v3",
        "autoscaling/v2alpha1",
        "autoscaling/v20",
        "autoscaling/",
    ] {
        check(
            api_version,
            "HorizontalPodAutoscaler",
            &[("other", able, Unknown, "UnknownVersion", "version")],
        );
    }
}

#[test]
fn disruption_budgets_are_judged() {
    check(
        "policy/v1",
        "PodDisruptionBudget",
        &[
            (
                "fulfilled",
                "{metadata: {generation: 1}, status: {observedGeneration: 1, currentHealthy: 3, desiredHealthy: 2, disruptionsAllowed: 1}}",
                Healthy,
                "",
                "",
            ),
            (
                "no disruption allowed",
                "{status: {currentHealthy: 2, desiredHealthy: 2, disruptionsAllowed: 0, \
            conditions: [{type: DisruptionAllowed, status: 'False', reason: InsufficientPods}]}}",
                Healthy,
                "",
                "no disruption allowed now",
            ),
            (
                "too few",
                "{status: {currentHealthy: 1, desiredHealthy: 2}}",
                Degraded,
                "InsufficientPods",
                "1 pods are healthy, 2 are required",
            ),
            (
                "not observed",
                "{metadata: {generation: 2}, status: {observedGeneration: 1, currentHealthy: 1, desiredHealthy: 2}}",
                Progressing,
                "GenerationNotObserved",
                "",
            ),
            (
                "not in sync",
                "{status: {currentHealthy: 2, desiredHealthy: 2, conditions: [{type: DisruptionAllowed, status: 'False', reason: SyncFailed, message: no controller}]}}",
                Degraded,
                "SyncFailed",
                "no controller",
            ),
            (
                "in sync again",
                "{status: {disruptionsAllowed: 1, conditions: [{type: DisruptionAllowed, status: 'True', reason: SyncFailed}]}}",
                Healthy,
                "",
                "",
            ),
            ("no status", "{}", Progressing, "NoStatus", ""),
            (
                "odd counts",
                "{status: {currentHealthy: a, desiredHealthy: b}}",
                Healthy,
                "",
                "",
            ),
        ],
    );
}
