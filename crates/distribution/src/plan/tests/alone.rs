use proptest::prelude::*;

use super::*;
use crate::desired::LAST_APPLIED;

/// What a user changes in a template.
#[derive(Clone, Copy, Debug)]
enum Change {
    Image,
    Applied,
    Replicas,
    Requests,
    Settings,
    Label,
    Hidden,
    Overwrites,
}

const CHANGES: [Change; 8] = [
    Change::Image,
    Change::Applied,
    Change::Replicas,
    Change::Requests,
    Change::Settings,
    Change::Label,
    Change::Hidden,
    Change::Overwrites,
];

impl Change {
    fn made(self, object: &Value) -> Value {
        let mut object = object.clone();
        let annotate = |object: &mut Value, key: &str, value: &str| {
            object["metadata"]["annotations"] = json!({key: value});
        };
        let template = &mut object["spec"]["template"]["spec"];
        match self {
            Self::Image => template["containers"][0]["image"] = "b".into(),
            Self::Requests => {
                template["containers"][0]["resources"]["requests"]["cpu"] = "2".into();
            }
            Self::Settings => template["volumes"][0]["configMap"]["name"] = "others".into(),
            Self::Replicas => object["spec"]["replicas"] = 5.into(),
            Self::Applied => {
                annotate(&mut object, LAST_APPLIED, "{}");
                object["metadata"]["generation"] = 2.into();
                object["spec"]["paused"] = true.into();
            }
            Self::Label => object["metadata"]["labels"] = json!({"tier": "web"}),
            Self::Hidden => object["metadata"]["labels"] = json!({CONTROL_PLANE_LABEL: "x"}),
            Self::Overwrites => annotate(
                &mut object,
                "work.karmada.io/conflict-resolution",
                "overwrite",
            ),
        }
        object
    }
}

fn settings(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "shop"}, "data": {"a": "b"}})
}

/// Two Deployments, of which the first changes, and what they need.
fn fleet(
    placement: usize,
    propagates: bool,
    room: i64,
    change: Option<Change>,
) -> DistributionInputs {
    let placement = [weighted(), by_room(), json!({})][placement].clone();
    let mut spec = selecting("Deployment", &placement);
    spec["propagateDeps"] = propagates.into();
    let web = deployment("a", 3, "1");
    let web = change.map_or(web.clone(), |change| change.made(&web));
    let templates = vec![
        web,
        deployment("b", 3, "1"),
        settings("settings"),
        settings("others"),
    ];
    let mut found = inputs(vec![policy("all", spec)], templates);
    for name in ["m1", "m2"] {
        let room = ClusterRoom::of_replicas(room);
        found.room.insert(name.to_owned(), room);
    }
    found
}

/// Where a plan has placed objects, as the next one knows it.
fn noted(mut inputs: DistributionInputs, plan: &DistributionPlan) -> DistributionInputs {
    for binding in &plan.bindings {
        let clusters = binding.clusters.iter();
        let previous = PreviousPlacement {
            clusters: clusters
                .map(|one| (one.name.clone(), one.replicas))
                .collect(),
            claimed_by: binding.claimed_by.clone(),
            is_needed_only: binding.policy.is_none(),
            placement: binding.spec.as_ref().map(|spec| spec.placement.clone()),
            ..PreviousPlacement::default()
        };
        let previous = Arc::new(previous);
        inputs.previous.insert(binding.resource.clone(), previous);
    }
    inputs
}

/// Whether the changed template may be planned alone, and whether that gives what a plan of
/// everything does.
fn alone(placement: usize, propagates: bool, room: i64, change: Change) -> (bool, bool) {
    let before = fleet(placement, propagates, room, None);
    let first = plan(&before, &BuiltIn);
    let before = noted(before, &first);
    let first = plan(&before, &BuiltIn);
    let after = noted(fleet(placement, propagates, room, Some(change)), &first);
    let is_changed = |one: &&NamedTemplate| one.name.name == "a";
    let template = after.templates.iter().find(is_changed).unwrap().clone();
    let old = before.templates.iter().find(is_changed).unwrap();
    let (name, object) = (template.name.clone(), Arc::clone(&template.object));
    let alone = DistributionInputs {
        templates: vec![template],
        ..after.clone()
    };
    let alone = plan(&alone, &BuiltIn);
    let holds = is_change_of_contents(&name, &old.object, &object)
        && alone.holds_alone(1, |binding| first.bindings.contains(binding));
    let mut expected = first;
    for one in &mut expected.objects {
        let same = |other: &&PlannedObject| {
            (&other.resource, &other.cluster) == (&one.resource, &one.cluster)
        };
        if one.resource == name
            && let Some(changed) = alone.objects.iter().find(same)
        {
            *one = changed.clone();
        }
    }
    (holds, expected == plan(&after, &BuiltIn))
}

proptest! {
    /// A template that is planned alone is as if everything was planned.
    #[test]
    fn a_plan_of_one_template_is_that_of_all(
        placement in 0..3_usize, propagates: bool, room in 1..9_i64, change in 0..CHANGES.len(),
    ) {
        let change = CHANGES[change];
        let (holds, is_same) = alone(placement, propagates, room, change);
        prop_assert!(!holds || is_same);
    }
}

#[test]
fn only_a_change_of_contents_is_planned_alone() {
    for (change, holds) in [
        (Change::Image, true),
        (Change::Applied, true),
        (Change::Replicas, false),
        (Change::Requests, false),
        (Change::Settings, true),
        (Change::Label, false),
        (Change::Hidden, false),
        (Change::Overwrites, false),
    ] {
        for placement in 0..3 {
            let (found, is_same) = alone(placement, false, 8, change);
            assert_eq!(found, holds, "{change:?}");
            assert!(!holds || is_same, "{change:?}");
            // What it needs goes where it goes.
            assert!(!alone(placement, true, 8, change).0, "{change:?}");
        }
    }
}
