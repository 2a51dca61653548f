//! Attacks on Tables: H4 and H5.

use anyhow::Result;
use fakes::apiserver::Server;
use fleetdex_core::json_path::JsonPath;
use serde_json::{Value, json};

use super::{
    attack::{Attack, AttackSize, Planted, TEXT},
    names::{ATTACKED, ATTACKERS, KINDS},
    texts::list,
    volley::{Users, Volley},
};
use crate::query_api::GROUP;

/// The kind with costly columns.
pub const KIND: &str = "Column";
/// Its plural.
pub const PLURAL: &str = "columns";

const PROXY: &str = "proxying/karmada/proxy";
/// Levels of its objects.
const LEVELS: usize = 20;
/// A path may have 64 steps: three names and their union take seven or less.
const UNIONS: usize = 8;
const COLUMNS: usize = 64;
const CONTAINERS: usize = 60_000;
const STATUSES: usize = 40_000;

/// Defines the kind in a member, which has to be there before the member is read.
pub fn define(server: &Server) -> Result<()> {
    // A definition with a path that is not understood has no columns at all.
    for path in (0..COLUMNS).map(column) {
        path.parse::<JsonPath>()?;
    }
    let columns: Vec<Value> = (0..COLUMNS)
        .map(|number| json!({ "name": format!("C{number}"), "type": "string", "jsonPath": column(number) }))
        .collect();
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
        "additionalPrinterColumns": columns,
    });
    let definition = json!({
        "metadata": { "name": format!("{PLURAL}.{KINDS}") },
        "spec": {
            "group": KINDS, "scope": "Namespaced",
            "names": { "kind": KIND, "plural": PLURAL, "singular": "column", "listKind": "ColumnList" },
            "versions": [version],
        },
    });
    server.apply("customresourcedefinitions.apiextensions.k8s.io", definition)?;
    Ok(())
}

/// A path that visits each value many times: unions that name one member twice, recursive descents
/// and filters.
fn column(number: usize) -> String {
    match number % 3 {
        0 => format!(".spec{}", "['a','a','a']".repeat(UNIONS)),
        1 => format!(".spec{}", "..a".repeat(LEVELS)),
        _ => format!(".spec{}", "..[?(@.a)]".repeat(6)),
    }
}

/// H4: columns that cost much of small objects.
pub fn columns(_: AttackSize) -> Attack {
    let mut spec = json!({ "a": "x".repeat(200) });
    for _ in 0..LEVELS {
        spec = json!({ "a": spec });
    }
    let planted = (0..40).map(|number| {
        let metadata = json!({ "name": format!("column-{number}"), "namespace": ATTACKED });
        Planted::new(
            &format!("{PLURAL}.{KINDS}"),
            json!({ "metadata": metadata, "spec": spec }),
        )
    });
    let path = format!("apis/{KINDS}/v1/namespaces/{ATTACKED}/{PLURAL}");
    Attack {
        name: "h4",
        what: "12 Tables of 40 objects with 64 costly columns",
        planted: planted.collect(),
        probe: Some(format!("{GROUP}/search/{path}?limit=1")),
        volleys: tables_of(&path),
    }
}

/// H5: a Pod with many containers.
pub fn containers(_: AttackSize) -> Attack {
    let containers = list(CONTAINERS, |number| format!(r#"{{"name":"c{number:05}"}}"#));
    let statuses = list(STATUSES, |number| {
        format!(r#"{{"name":"s{number:05}","ready":false}}"#)
    });
    let conditions = list(STATUSES, |number| {
        format!(r#"{{"type":"t{number:05}","status":"False"}}"#)
    });
    let gates = list(CONTAINERS / 2, |number| {
        format!(r#"{{"conditionType":"g{number:05}"}}"#)
    });
    // There is one text in an object: the others are members after it.
    let initial = format!(
        r#"0,"spec":{{"initContainers":{containers},"containers":[{{"name":"main"}}]}},"status":{{"phase":"Pending","initContainerStatuses":{statuses}}}"#
    );
    let gated = format!(
        r#"0,"spec":{{"readinessGates":{gates},"containers":[{{"name":"main"}}]}},"status":{{"phase":"Running","conditions":{conditions}}}"#
    );
    let pod = |name: &str, text: String| {
        let metadata = json!({ "name": name, "namespace": ATTACKED });
        Planted::new("pods", json!({ "metadata": metadata, "text": TEXT })).with_text(text)
    };
    let path = format!("api/v1/namespaces/{ATTACKED}/pods");
    Attack {
        name: "h5",
        what: "12 Tables of Pods with 60,000 init containers",
        planted: vec![pod("many-containers", initial), pod("many-gates", gated)],
        probe: Some(format!(
            "{GROUP}/search/{path}?limit=1&names=many-containers&onlyMetadata=true"
        )),
        volleys: tables_of(&path),
    }
}

/// Through the two paths that make Tables.
fn tables_of(path: &str) -> Vec<Volley> {
    ["search", PROXY]
        .map(|below| {
            let path = format!("{GROUP}/{below}/{path}?limit=500");
            Volley::get(Users::Group(ATTACKERS, 6), 6, path).tables()
        })
        .to_vec()
}
