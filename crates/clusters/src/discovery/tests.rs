use super::*;

const API: &[u8] = include_bytes!("../testdata/aggregated_api.json");
const APIS: &[u8] = include_bytes!("../testdata/aggregated_apis.json");

fn aggregated(body: &[u8]) -> Discovery {
    match parse_response(body).unwrap() {
        DiscoveryResponse::Aggregated(discovery) => discovery,
        DiscoveryResponse::Classic(_) => panic!("an aggregated answer was read as a classic one"),
    }
}

fn names(discovery: &Discovery) -> Vec<String> {
    discovery
        .served
        .iter()
        .map(|served| format!("{} {}", served.group_version(), served.resource.plural))
        .collect()
}

#[test]
fn an_aggregated_response_keeps_the_members_order() {
    let discovery = Discovery::join(aggregated(API), aggregated(APIS));
    assert_eq!(
        names(&discovery),
        [
            "v1 bindings",
            "v1 componentstatuses",
            "v1 namespaces",
            "v1 pods",
            "apps/v1 controllerrevisions",
            "apps/v1 deployments",
            "autoscaling/v2 horizontalpodautoscalers",
            "autoscaling/v1 horizontalpodautoscalers",
            "cluster.karmada.io/v1alpha1 clusters",
        ]
    );
    let preferred: Vec<bool> = discovery.served[6..8]
        .iter()
        .map(|served| served.preferred)
        .collect();
    assert_eq!(preferred, [true, false]);
}

#[test]
fn a_resource_has_its_names_scope_and_verbs() {
    let discovery = aggregated(API);
    let pods = &discovery.served[3];
    let words = |words: &[Arc<str>]| words.join(" ");
    let subresource = |name: &str| {
        pods.capabilities
            .subresources
            .iter()
            .find(|subresource| &*subresource.name == name)
            .unwrap()
    };
    assert_eq!(
        words(&pods.capabilities.verbs),
        "create delete deletecollection get list patch update watch"
    );
    assert_eq!(words(&pods.capabilities.categories), "all");
    assert_eq!(subresource("binding").kind, Gvk::new("", "v1", "Binding"));
    assert_eq!(words(&subresource("attach").verbs), "create get");
    assert_eq!(
        *pods,
        ServedResource {
            capabilities: Arc::clone(&pods.capabilities),
            resource: Resource {
                gvk: Gvk::new("", "v1", "Pod"),
                plural: "pods".into(),
                namespaced: true
            },
            singular: "pod".into(),
            short_names: vec!["po".into()],
            list_and_watch: true,
            preferred: true,
        }
    );
    let watchable: Vec<bool> = discovery
        .served
        .iter()
        .map(|served| served.list_and_watch)
        .collect();
    assert_eq!(watchable, [false, false, true, true]);
    assert!(!discovery.served[2].resource.namespaced);
}

#[test]
fn a_stale_group_is_unknown() {
    assert_eq!(
        aggregated(APIS).unknown,
        BTreeSet::from(["metrics.k8s.io/v1beta1".to_owned()])
    );
}

#[test]
fn a_version_without_any_resource_is_unknown() {
    let body = br#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"a"},"versions":[
            {"version":"v1","freshness":"Current","resources":[]}]}]}"#;
    assert_eq!(
        aggregated(body),
        Discovery {
            unknown: ["a/v1".to_owned()].into(),
            ..Discovery::default()
        }
    );
}

#[test]
fn an_unknown_group_keeps_its_known_resources() {
    let metrics = ServedResource {
        resource: Resource {
            gvk: Gvk::new("metrics.k8s.io", "v1beta1", "PodMetrics"),
            plural: "pods".into(),
            namespaced: true,
        },
        ..aggregated(API).served[3].clone()
    };
    let gone = ServedResource {
        resource: Resource {
            gvk: Gvk::new("gone.io", "v1", "Gone"),
            plural: "gones".into(),
            namespaced: true,
        },
        ..metrics.clone()
    };
    let previous = Discovery {
        served: vec![metrics.clone(), gone],
        ..Discovery::default()
    };
    let now = aggregated(APIS).retaining_unknown_of(&previous);
    assert_eq!(now.served.last(), Some(&metrics));
    assert_eq!(now.served.len(), aggregated(APIS).served.len() + 1);
    assert_eq!(now.clone().retaining_unknown_of(&now), now);
}

#[test]
fn retained_resources_of_failing_groups_are_limited() {
    let pods = aggregated(API).served[3].clone();
    let mut known = Discovery::default();
    for round in 0..5 {
        let gvk = Gvk::new(&format!("g{round}"), "v1", "A");
        let served = ServedResource {
            resource: Resource {
                gvk,
                ..pods.resource.clone()
            },
            ..pods.clone()
        };
        let unknown = (0..round).map(|before| format!("g{before}/v1")).collect();
        known = Discovery {
            served: vec![served; MAX_RESOURCES],
            unknown,
            left_out: 0,
        }
        .retaining_unknown_of(&known);
    }
    assert_eq!(known.served.len(), 2 * MAX_RESOURCES);
}

#[test]
fn classic_responses_list_the_preferred_version_first() {
    let core = parse_response(include_bytes!("../testdata/classic_api.json")).unwrap();
    assert_eq!(
        core,
        DiscoveryResponse::Classic(vec![GroupVersion {
            name: "v1".into(),
            preferred: true
        }])
    );
    let body = br#"{"kind":"APIGroupList","groups":[{"name":"a","versions":[{"groupVersion":"a/v1","version":"v1"},
            {"groupVersion":"a/v2","version":"v2"}],"preferredVersion":{"groupVersion":"a/v2","version":"v2"}}]}"#;
    let expected = [("a/v2", true), ("a/v1", false)].map(|(name, preferred)| GroupVersion {
        name: name.into(),
        preferred,
    });
    assert_eq!(
        parse_response(body).unwrap(),
        DiscoveryResponse::Classic(expected.to_vec())
    );
    assert_eq!(expected[0].path(), "/apis/a/v2");
}

#[test]
fn a_classic_resource_list_equals_the_aggregated_response() {
    let version = GroupVersion {
        name: "v1".into(),
        preferred: true,
    };
    let classic = DiscoveryReader::default()
        .resources(&version, include_bytes!("../testdata/classic_v1.json"))
        .unwrap();
    assert_eq!(
        classic,
        Discovery {
            served: aggregated(API).served,
            ..Discovery::default()
        }
    );
}

#[test]
fn other_json_is_an_error() {
    assert!(parse_response(br#"{"kind":"Status"}"#).is_err());
    assert!(parse_response(b"<html>").is_err());
}
