//! What holds whatever happens: clusters that come and go, hooks that fail or do not answer, other
//! revisions, and other processes.

use super::*;

/// Something that happens.
#[derive(Clone, Debug)]
enum Happening {
    /// A look at the clusters.
    Look,
    /// A cluster says what has become of its task.
    Answer { cluster: usize, succeeds: bool },
    /// A cluster joins or leaves.
    Join(usize),
    /// All clusters get another revision.
    Revision,
    /// A user asks for another run.
    Retry,
    /// Time goes by.
    Wait(i64),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => Just(Happening::Look),
        6 => (0..3_usize, prop::bool::weighted(0.8))
            .prop_map(|(cluster, succeeds)| Happening::Answer { cluster, succeeds }),
        1 => (0..3_usize).prop_map(Happening::Join),
        1 => Just(Happening::Revision),
        1 => Just(Happening::Retry),
        1 => (1..90_i64).prop_map(Happening::Wait),
    ]
}

/// What the clusters have seen.
#[derive(Default)]
struct Witness {
    /// The hooks that have succeeded in the current step of a cluster, by revision.
    succeeded: BTreeMap<(String, String), Vec<String>>,
    /// The runs of each cluster, and how often each was new.
    runs: BTreeSet<(String, String)>,
}

const CLUSTERS: [&str; 3] = ["m1", "m2", "m3"];

impl Witness {
    /// A cluster answers.
    fn answer(&mut self, scene: &mut Scene, cluster: &str, succeeds: bool) {
        let mut tasks = scene.tasks().into_iter();
        let Some(task) = tasks.find(|task| task.cluster == cluster) else {
            return;
        };
        if let HookAction::Run(hook) = &task.action {
            let step = hook.run.rsplit_once('-').unwrap().0;
            let key = (
                cluster.to_owned(),
                format!("{} {step}", scene.state.revision),
            );
            let seen = self.succeeded.entry(key).or_default();
            let name = hook.name.name.clone();
            if name == "a" {
                seen.clear();
            }
            if succeeds && seen.last() != Some(&name) {
                seen.push(name);
            }
            self.runs.insert((cluster.to_owned(), hook.run.clone()));
        }
        let outcome = if succeeds {
            HookOutcome::Succeeded
        } else {
            HookOutcome::failed("no")
        };
        let report = HookReport {
            key: task.key,
            outcome,
        };
        scene.reports.insert(task.cluster, report);
    }

    fn check(&self, scene: &Scene, before: &HookState) {
        let state = &scene.state;
        assert!(state.prepared.is_subset(&state.installed));
        assert!(state.installed.is_subset(&scene.clusters));
        assert!(state.under_way.len() <= MOST_UNDER_WAY);
        for cluster in state.prepared.difference(&before.prepared) {
            let step = if before.installed.contains(cluster) {
                "pre-upgrade"
            } else {
                "pre-install"
            };
            let key = (cluster.clone(), format!("{} {step}", state.revision));
            assert_eq!(
                self.succeeded.get(&key).map(|seen| seen.join(" ")),
                Some("a b".to_owned()),
                "{cluster} has objects before its hooks have succeeded in their order"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_cluster_has_objects_before_its_hooks_and_each_hook_runs_once(
        happenings in prop::collection::vec(happening(), 1..120),
    ) {
        let steps = "pre-install pre-upgrade";
        let hooks = vec![
            hook("a", steps, "before succeeded"),
            hook("b", steps, "failed"),
            hook("c", "post-install post-upgrade", "before"),
        ];
        let mut scene = Scene::new(hooks, &CLUSTERS);
        let mut witness = Witness::default();
        let (mut revision, mut begun) = (1, 0);
        for one in happenings {
            let before = scene.state.clone();
            match one {
                Happening::Look => scene.look(),
                Happening::Answer { cluster, succeeds } => {
                    witness.answer(&mut scene, CLUSTERS[cluster], succeeds);
                }
                Happening::Join(cluster) => {
                    let name = CLUSTERS[cluster].to_owned();
                    if !scene.clusters.remove(&name) {
                        scene.clusters.insert(name);
                    }
                    scene.due.clone_from(&scene.clusters);
                }
                Happening::Revision => {
                    revision += 1;
                    scene.another_revision(&format!("r{revision}"), false);
                    continue;
                }
                Happening::Retry => scene.retried = format!("{}", scene.now),
                Happening::Wait(seconds) => scene.now += seconds,
            }
            if matches!(one, Happening::Look) {
                witness.check(&scene, &before);
            }
            // A step is a new one only if the one before was over, or has failed.
            for (cluster, hook) in &scene.state.under_way {
                let was = before.under_way.get(cluster);
                if was.is_none_or(|was| was.began != hook.began) {
                    begun += 1;
                    prop_assert!(was.is_none_or(|was| was.has_failed() || was.step != hook.step));
                    prop_assert_eq!(hook.position, 0);
                }
            }
        }
        // Each step has two hooks at most, and each of them one run.
        prop_assert!(witness.runs.len() <= 2 * begun);
    }
}
