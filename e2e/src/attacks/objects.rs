//! Attacks with large objects: H8, M1 and M4.

use serde_json::{Value, json};

use super::{
    attack::{Attack, AttackSize, MemberNumber, Planted, TEXT},
    scene::{ATTACKED, ATTACKERS},
    texts::{nested_chains, small_maps},
    volley::{Users, Volley},
};
use crate::query_api::GROUP;

/// A little less than the largest object that is read of a member, 8 MiB.
const LARGEST: usize = (8 << 20) - 20_000;
const CONFIG_MAPS: &str = "api/v1/namespaces";

/// H8: a deeply nested object where a registry redacts `..x`.
pub fn redacted_chains(_: AttackSize) -> Attack {
    let chains = [("h8-empty", ""), ("h8-x", "x"), ("h8-y", "y")].map(|(name, key)| {
        large(name, nested_chains(LARGEST, 100, key)).within(MemberNumber::Redacted)
    });
    indexed(
        "h8",
        "objects of 8 MiB, deeply nested, redacted",
        chains.to_vec(),
        "redacted",
    )
}

/// M1: an object of small maps, without and with a redaction.
pub fn maps(_: AttackSize) -> Attack {
    let text = small_maps(LARGEST);
    let planted = vec![
        large("m1", text.clone()),
        large("m1", text).within(MemberNumber::Redacted),
    ];
    indexed("m1", "objects of 8 MiB of small maps", planted, "hostile1")
}

fn indexed(name: &'static str, what: &'static str, planted: Vec<Planted>, cluster: &str) -> Attack {
    let list = format!("{GROUP}/clusters/{cluster}/{CONFIG_MAPS}/{ATTACKED}/configmaps?limit=500");
    Attack {
        name,
        what,
        planted,
        probe: Some(format!("{list}&onlyMetadata=true")),
        // Whoever looks at what was stored.
        volleys: vec![Volley::get(Users::Group(ATTACKERS, 4), 8, list)],
    }
}

/// M4: one object of all members, of small maps.
pub fn merged(_: AttackSize) -> Attack {
    let object = large("m4", small_maps(LARGEST - 100_000)).within(MemberNumber::Merged);
    let path = format!("{CONFIG_MAPS}/{ATTACKED}/configmaps/m4");
    Attack {
        name: "m4",
        what: "8 merged of four objects of 7.9 MiB of small maps",
        planted: vec![object],
        probe: Some(format!(
            "{GROUP}/clusters/hostile4/{path}?onlyMetadata=true"
        )),
        volleys: vec![Volley::get(
            Users::Group(ATTACKERS, 8),
            8,
            format!("{GROUP}/merged/{path}"),
        )],
    }
}

fn large(name: &str, text: String) -> Planted {
    let object: Value =
        json!({ "metadata": { "name": name, "namespace": ATTACKED }, "data": TEXT });
    Planted::new("configmaps", object).with_text(text)
}
