//! Attacks with large objects: H8, M1 and M4.

use serde_json::{Value, json};

use super::{
    attack::{Attack, AttackSize, MemberNumber, Planted, TEXT},
    names::{ATTACKED, ATTACKERS},
    texts::{nested_chains, parsed_within, small_maps},
    volley::{Users, Volley},
};
use crate::query_api::GROUP;

/// A little less than the largest object that is read of a member, 8 MiB.
const LARGEST: usize = (8 << 20) - 20_000;
const CONFIG_MAPS: &str = "api/v1/namespaces";

/// H8: deeply nested objects where a registry redacts `..x`.
pub fn redacted_chains(_: AttackSize) -> Attack {
    let mut planted = Vec::new();
    for (key, name) in [("", "empty"), ("x", "x"), ("y", "y")] {
        for (number, text) in sizes(|bytes| nested_chains(bytes, 100, key)).enumerate() {
            let object = large(&format!("h8-{name}-{number}"), text);
            planted.push(object.within(MemberNumber::Redacted));
        }
    }
    let what = "objects of up to 8 MiB, deeply nested, redacted";
    indexed("h8", what, planted, "redacted")
}

/// M1: objects of small maps, without and with a redaction.
pub fn maps(_: AttackSize) -> Attack {
    let mut planted = Vec::new();
    for (number, text) in sizes(small_maps).enumerate() {
        let object = large(&format!("m1-{number}"), text);
        planted.push(object.clone());
        planted.push(object.within(MemberNumber::Redacted));
    }
    indexed(
        "m1",
        "objects of up to 8 MiB of small maps",
        planted,
        "hostile1",
    )
}

/// The longest text, of which an index has no content, and those that are parsed.
fn sizes(text: impl Fn(usize) -> String) -> impl Iterator<Item = String> {
    [usize::MAX, 62 << 20, 30 << 20]
        .into_iter()
        .map(move |memory| parsed_within(memory, LARGEST, &text))
}

fn indexed(name: &'static str, what: &'static str, planted: Vec<Planted>, cluster: &str) -> Attack {
    let list = format!("{GROUP}/clusters/{cluster}/{CONFIG_MAPS}/{ATTACKED}/configmaps?limit=500");
    Attack {
        name,
        what,
        planted,
        probe: Some(format!("{list}&onlyMetadata=true")),
        // Users who look at what was stored.
        volleys: vec![Volley::get(Users::Group(ATTACKERS, 4), 8, list)],
    }
}

/// M4: objects of all members, of small maps.
pub fn merged(_: AttackSize) -> Attack {
    let mut planted = Vec::new();
    let mut volleys = Vec::new();
    let path = |number: usize| format!("{CONFIG_MAPS}/{ATTACKED}/configmaps/m4-{number}");
    for (number, text) in sizes(small_maps).enumerate() {
        let object = large(&format!("m4-{number}"), text);
        planted.push(object.within(MemberNumber::Merged));
        let path = format!("{GROUP}/merged/{}", path(number));
        volleys.push(Volley::get(Users::Group(ATTACKERS, 4), 4, path));
    }
    Attack {
        name: "m4",
        what: "12 merged of four objects of up to 8 MiB of small maps",
        planted,
        probe: Some(format!(
            "{GROUP}/clusters/hostile4/{}?onlyMetadata=true",
            path(2)
        )),
        volleys,
    }
}

fn large(name: &str, text: String) -> Planted {
    let object: Value =
        json!({ "metadata": { "name": name, "namespace": ATTACKED }, "data": TEXT });
    Planted::new("configmaps", object).with_text(text)
}
