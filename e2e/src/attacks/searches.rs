//! Attacks on searches: H6, M3, and queries with many names.

use reqwest::Method;
use serde_json::json;

use super::{
    attack::{Attack, AttackSize, Planted, TEXT},
    names::{ATTACKED, ATTACKERS, KINDS, TENANT, TENANTS},
    scene::kind_plural,
    volley::{Users, Volley},
};
use crate::query_api::GROUP;

/// How long a word may be, nearly.
const WORD: usize = 250;
const NAMESPACES: usize = 900;

/// H6: watches of searches whose words nearly match many texts of an object that changes.
pub fn watched_words(size: AttackSize) -> Attack {
    let keys: Vec<String> = (0..size.of(4_000, 2_000))
        .map(|number| format!(r#""{}{number:05}":"""#, "a".repeat(WORD)))
        .collect();
    let metadata = json!({ "name": "words", "namespace": ATTACKED, "labels": { "app": "words" }, "annotations": TEXT });
    let object = json!({ "metadata": metadata, "data": {} });
    let planted = Planted::new("configmaps", object)
        .with_text(format!("{{{}}}", keys.join(",")))
        .changing();
    let words: Vec<String> = ["b", "c", "d"]
        .map(|end| format!("-{}{end}", "a".repeat(WORD - 1)))
        .to_vec();
    let query = words.join("+");
    Attack {
        name: "h6",
        what: "200 watches of three negated words, an object with long keys",
        planted: vec![planted],
        probe: None,
        volleys: vec![Volley::get(
            Users::Group(ATTACKERS, 25),
            200,
            format!("{GROUP}/objects?watch=true&q={query}"),
        )],
    }
}

/// How many kinds M3 has beside those of Kubernetes.
pub fn kinds(size: AttackSize) -> usize {
    size.of(30, 4)
}

/// M3: a user who may read one namespace of many types a search.
pub fn typing(size: AttackSize) -> Attack {
    let mut planted = Vec::new();
    for number in 0..NAMESPACES {
        let namespace = if number == 0 {
            TENANT.to_owned()
        } else {
            format!("namespace-{number}")
        };
        for kind in 0..kinds(size) {
            let metadata = json!({ "name": "a", "namespace": namespace });
            let resource = format!("{}.{KINDS}", kind_plural(kind));
            planted.push(Planted::new(&resource, json!({ "metadata": metadata })));
        }
    }
    let last = kind_plural(kinds(size) - 1);
    let typed = |below: &'static str| move |number: usize| format!("/ui/{below}?q=w{number}");
    Attack {
        name: "m3",
        what: "12 users type, one of 900 namespaces",
        planted,
        probe: Some(format!("{GROUP}/search/apis/{KINDS}/v1/{last}?limit=1")),
        volleys: vec![
            Volley::numbered(Users::Group(TENANTS, 6), 6, typed("")),
            Volley::numbered(Users::Group(TENANTS, 6), 6, typed("complete")),
        ],
    }
}

/// Of the kind of M3: lists with as many names as a request may have, and counts of all objects.
pub fn long_queries(_: AttackSize) -> Attack {
    let names: Vec<String> = (0..5_000).map(|number| format!("name-{number}")).collect();
    let list = format!(
        "{GROUP}/search/api/v1/configmaps?limit=500&names={}",
        names.join(",")
    );
    let watch = format!("{list}&watch=true");
    Attack::of_requests(
        "q1",
        "60 lists and 200 watches of 5,000 names, 40 searches with facets",
        vec![
            Volley::get(Users::Group(ATTACKERS, 20), 60, list),
            Volley::get(Users::Group(ATTACKERS, 50), 200, watch),
            Volley::get(
                Users::Group(ATTACKERS, 20),
                40,
                format!(
                    "{GROUP}/objects?q=a+e+-zzz&limit=500&facets=kind,cluster,namespace,health"
                ),
            ),
        ],
    )
}

/// Completions and explanations are small requests that look at everything.
pub fn completions(_: AttackSize) -> Attack {
    let complete = |number: usize| format!("{GROUP}/completions?q=a{number}+label:a");
    let mut volley = Volley::numbered(Users::Group(ATTACKERS, 20), 60, complete);
    volley.method = Method::GET;
    Attack::of_requests("q2", "60 completions", vec![volley])
}
