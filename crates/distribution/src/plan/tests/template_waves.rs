use fleetdex_crds::distribution::RolloutStatus;

use super::*;
use crate::{
    binding::{KnownBinding, binding},
    rollout::{RolloutPhase, SetHealth, TemplateWaves},
};

/// `m1` first.
const WAVES: &str = "waves: [{clusterAffinity: {clusterNames: [m1]}, pause: false}]";

fn waves(text: &str) -> TemplateWaves {
    let policy = json!({"metadata": {"annotations": {"distribute.fleetdex.io/rollout": text}}});
    TemplateWaves::of_policy(&policy).unwrap().unwrap()
}

fn fleet(image: &str, waves_of_policy: &str) -> DistributionInputs {
    let mut web = deployment("web", 2, "1");
    web["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
    let policy = policy("web", selecting("Deployment", &json!({})));
    let mut found = inputs(vec![policy.clone()], vec![web]);
    let waves = waves(waves_of_policy);
    found.waves.insert(policy.policy_name(), waves);
    found
}

/// Plans, and returns the clusters that are written, with the image, and the binding as the next
/// plan reads it.
fn planned(
    mut inputs: DistributionInputs,
    before: Option<PreviousPlacement>,
    health: &[(&str, SetHealth)],
) -> (Vec<String>, PreviousPlacement) {
    let name = inputs.templates[0].name.clone();
    if let Some(before) = before {
        inputs.previous.insert(name.clone(), Arc::new(before));
    }
    let health = health.iter();
    let health = health.map(|(cluster, health)| ((*cluster).to_owned(), health.clone()));
    inputs.wave_health.insert(name.clone(), health.collect());
    let plan = plan(&inputs, &BuiltIn);
    let written = plan.objects.iter().filter(|one| one.resource == name);
    let written = written.map(|one| {
        let object = one.object.value();
        let image = &object["spec"]["template"]["spec"]["containers"][0]["image"];
        format!("{} {}", one.cluster, image.as_str().unwrap())
    });
    let previous = inputs.previous.get(&name).map(Arc::as_ref);
    let stored = binding(
        &plan.bindings[0],
        &inputs.templates[0].object,
        &BTreeSet::new(),
        previous,
    );
    let read = KnownBinding::read(&stored).unwrap();
    (written.collect(), Arc::unwrap_or_clone(read.previous))
}

fn phase(previous: &PreviousPlacement) -> RolloutPhase {
    previous.rollout.as_ref().unwrap().phase
}

#[test]
fn a_changed_template_reaches_the_next_clusters_when_those_before_are_healthy() {
    let healthy = ("m1", SetHealth::Healthy);
    let sick = ("m1", SetHealth::Unhealthy("web: crashes".to_owned()));
    let (written, first) = planned(fleet("a", WAVES), None, &[]);
    assert_eq!(written, ["m1 a"]);
    assert_eq!(first.clusters.len(), 2, "it is placed in both");
    // Until it is known to be healthy nothing else happens, and it is repaired where it is.
    for health in [&[][..], std::slice::from_ref(&sick)] {
        let (written, next) = planned(fleet("a", WAVES), Some(first.clone()), health);
        assert_eq!(written, ["m1 a"]);
        assert_eq!(phase(&next), RolloutPhase::Progressing);
    }
    let (written, second) = planned(
        fleet("a", WAVES),
        Some(first),
        std::slice::from_ref(&healthy),
    );
    assert_eq!(written, ["m1 a", "m2 a"]);
    let both = [healthy.clone(), ("m2", SetHealth::Healthy)];
    let (written, complete) = planned(fleet("a", WAVES), Some(second), &both);
    assert_eq!(written, ["m1 a", "m2 a"]);
    assert_eq!(phase(&complete), RolloutPhase::Complete);
    // A change begins at the first wave again. What the others have is not touched.
    let (written, changed) = planned(fleet("b", WAVES), Some(complete.clone()), &both);
    assert_eq!(written, ["m1 b"]);
    // And a change back goes to all that may have it.
    let (written, back) = planned(fleet("a", WAVES), Some(changed.clone()), &[healthy]);
    assert_eq!(written, ["m1 a", "m2 a"]);
    assert_eq!(phase(&back), RolloutPhase::Progressing);
    // One that is not healthy holds the others.
    let (written, _) = planned(fleet("b", WAVES), Some(changed), &[sick]);
    assert_eq!(written, ["m1 b"]);
    // Without waves nothing waits.
    let mut without = fleet("b", WAVES);
    without.waves.clear();
    let (written, plain) = planned(without, Some(complete), &[]);
    assert_eq!(written, ["m1 b", "m2 b"]);
    assert_eq!(plain.rollout, None);
}

#[test]
fn a_wave_waits_to_be_resumed_and_for_the_whole_rollout() {
    let paused = "paused: true\nwaves: [{percent: 50}]";
    let (written, _) = planned(fleet("a", paused), None, &[]);
    assert!(written.is_empty(), "{written:?}");
    let pausing = "waves: [{percent: 50, pause: true}]";
    let (_, first) = planned(fleet("a", pausing), None, &[]);
    let healthy = [("m1", SetHealth::Healthy)];
    let (written, waiting) = planned(fleet("a", pausing), Some(first), &healthy);
    assert_eq!(written, ["m1 a"]);
    assert_eq!(phase(&waiting), RolloutPhase::Paused);
    let revision = waiting.rollout.as_ref().unwrap().revision.clone();
    let resumed = PreviousPlacement {
        resumed: crate::rollout::ResumedWave::parse(&format!("{revision}/1")),
        ..waiting
    };
    let (written, _) = planned(fleet("a", pausing), Some(resumed), &healthy);
    assert_eq!(written, ["m1 a", "m2 a"]);
}

#[test]
fn waves_that_make_no_sense_are_refused() {
    for (text, expected) in [
        ("waves: []", "waves is empty"),
        ("waves: [{healthyFor: soon}]", "waves[0].healthyFor"),
        ("waves: {", "is not written as spec.rollout"),
    ] {
        let policy = json!({"metadata": {"annotations": {"distribute.fleetdex.io/rollout": text}}});
        let error = TemplateWaves::of_policy(&policy).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(TemplateWaves::of_policy(&json!({})).unwrap(), None);
    let status = RolloutStatus::default();
    assert_eq!(crate::rollout::RolloutState::read(&status), None);
}
