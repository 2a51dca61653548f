use fleetdex_core::{
    kinds,
    model::{ClusterName, FieldPath, FieldType, Gvk, SelectableField},
    query::{
        CheckedQuery, Grant, MAX_CLAUSES, MAX_LIMIT, Owners, Permitted, Query, Requester,
        ResourceName, Selectable, Sort, SortKey, ValueField, ValuePrefix, ValuesQuery,
    },
};
use serde_json::{Value, json};

use super::*;

fn query(resource: &str, labels: &str, fields: &str) -> Query {
    let built_in = kinds::resolve(resource).unwrap();
    let name = ResourceName::new(built_in.group, built_in.plural);
    Query {
        labels: labels.parse().unwrap(),
        fields: fields.parse().unwrap(),
        ..Query::all_of(name, Selectable::of(&built_in.gvk(), &[]), 100)
    }
}

fn widgets(fields: &str) -> Query {
    let color = FieldPath::new("spec.color");
    let registered = [SelectableField {
        path: color.clone(),
        sources: vec![color],
        kind: FieldType::Optional,
    }];
    let selectable = Selectable::of(&Gvk::new("example.com", "v1", "Widget"), &registered);
    Query {
        fields: fields.parse().unwrap(),
        ..Query::all_of(ResourceName::new("example.com", "widgets"), selectable, 100)
    }
}

