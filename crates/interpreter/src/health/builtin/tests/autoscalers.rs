use super::check;

#[test]
fn autoscalers_are_judged() {
    for api_version in [
        "autoscaling/v2",
        "autoscaling/v2beta1",
        "autoscaling/v2beta2",
    ] {
        let cases = r"
            able | Healthy | | recommended size | {status: {conditions: [{type: AbleToScale,
                status: 'True', reason: ReadyForNewScale, message: recommended size matches},
                {type: ScalingActive, status: 'True', reason: ValidMetricFound},
                {type: ScalingLimited, status: 'False'}]}}
            limited | Healthy | | at the minimum | {status: {conditions: [{type: ScalingLimited,
                status: 'True', reason: TooFewReplicas, message: at the minimum}]}}
            at the maximum | Healthy | TooManyReplicas | more than the maximum
                | {status: {conditions: [{type: AbleToScale, status: 'True'},
                {type: ScalingLimited, status: 'True', reason: TooManyReplicas,
                message: more than the maximum}]}}
            no target | Degraded | FailedGetScale | not found | {status: {conditions: [{type:
                AbleToScale, status: 'False', reason: FailedGetScale, message: not found},
                {type: ScalingActive, status: 'True'}]}}
            cannot scale | Degraded | NotAbleToScale |
                | {status: {conditions: [{type: AbleToScale, status: 'False'}]}}
            no metric | Degraded | FailedGetResourceMetric | no metrics | {status: {conditions:
                [{type: AbleToScale, status: 'True'}, {type: ScalingActive, status: 'False',
                reason: FailedGetResourceMetric, message: no metrics}]}}
            selector | Degraded | InvalidSelector | | {status: {conditions: [{type: AbleToScale,
                status: 'True'}, {type: ScalingActive, status: 'False', reason: InvalidSelector}]}}
            metric works again | Healthy | | | {status: {conditions: [{type: AbleToScale,
                status: 'True'}, {type: ScalingActive, status: 'True', reason:
                FailedGetResourceMetric}]}}
            disabled | Suspended | ScalingDisabled | zero | {status: {conditions: [{type:
                AbleToScale, status: 'True'}, {type: ScalingActive, status: 'False',
                reason: ScalingDisabled, message: replica count of the target is zero}]}}
            no status | Progressing | WaitingToAutoscale | waiting to autoscale | {}
            odd conditions | Progressing | WaitingToAutoscale |
                | {status: {conditions: [1, {type: 2, status: 3}]}}
        ";
        check(api_version, "HorizontalPodAutoscaler", cases);
    }
}

#[test]
fn autoscalers_of_version_1_are_judged_by_their_annotation() {
    let cases = r#"
        able | Healthy | | fine | {metadata: {annotations:
            {autoscaling.alpha.kubernetes.io/conditions:
            '[{"type":"AbleToScale","status":"True","message":"fine"}]'}}}
        no target | Degraded | FailedGetScale | | {metadata: {annotations:
            {autoscaling.alpha.kubernetes.io/conditions:
            '[{"type":"AbleToScale","status":"False","reason":"FailedGetScale"}]'}}}
        status is not read | Progressing | WaitingToAutoscale |
            | {status: {conditions: [{type: AbleToScale, status: 'True'}]}}
        empty annotation | Progressing | WaitingToAutoscale |
            | {metadata: {annotations: {autoscaling.alpha.kubernetes.io/conditions: ''}}}
        empty list | Progressing | WaitingToAutoscale |
            | {metadata: {annotations: {autoscaling.alpha.kubernetes.io/conditions: '[]'}}}
        not JSON | Unknown | InvalidConditions | not a list of conditions
            | {metadata: {annotations: {autoscaling.alpha.kubernetes.io/conditions: '[{'}}}
    "#;
    check("autoscaling/v1", "HorizontalPodAutoscaler", cases);
}

#[test]
fn an_autoscaler_of_another_version_is_unknown() {
    for api_version in [
        "autoscaling/v3",
        "autoscaling/v2alpha1",
        "autoscaling/v20",
        "autoscaling/",
    ] {
        let cases = r"
            other | Unknown | UnknownVersion | version
                | {status: {conditions: [{type: AbleToScale, status: 'True'}]}}
        ";
        check(api_version, "HorizontalPodAutoscaler", cases);
    }
}

#[test]
fn disruption_budgets_are_judged() {
    let cases = r"
        fulfilled | Healthy | | | {metadata: {generation: 1}, status: {observedGeneration: 1,
            currentHealthy: 3, desiredHealthy: 2, disruptionsAllowed: 1}}
        no disruption allowed | Healthy | | no disruption allowed now | {status: {currentHealthy: 2,
            desiredHealthy: 2, disruptionsAllowed: 0, conditions: [{type: DisruptionAllowed,
            status: 'False', reason: InsufficientPods}]}}
        too few | Degraded | InsufficientPods | 1 pods are healthy, 2 are required
            | {status: {currentHealthy: 1, desiredHealthy: 2}}
        not observed | Progressing | GenerationNotObserved | | {metadata: {generation: 2},
            status: {observedGeneration: 1, currentHealthy: 1, desiredHealthy: 2}}
        not in sync | Degraded | SyncFailed | no controller | {status: {currentHealthy: 2,
            desiredHealthy: 2, conditions: [{type: DisruptionAllowed, status: 'False',
            reason: SyncFailed, message: no controller}]}}
        in sync again | Healthy | | | {status: {disruptionsAllowed: 1, conditions: [{type:
            DisruptionAllowed, status: 'True', reason: SyncFailed}]}}
        no status | Progressing | NoStatus | | {}
        odd counts | Healthy | | | {status: {currentHealthy: a, desiredHealthy: b}}
    ";
    check("policy/v1", "PodDisruptionBudget", cases);
}
