use fleetdex_crds::distribution::RolloutWave;
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn rules(waves: &Value) -> Vec<WaveRules> {
    let waves: Vec<RolloutWave> = serde_json::from_value(waves.clone()).unwrap();
    waves
        .iter()
        .map(|wave| WaveRules::read(wave).unwrap())
        .collect()
}

fn clusters(names: &[&str]) -> Vec<TargetCluster> {
    let named = |name: &&str| TargetCluster {
        name: (*name).to_owned(),
        ..TargetCluster::default()
    };
    names.iter().map(named).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A fleet of four clusters, two waves and the rest.
struct Scene {
    rules: Vec<WaveRules>,
    clusters: Vec<TargetCluster>,
    health: BTreeMap<String, SetHealth>,
    kept: BTreeSet<String>,
    is_paused: bool,
    resumed: Option<ResumedWave>,
    undone: Option<String>,
    now: i64,
    state: Option<RolloutState>,
}

impl Scene {
    fn new(waves: &Value) -> Self {
        Self {
            rules: rules(waves),
            clusters: clusters(&["a", "b", "c", "d"]),
            health: BTreeMap::new(),
            kept: set(&["r1", "r2", "r3"]),
            is_paused: false,
            resumed: None,
            undone: None,
            now: 0,
            state: None,
        }
    }

    fn step(&mut self, revision: &str, seconds: i64) -> &RolloutState {
        self.now += seconds;
        let clusters: Vec<&TargetCluster> = self.clusters.iter().collect();
        let inputs = RolloutInputs {
            revision,
            kept: &self.kept,
            rules: &self.rules,
            clusters: &clusters,
            health: &self.health,
            is_paused: self.is_paused,
            resumed: self.resumed.as_ref(),
            undone: self.undone.as_deref(),
            now: at(self.now),
        };
        let next = RolloutState::next(self.state.as_ref(), &inputs);
        self.state.insert(next)
    }

    /// Until the rollout is complete.
    fn complete(&mut self, revision: &str) {
        for _ in 0..10 {
            if self.step(revision, 0).phase == RolloutPhase::Complete {
                return;
            }
        }
        panic!("{:?}", self.state);
    }

    fn is_sick(&mut self, cluster: &str) {
        let reason = SetHealth::Unhealthy("Deployment web: no image".to_owned());
        self.health.insert(cluster.to_owned(), reason);
    }

    /// Phase, waves that have begun, and what is reached.
    fn shown(&self) -> String {
        let state = self.state.as_ref().unwrap();
        let reached: Vec<&str> = state.reached.iter().map(String::as_str).collect();
        format!(
            "{} {}/{} {}",
            state.phase.as_str(),
            state.wave,
            state.waves,
            reached.join(" ")
        )
    }
}

fn two_waves() -> Value {
    json!([{"clusterAffinity": {"clusterNames": ["b"]}}, {"percent": 75}])
}

#[test]
fn waves_take_what_those_before_have_left() {
    let named = |names: &[&str]| json!({"clusterAffinity": {"clusterNames": names}});
    for (waves, reached, expected) in [
        (json!([]), &[][..], vec!["a b c d"]),
        (two_waves(), &[], vec!["b", "a c", "d"]),
        // Rounded up.
        (json!([{"percent": 1}]), &[], vec!["a", "b c d"]),
        (json!([{"percent": 100}]), &[], vec!["a b c d"]),
        // What is reached comes first.
        (json!([{"percent": 50}]), &["d"], vec!["a d", "b c"]),
        (json!([named(&["x"]), {}]), &[], vec!["", "a b c d"]),
        (
            json!([named(&["a", "b", "c"]), {"percent": 50}]),
            &[],
            vec!["a b c", "", "d"],
        ),
    ] {
        let all = clusters(&["a", "b", "c", "d"]);
        let all: Vec<&TargetCluster> = all.iter().collect();
        let found = super::waves(&rules(&waves), &all, &set(reached));
        let shown: Vec<String> = found
            .iter()
            .map(|wave| wave.iter().cloned().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(shown, expected, "{waves}");
    }
}

#[test]
fn what_makes_no_sense_in_a_wave_is_named() {
    for (wave, field) in [
        (json!({"healthyFor": "soon"}), "healthyFor"),
        (json!({"deadline": "1"}), "deadline"),
        (json!({"percent": -1}), "percent"),
        (json!({"percent": 1, "clusterAffinity": {}}), "percent"),
    ] {
        let wave: RolloutWave = serde_json::from_value(wave).unwrap();
        assert_eq!(WaveRules::read(&wave), Err(field));
    }
    let wave = json!({"healthyFor": "1h30m", "maxUnhealthy": 2});
    let read = rules(&json!([wave]));
    assert_eq!(read[0].healthy_for, SignedDuration::from_mins(90));
    assert_eq!(read[0].max_unhealthy, 2);
    assert_eq!(read[0].deadline, SignedDuration::from_mins(10));
}

#[test]
fn waves_begin_one_after_the_other_and_then_the_revision_is_stable() {
    let mut scene = Scene::new(&two_waves());
    for expected in [
        "Progressing 1/3 b",
        "Progressing 2/3 a b c",
        "Progressing 3/3 a b c d",
        "Complete 3/3 ",
    ] {
        scene.step("r1", 1);
        assert_eq!(scene.shown(), expected);
    }
    let state = scene.state.clone().unwrap();
    assert_eq!(state.stable.as_deref(), Some("r1"));
    // One that joins has it at once, and that one is unhealthy later changes nothing.
    scene.clusters.extend(clusters(&["e"]));
    scene.is_sick("a");
    scene.step("r1", 3_600);
    assert_eq!(scene.shown(), "Complete 3/3 ");
    assert!(scene.state.as_ref().unwrap().reaches("e"));
}

#[test]
fn a_wave_that_is_not_healthy_in_time_has_failed_and_says_why() {
    let mut scene = Scene::new(&two_waves());
    scene.is_sick("b");
    scene.step("r1", 0);
    scene.step("r1", 599);
    assert_eq!(scene.shown(), "Progressing 1/3 b");
    scene.step("r1", 1);
    assert_eq!(scene.shown(), "Failed 1/3 b");
    let message = scene.state.as_ref().unwrap().message.clone();
    assert_eq!(message, "wave 1 of 3: b: Deployment web: no image");
    // A restart does not know how it is, and what has failed stays so.
    scene.health.insert("b".to_owned(), SetHealth::Unknown);
    scene.step("r1", 1);
    assert_eq!(scene.shown(), "Failed 1/3 b");
    scene.is_sick("b");
    // Resumed by its number, and not by another one's.
    let resumed = |revision: &str, wave: usize| ResumedWave::parse(&format!("{revision}/{wave}"));
    for (other, expected) in [
        (resumed("r0", 1), "Failed 1/3 b"),
        (resumed("r1", 2), "Failed 1/3 b"),
        (resumed("r1", 1), "Progressing 2/3 a b c"),
    ] {
        scene.resumed = other;
        scene.step("r1", 1);
        assert_eq!(scene.shown(), expected);
    }
    scene.step("r1", 600);
    assert_eq!(scene.shown(), "Failed 2/3 a b c");
    scene.health.clear();
    scene.step("r1", 1);
    assert_eq!(scene.shown(), "Progressing 3/3 a b c d");
}

#[test]
fn a_wave_waits_for_its_time_its_clusters_and_its_user() {
    let waves = json!([{"percent": 50, "healthyFor": "1m", "maxUnhealthy": 1, "pause": true}]);
    let mut scene = Scene::new(&waves);
    scene.step("r1", 0);
    scene.is_sick("a");
    scene.health.insert("b".to_owned(), SetHealth::Unknown);
    scene.step("r1", 60);
    assert_eq!(scene.shown(), "Progressing 1/2 a b");
    scene.health.remove("b");
    scene.step("r1", 1);
    scene.step("r1", 59);
    assert_eq!(scene.shown(), "Progressing 1/2 a b");
    scene.step("r1", 1);
    assert_eq!(scene.shown(), "Paused 1/2 a b");
    scene.is_paused = true;
    scene.resumed = ResumedWave::parse("r1/1");
    scene.step("r1", 1);
    assert_eq!(scene.shown(), "Paused 1/2 a b");
    scene.is_paused = false;
    scene.step("r1", 1);
    assert_eq!(scene.shown(), "Progressing 2/2 a b c d");
}

#[test]
fn a_new_revision_begins_again_and_the_stable_one_stays() {
    let mut scene = Scene::new(&two_waves());
    scene.complete("r1");
    scene.step("r2", 1);
    scene.step("r2", 1);
    assert_eq!(scene.shown(), "Progressing 2/3 a b c");
    scene.step("r3", 1);
    assert_eq!(scene.shown(), "Progressing 1/3 b");
    let state = scene.state.clone().unwrap();
    assert_eq!(state.stable.as_deref(), Some("r1"));
    assert!(!state.reaches("a"));
    // Back to what the others have: nothing is held back.
    scene.step("r1", 1);
    assert_eq!(scene.shown(), "Progressing 3/3 a b c d");
    scene.step("r1", 1);
    assert_eq!(scene.shown(), "Complete 3/3 ");
    // While it is paused no wave begins, not even the first.
    scene.is_paused = true;
    scene.step("r2", 1);
    assert_eq!(scene.shown(), "Paused 0/3 ");
}

#[test]
fn an_undo_ends_where_it_was() {
    let mut scene = Scene::new(&two_waves());
    // There is nothing to go back to.
    scene.undone = Some("r1".to_owned());
    scene.complete("r1");
    assert_eq!(scene.state.as_ref().unwrap().undone_to(), None);
    scene.undone = None;
    scene.step("r2", 1);
    for undone in ["r1", "r2"] {
        scene.undone = Some(undone.to_owned());
        scene.step("r2", 1);
    }
    assert_eq!(scene.shown(), "Undone 0/3 ");
    let state = scene.state.clone().unwrap();
    assert_eq!(state.stable.as_deref(), Some("r1"));
    assert_eq!(state.message, "revision r2 is undone: all clusters have r1");
    // Another one is rolled out as usual, and so is this one when it is not undone any more.
    scene.step("r3", 1);
    assert_eq!(scene.shown(), "Progressing 1/3 b");
    scene.undone = None;
    scene.complete("r2");
    // One that is complete goes back to the stable one before it.
    scene.undone = Some("r2".to_owned());
    let undone_to = scene.state.as_ref().unwrap().undone_to();
    assert_eq!(undone_to, Some("r1"));
    scene.kept = set(&["r2"]);
    scene.step("r2", 1);
    assert_eq!(scene.shown(), "Complete 3/3 ", "r1 is not kept");
    let message = &scene.state.as_ref().unwrap().message;
    assert!(message.starts_with("it cannot be undone"), "{message}");
    scene.kept = set(&["r1", "r2"]);
    scene.step("r2", 1);
    assert_eq!(scene.shown(), "Undone 0/3 ");
    assert_eq!(scene.state.as_ref().unwrap().stable.as_deref(), Some("r1"));
}

#[test]
fn without_clusters_nothing_begins_and_nothing_is_complete() {
    let mut scene = Scene::new(&json!([]));
    scene.clusters.clear();
    scene.step("r1", 1);
    assert_eq!(scene.shown(), "Progressing 0/0 ");
    scene.clusters = clusters(&["a"]);
    scene.step("r1", 1);
    assert_eq!(scene.shown(), "Progressing 1/1 a");
}

#[derive(Clone, Debug)]
enum Event {
    Health(Vec<u8>),
    Fleet(u8),
    Time(i64),
    Paused(bool),
    Resumed(u8, usize),
    Undone(u8),
    Revision(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => proptest::collection::vec(0_u8..3, 6).prop_map(Event::Health),
        1 => any::<u8>().prop_map(Event::Fleet),
        4 => (0_i64..400).prop_map(Event::Time),
        1 => any::<bool>().prop_map(Event::Paused),
        1 => (1_u8..4, 1_usize..4).prop_map(|(revision, wave)| Event::Resumed(revision, wave)),
        1 => (0_u8..4).prop_map(Event::Undone),
        1 => (1_u8..4).prop_map(Event::Revision),
    ]
}

fn happens(scene: &mut Scene, revision: &mut String, event: Event) {
    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    match event {
        Event::Health(states) => {
            let health = |state: u8| match state {
                0 => SetHealth::Healthy,
                1 => SetHealth::Unhealthy("sick".to_owned()),
                _ => SetHealth::Unknown,
            };
            let states = NAMES.iter().zip(states);
            scene.health = states
                .map(|(name, state)| ((*name).to_owned(), health(state)))
                .collect();
        }
        Event::Fleet(bits) => {
            let there = NAMES.iter().enumerate();
            let there = there.filter(|(position, _)| bits & (1 << position) != 0);
            let names: Vec<&str> = there.map(|(_, name)| *name).collect();
            scene.clusters = clusters(&names);
        }
        Event::Time(seconds) => scene.now += seconds,
        Event::Paused(is_paused) => scene.is_paused = is_paused,
        Event::Resumed(number, wave) => {
            scene.resumed = ResumedWave::parse(&format!("r{number}/{wave}"));
        }
        Event::Undone(number) => scene.undone = Some(format!("r{number}")),
        Event::Revision(number) => *revision = format!("r{number}"),
    }
}

proptest! {
    #[test]
    fn in_any_history_waves_wait_and_what_is_reached_stays_so(
        events in proptest::collection::vec(event(), 1..60),
        max_unhealthy in 0_usize..3,
    ) {
        let mut scene = Scene::new(&json!([
            {"clusterAffinity": {"clusterNames": ["b"]}, "maxUnhealthy": max_unhealthy},
            {"percent": 50, "healthyFor": "1m", "maxUnhealthy": max_unhealthy},
        ]));
        let mut revision = "r1".to_owned();
        for event in events {
            happens(&mut scene, &mut revision, event);
            let before = scene.state.clone();
            let after = scene.step(&revision, 0).clone();
            let status = serde_json::to_value(after.status(Vec::new())).unwrap();
            let status = serde_json::from_value(status).unwrap();
            prop_assert_eq!(RolloutState::read(&status), Some(after.clone()));
            let Some(before) = before.filter(|before| before.revision == revision) else {
                continue;
            };
            let is_undone = after.phase == RolloutPhase::Undone;
            if is_undone {
                prop_assert_eq!(after.stable.as_deref(), before.undone_to());
                prop_assert!(after.reached.is_empty());
                continue;
            }
            let was_undone = before.phase == RolloutPhase::Undone;
            if was_undone || before.phase == RolloutPhase::Complete {
                continue;
            }
            let is_complete = after.phase == RolloutPhase::Complete;
            prop_assert!(is_complete || after.reached.is_superset(&before.reached));
            let is_stable = before.stable.as_ref() == Some(&revision);
            if (after.wave <= before.wave && !is_complete) || before.wave == 0 || is_stable {
                continue;
            }
            let sick = scene.clusters.iter().filter(|one| before.reached.contains(&one.name));
            let sick = sick.filter(|one| {
                scene.health.get(&one.name).is_some_and(|health| *health != SetHealth::Healthy)
            });
            // A wave of the rest is gone with its clusters.
            let wave = before.wave.min(after.waves);
            let allowed = if wave <= 2 { max_unhealthy } else { 0 };
            let resumed = ResumedWave { revision: revision.clone(), wave };
            let is_resumed = scene.resumed.as_ref() == Some(&resumed);
            prop_assert!(is_resumed || sick.count() <= allowed, "{before:?} {after:?}");
        }
    }
}