/// The clauses after group and resource, one a line.
fn clauses(query: &Query) -> String {
    let clause = query_clause(&CheckedQuery::new(query).unwrap());
    let list = |name: &str| clause["bool"][name].as_array().cloned().unwrap_or_default();
    let filter = list("filter")
        .into_iter()
        .skip(2)
        .map(|value| format!("filter {value}"));
    let must_not = list("must_not")
        .into_iter()
        .map(|value| format!("must_not {value}"));
    filter.chain(must_not).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_permission_is_part_of_the_query() {
    let grant = |clusters: &[&str], namespaces: Option<&[&str]>| Grant {
        clusters: Some(clusters.iter().map(|name| name.parse().unwrap()).collect())
            .filter(|names: &Vec<_>| !names.is_empty()),
        namespaces: namespaces
            .map(|names| names.iter().map(|name| name.parse().unwrap()).collect()),
    };
    let seen = |grants: Vec<Grant>| {
        clauses(&Query {
            permitted: Permitted::Only(grants),
            ..query("pods", "", "")
        })
    };
    insta::assert_snapshot!(seen(vec![grant(&[], Some(&["web", "db"]))]), @r#"filter {"terms":{"metadata.namespace":["web","db"]}}"#);
    insta::assert_snapshot!(seen(vec![grant(&["a"], Some(&["web"])), grant(&["b"], None)]), @r#"filter {"bool":{"should":[{"bool":{"filter":[{"term":{"cluster":"a"}},{"term":{"metadata.namespace":"web"}}]}},{"bool":{"filter":[{"term":{"cluster":"b"}}]}}],"minimum_should_match":1}}"#);
    insta::assert_snapshot!(seen(vec![grant(&["a"], Some(&[]))]), @r#"filter {"match_none":{}}"#);
    insta::assert_snapshot!(seen(Vec::new()), @r#"filter {"match_none":{}}"#);
    insta::assert_snapshot!(seen(vec![grant(&["a"], Some(&["web"])), grant(&[], None)]), @"");
}

/// The members of a request, and of its lists each item.
fn members(body: &Value) -> String {
    let mut lines = Vec::new();
    for (name, value) in body.as_object().unwrap() {
        let items = value
            .as_array()
            .map_or(std::slice::from_ref(value), Vec::as_slice);
        lines.extend(items.iter().map(|item| format!("{name} {item}")));
    }
    lines.join("\n")
}

#[test]
fn everything_of_a_resource() {
    let deployments = query("deploy", "", "");
    let checked = CheckedQuery::new(&deployments).unwrap();
    let body = request_body(&checked, &Paging::default());
    insta::assert_snapshot!(members(&body), @r#"
    size 100
    track_total_hits false
    query {"bool":{"filter":[{"term":{"search.group":"apps"}},{"term":{"search.resource":"deployments"}}]}}
    sort {"metadata.namespace":{"order":"asc","missing":"_first"}}
    sort {"metadata.name":{"order":"asc"}}
    sort {"cluster":{"order":"asc"}}
    sort {"metadata.uid":{"order":"asc"}}
    sort {"apiVersion":{"order":"asc"}}
    "#);
}

#[test]
fn a_later_page_reads_a_snapshot_after_the_last_object() {
    let paging = Paging {
        point_in_time: Some(PointInTime {
            id: "pit".to_owned(),
            keep_alive: "5m".to_owned(),
        }),
        after: vec![
            json!(1_790_000_000_000_i64),
            json!(null),
            json!("member1"),
            json!("uid"),
            json!("v1"),
        ],
        limit: None,
        look_ahead: true,
        count_total: true,
    };
    let sort = vec![
        Sort {
            key: SortKey::CreationTimestamp,
            descending: true,
        },
        Sort {
            key: SortKey::Namespace,
            descending: true,
        },
    ];
    let later = Query {
        sort,
        ..query("nodes", "", "")
    };
    let checked = CheckedQuery::new(&later).unwrap();
    insta::assert_snapshot!(members(&request_body(&checked, &paging)), @r#"
    size 101
    track_total_hits true
    query {"bool":{"filter":[{"term":{"search.group":""}},{"term":{"search.resource":"nodes"}}]}}
    sort {"metadata.creationTimestamp":{"order":"desc","missing":"_last"}}
    sort {"metadata.namespace":{"order":"desc","missing":"_last"}}
    sort {"cluster":{"order":"asc"}}
    sort {"metadata.uid":{"order":"asc"}}
    sort {"apiVersion":{"order":"asc"}}
    pit {"id":"pit","keep_alive":"5m"}
    search_after 1790000000000
    search_after null
    search_after "member1"
    search_after "uid"
    search_after "v1"
    "#);
}

#[test]
fn clusters_namespaces_and_names_are_terms() {
    let narrow = Query {
        clusters: vec!["team/prod".parse().unwrap()],
        namespaces: vec!["a".parse().unwrap(), "b".parse().unwrap()],
        names: vec!["x".to_owned()],
        ..query("pods", "", "")
    };
    insta::assert_snapshot!(clauses(&narrow), @r#"
        filter {"term":{"cluster":"team/prod"}}
        filter {"terms":{"metadata.namespace":["a","b"]}}
        filter {"term":{"metadata.name":"x"}}
        "#);
}

#[test]
fn equality_and_sets_of_labels_are_terms() {
    insta::assert_snapshot!(clauses(&query("pods", "app=web,tier!=db,env in (prod,),zone notin (a,b)", "")), @r#"
        filter {"term":{"search.labels":"app=web"}}
        filter {"terms":{"search.labels":["env=","env=prod"]}}
        must_not {"term":{"search.labels":"tier=db"}}
        must_not {"terms":{"search.labels":["zone=a","zone=b"]}}
        "#);
}

#[test]
fn existence_of_labels_is_asked_of_their_keys() {
    insta::assert_snapshot!(clauses(&query("pods", "app.kubernetes.io/name,!canary", "")), @r#"
        filter {"term":{"search.labelKeys":"app.kubernetes.io/name"}}
        must_not {"term":{"search.labelKeys":"canary"}}
        "#);
}

#[test]
fn comparisons_of_labels_are_ranges_within_a_prefix() {
    insta::assert_snapshot!(clauses(&query("pods", "weight>5,weight<10", "")), @r#"
        filter {"range":{"search.numbers":{"gt":"label weight=09223372036854775813","lte":"label weight=18446744073709551615"}}}
        filter {"range":{"search.numbers":{"gte":"label weight=00000000000000000000","lt":"label weight=09223372036854775818"}}}
        "#);
}

#[test]
fn fields_that_are_always_stored_are_terms_even_where_they_are_empty() {
    let fields = "status.phase in (Running,Pending),spec.nodeName=,spec.restartPolicy!=Never,spec.hostNetwork=false";
    insta::assert_snapshot!(clauses(&query("pods", "", fields)), @r#"
        filter {"term":{"search.fields":"spec.hostNetwork=false"}}
        filter {"term":{"search.fields":"spec.nodeName="}}
        filter {"terms":{"search.fields":["status.phase=Pending","status.phase=Running"]}}
        must_not {"term":{"search.fields":"spec.restartPolicy=Never"}}
        "#);
}

#[test]
fn an_old_name_of_a_field_is_translated_and_a_field_without_values_reads_empty() {
    insta::assert_snapshot!(clauses(&query("pods", "", "spec.host=n1,status.podIPs=10.0.0.1,!status.podIPs")), @r#"
        filter {"term":{"search.fields":"spec.nodeName=n1"}}
        filter {"match_all":{}}
        filter {"match_none":{}}
        "#);
}

#[test]
fn name_and_namespace_have_fields_of_their_own() {
    let fields = "metadata.name in (a,b),metadata.namespace!=kube-system,metadata.namespace";
    insta::assert_snapshot!(clauses(&query("pods", "", fields)), @r#"
        filter {"terms":{"metadata.name":["a","b"]}}
        filter {"exists":{"field":"metadata.namespace"}}
        must_not {"term":{"metadata.namespace":"kube-system"}}
        "#);
    insta::assert_snapshot!(clauses(&query("clusterroles", "", "metadata.namespace=")), @r#"must_not {"exists":{"field":"metadata.namespace"}}"#);
}

#[test]
fn an_absent_optional_field_reads_empty_without_a_term() {
    insta::assert_snapshot!(clauses(&widgets("spec.color=red")), @r#"filter {"term":{"search.fields":"spec.color=red"}}"#);
    insta::assert_snapshot!(clauses(&widgets("!spec.color")), @r#"must_not {"range":{"search.fields":{"gt":"spec.color=","lt":"spec.color>"}}}"#);
    insta::assert_snapshot!(clauses(&widgets("spec.color")), @r#"filter {"range":{"search.fields":{"gt":"spec.color=","lt":"spec.color>"}}}"#);
    insta::assert_snapshot!(clauses(&widgets("spec.color in (,red)")), @r#"filter {"bool":{"should":[{"bool":{"must_not":[{"range":{"search.fields":{"gt":"spec.color=","lt":"spec.color>"}}}]}},{"term":{"search.fields":"spec.color=red"}}],"minimum_should_match":1}}"#);
    insta::assert_snapshot!(clauses(&widgets("spec.color notin (,red)")), @r#"
        filter {"range":{"search.fields":{"gt":"spec.color=","lt":"spec.color>"}}}
        must_not {"term":{"search.fields":"spec.color=red"}}
        "#);
}

#[test]
fn a_page_may_be_smaller_than_the_limit_and_never_larger() {
    let largest = Query {
        limit: MAX_LIMIT,
        ..query("pods", "", "")
    };
    let checked = CheckedQuery::new(&largest).unwrap();
    for (limit, size) in [(None, 10_000), (Some(10), 11), (Some(20_000), 10_000)] {
        let paging = Paging {
            limit,
            look_ahead: true,
            ..Paging::default()
        };
        assert_eq!(request_body(&checked, &paging)["size"], size);
    }
}

#[test]
fn values_are_asked_for_without_objects_and_by_their_beginning() {
    let prefix = |field, text| ValuePrefix::new(field, text).unwrap();
    let values = ValuesQuery {
        queries: vec![query("pods", "tier=db", "")],
        requester: Requester::Operator,
        prefixes: vec![
            prefix(ValueField::Label("app".to_owned()), "w"),
            prefix(ValueField::Namespace, ""),
        ],
    };
    insta::assert_snapshot!(values_body(&values).unwrap(), @r#"{"size":0,"track_total_hits":false,"query":{"bool":{"filter":[{"bool":{"should":[{"bool":{"filter":[{"term":{"search.labels":"tier=db"}},{"bool":{"should":[{"bool":{"filter":[{"term":{"search.group":""}},{"terms":{"search.resource":["pods"]}}]}}],"minimum_should_match":1}}]}}],"minimum_should_match":1}}],"must":[],"must_not":[]}},"aggs":{"0":{"terms":{"field":"search.labels","size":200,"shard_size":1000,"order":[{"_count":"desc"},{"_key":"asc"}],"include":"app\\=[wW].*"}},"1":{"terms":{"field":"metadata.namespace","size":200,"shard_size":1000,"order":[{"_count":"desc"},{"_key":"asc"}]}}}}"#);
}

fn clusters(count: usize) -> Vec<ClusterName> {
    (0..count)
        .map(|number| format!("c{number}").parse().unwrap())
        .collect()
}

fn grants(count: usize) -> Permitted {
    let grant = |cluster| Grant {
        clusters: Some(vec![cluster]),
        namespaces: None,
    };
    Permitted::Only(clusters(count).into_iter().map(grant).collect())
}

fn owners(clusters_with_owners: usize) -> Owners {
    let mut owners = Owners::default();
    for cluster in clusters(clusters_with_owners) {
        owners.insert(Some(cluster), "uid");
    }
    owners
}

/// The count must be that of the built query, or OpenSearch would refuse a query that the check
/// accepts.
#[test]
fn as_many_clauses_are_counted_as_are_built() {
    let with = |permitted| Query {
        permitted,
        since: Some(1),
        owners: Some(owners(2)),
        clusters: clusters(2),
        namespaces: vec!["a".parse().unwrap()],
        names: vec!["x".to_owned()],
        ..query("pods", "a,b=c,!d", "")
    };
    let both = Grant {
        clusters: Some(clusters(1)),
        namespaces: Some(vec!["a".parse().unwrap()]),
    };
    let queries = [
        query(
            "pods",
            "",
            "status.phase notin (,Running),spec.nodeName=,status.podIPs=1",
        ),
        query("pods", "", "metadata.namespace notin (,a),metadata.name!="),
        widgets("spec.color notin (,red)"),
        widgets("spec.color notin (red)"),
        widgets("spec.color in (,red)"),
        widgets("spec.color"),
        widgets("!spec.color"),
        with(Permitted::Everything),
        with(Permitted::Only(Vec::new())),
        with(Permitted::Only(vec![both])),
        with(Permitted::Only(vec![
            Grant::default(),
            Grant::of_namespaces(Vec::new()),
        ])),
        with(grants(1)),
        with(grants(3)),
    ];
    for query in &queries {
        let clause = &query_clause(&CheckedQuery::new(query).unwrap())["bool"];
        let built = ["filter", "must_not"].map(|list| clause[list].as_array().map_or(0, Vec::len));
        // So many more labels as fit beside what is built.
        let fits = |more: usize| {
            let others = (0..more).map(|number| format!("more{number}"));
            let mut labels: Vec<String> = others.collect();
            labels.extend(query.labels.requirements().map(ToString::to_string));
            let query = Query {
                labels: labels.join(",").parse().unwrap(),
                ..query.clone()
            };
            CheckedQuery::new(&query).is_ok()
        };
        let left = MAX_CLAUSES - built.iter().sum::<usize>();
        assert!(fits(left) && !fits(left + 1), "{clause}");
    }
}
