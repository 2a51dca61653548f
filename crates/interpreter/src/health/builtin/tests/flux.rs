use super::check;

const RETRYING: &str = "{type: Reconciling, status: 'True', reason: ProgressingWithRetry, \
    observedGeneration: 2}";

#[test]
fn a_release_is_assessed_by_its_newest_conditions() {
    let cases = r"
        installed | Healthy | InstallSucceeded | install succeeded | {metadata: {generation: 1}, status: {observedGeneration: 1,
            lastAttemptedRevision: 6.5.3, conditions: [{type: Ready, status: 'True',
            reason: InstallSucceeded, observedGeneration: 1, message: Helm install succeeded for
            release default/podinfo.v1 with chart podinfo@6.5.3}, {type: Released, status: 'True',
            reason: InstallSucceeded, observedGeneration: 1}]}}
        suspended | Suspended | suspend | | {metadata: {generation: 2}, spec: {suspend: true},
            status: {observedGeneration: 1, conditions: [{type: Ready, status: 'False',
            reason: UpgradeFailed, observedGeneration: 1}]}}
        not seen yet | Progressing | observedGeneration | generation -1 | {metadata:
            {generation: 1}, status: {observedGeneration: -1}}
        changed since | Progressing | observedGeneration | | {metadata: {generation: 2}, status:
            {observedGeneration: 1, conditions: [{type: Ready, status: 'True',
            reason: UpgradeSucceeded, observedGeneration: 1}]}}
        changed since it failed | Progressing | observedGeneration | | {metadata:
            {generation: 3}, status: {observedGeneration: 1, conditions: [{type: Ready,
            status: 'False', reason: UpgradeFailed, observedGeneration: 2}]}}
        upgrading | Progressing | Progressing | upgrade | {metadata: {generation: 2}, status:
            {observedGeneration: 1, conditions: [{type: Reconciling, status: 'True',
            reason: Progressing, observedGeneration: 2, message: Running 'upgrade' action},
            {type: Ready, status: Unknown, reason: Progressing, observedGeneration: 2,
            message: Running 'upgrade' action}]}}
        fails, and is tried again | Degraded | UpgradeFailed | timed out | {metadata:
            {generation: 2}, status: {observedGeneration: 1, conditions: [RETRYING, {type: Ready,
            status: 'False', reason: UpgradeFailed, observedGeneration: 2,
            message: timed out waiting for the condition}, {type: Released, status: 'False',
            reason: UpgradeFailed, observedGeneration: 2}]}}
        given up | Degraded | RetriesExceeded | | {metadata: {generation: 2}, status:
            {observedGeneration: 2, conditions: [{type: Stalled, status: 'True',
            reason: RetriesExceeded, observedGeneration: 2, message: Failed to upgrade after 1
            attempt(s)}, {type: Ready, status: 'False', reason: UpgradeFailed,
            observedGeneration: 2}]}}
        waits for another one | Progressing | DependencyNotReady | | {metadata:
            {generation: 2}, status: {observedGeneration: 1, conditions: [RETRYING,
            {type: Ready, status: 'False', reason: DependencyNotReady, observedGeneration: 2,
            message: dependency 'default/redis' is not ready}]}}
    ";
    check_retrying("helm.toolkit.fluxcd.io/v2", "HelmRelease", cases);
}

#[test]
fn sources_and_folders_are_assessed_by_their_newest_conditions() {
    let cases = r"
        fetched | Healthy | Succeeded | | {metadata: {generation: 2}, status: {observedGeneration: 2,
            artifact: {revision: main@sha1:abc}, conditions: [{type: Ready, status: 'True',
            reason: Succeeded, observedGeneration: 2}, {type: ArtifactInStorage, status: 'True',
            reason: Succeeded, observedGeneration: 2}]}}
        never fetched | Degraded | GitOperationFailed | remote ref | {metadata: {generation: 2},
            status: {observedGeneration: -1, conditions: [RETRYING, {type: Ready, status: 'False',
            reason: GitOperationFailed, observedGeneration: 2, message: couldn't find remote ref},
            {type: FetchFailed, status: 'True', reason: GitOperationFailed,
            observedGeneration: 2, message: couldn't find remote ref}]}}
    ";
    check_retrying("source.toolkit.fluxcd.io/v1", "GitRepository", cases);
    let cases = r"
        fails to build | Degraded | BuildFailed | path | {metadata: {generation: 2}, status:
            {observedGeneration: -1, conditions: [RETRYING, {type: Ready, status: 'False',
            reason: BuildFailed, observedGeneration: 2, message: path not found}]}}
        fails its health checks | Degraded | HealthCheckFailed | | {metadata: {generation: 2},
            status: {observedGeneration: 2, conditions: [{type: Healthy, status: 'False',
            reason: HealthCheckFailed}, {type: Ready, status: 'False',
            reason: HealthCheckFailed}]}}
    ";
    check_retrying("kustomize.toolkit.fluxcd.io/v1", "Kustomization", cases);
}

#[test]
fn a_registry_has_no_status() {
    let cases = r"
        a registry | Healthy | | | {metadata: {generation: 1}, spec: {type: oci}, status:
            {observedGeneration: -1}}
        a registry without any status | Healthy | | | {spec: {type: oci}}
        a registry, with an older Flux | Degraded | AuthenticationFailed | | {metadata:
            {generation: 1}, spec: {type: oci}, status: {observedGeneration: 1,
            conditions: [{type: Ready, status: 'False', reason: AuthenticationFailed}]}}
        a repository with an index | Progressing | observedGeneration | | {metadata:
            {generation: 1}, spec: {type: default}, status: {observedGeneration: -1}}
    ";
    check("source.toolkit.fluxcd.io/v1", "HelmRepository", cases);
}

/// Checks cases in which `RETRYING` stands for the condition of an object that is tried again.
fn check_retrying(api_version: &str, kind: &str, cases: &str) {
    check(api_version, kind, &cases.replace("RETRYING", RETRYING));
}
