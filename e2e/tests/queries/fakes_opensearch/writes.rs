//! `_bulk`: versions, missing indices, blocks, and refused items.

use e2e::test_result::Tested;
use std::time::Duration;

use anyhow::Result;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use reqwest::Method;
use serde_json::{Value, json};

use super::{Server, alone, compare, extend, index, item, plain, remove};

#[tokio::test]
async fn versions_decide_what_is_written() -> Tested {
    compare(async |server: &mut Server| {
        let alias = "versions.w1";
        server.put("/versions.g1", &json!({ "settings": alone(&json!({})), "aliases": { alias: {} } })).await?;
        for line in one_after_the_other(alias) {
            server.bulk(&[line]).await?;
        }
        let put = |id: &str, version: u64| index(alias, id, version, &json!({ "kind": "Pod" }));
        server.bulk(&[put("c", 2), put("c", 1), remove(alias, "c", 3), put("c", 2), put("c", 4)]).await?;
        server.bulk(&[plain("index", alias, "p"), plain("index", alias, "p"), plain("create", alias, "p")]).await?;
        server.bulk(&[plain("delete", alias, "p"), plain("delete", alias, "p"), plain("create", alias, "p")]).await?;
        server.bulk(&[plain("index", alias, "a"), put("p", 1), plain("delete", alias, "never")]).await?;
        let path = fleetdex_store::bulk::PATH;
        server.send(Method::POST, path, &[put("a", 1), put("a", 90), remove(alias, "x", 1)].concat()).await?;
        server.send(Method::POST, path, &put("a", 91)).await?;
        for (version, kind) in [(3, "external"), (95, "external"), (95, "external"), (96, "external_gt")] {
            let details = json!({ "_index": alias, "_id": "a", "version": version, "version_type": kind });
            server.bulk(&[item("index", &details, "{}")]).await?;
        }
        for id in ["a", "b", "c", "absent", "never", "v1%2FPod%2Fa%20b"] {
            server.get(&format!("/{alias}/_doc/{id}")).await?;
        }
        let docs: Vec<_> = ["a", "b", "absent"].iter().map(|id| json!({ "_index": alias, "_id": id })).collect();
        server.post("/_mget", &json!({ "docs": docs })).await?;
        server
            .post("/_mget", &json!({ "docs": [{ "_index": "no-versions", "_id": "a" }, { "_index": alias, "_id": "c" }] }))
            .await?;
        server.post("/_mget", &json!({ "docs": [] })).await?;
        server.get(&format!("/{alias}/_doc/a?filter_path=_source")).await?;
        server.get(&format!("/{alias}/_doc/absent?filter_path=found,_source")).await?;
        server.get("/no-versions/_doc/a").await?;
        server.refresh(alias).await?;
        server.post(&format!("/{alias}/_search"), &json!({ "version": true, "sort": [{ "_id": "asc" }] })).await?;
        Ok(())
    })
    .await
}

/// Older, equal and newer; deleted older, newer, equal, older; made again below, at and above the
/// delete's version; absent; the largest.
fn one_after_the_other(alias: &str) -> Vec<String> {
    let put = |id: &str, version: u64| index(alias, id, version, &json!({ "kind": "Pod" }));
    let delete = |id: &str, version: u64| remove(alias, id, version);
    vec![
        put("a", 5),
        put("a", 5),
        put("a", 4),
        delete("a", 4),
        delete("a", 6),
        delete("a", 6),
        delete("a", 5),
        put("a", 5),
        put("a", 6),
        put("a", 7),
        delete("absent", 7),
        put("absent", 6),
        delete("absent", 9),
        put("a", 0),
        put("b", 9_223_372_036_854_775_807),
        put("v1/Pod/a b", 1),
    ]
}

#[tokio::test]
async fn a_write_can_ask_for_the_sequence_number() -> Tested {
    compare(async |server: &mut Server| {
        let alias = "asked.w1";
        server.put("/asked.g1", &json!({ "settings": alone(&json!({})), "aliases": { alias: {} } })).await?;
        server.bulk(&[plain("index", alias, "a"), plain("index", alias, "b")]).await?;
        for (action, id, asks) in [
            ("index", "a", json!({ "if_seq_no": 1, "if_primary_term": 1 })),
            ("index", "b", json!({ "if_seq_no": 1, "if_primary_term": 2 })),
            ("index", "b", json!({ "if_seq_no": 1, "if_primary_term": 1 })),
            ("delete", "b", json!({ "if_seq_no": 2, "if_primary_term": 1 })),
            ("index", "b", json!({ "if_seq_no": 3, "if_primary_term": 1 })),
            ("delete", "none", json!({ "if_seq_no": 3, "if_primary_term": 1 })),
            ("index", "guard", json!({ "if_seq_no": 9_007_199_254_740_991_u64, "if_primary_term": 1 })),
            ("index", "a", json!({ "if_seq_no": 0 })),
            ("index", "a", json!({ "if_seq_no": -1, "if_primary_term": 1 })),
            ("index", "a", json!({ "if_primary_term": 1 })),
            ("index", "a", json!({ "if_seq_no": 0, "if_primary_term": 1, "version": 3, "version_type": "external_gte" })),
            ("create", "a", json!({ "if_seq_no": 0, "if_primary_term": 1 })),
        ] {
            let mut details = json!({ "_index": alias, "_id": id });
            extend(&mut details, &asks);
            server.bulk(&[item(action, &details, if action == "delete" { "" } else { "{}" })]).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn any_sequence_of_writes_has_the_same_result() -> Tested {
    compare(async |server: &mut Server| {
        let alias = "sequence.w1";
        let body = json!({ "settings": alone(&json!({})), "aliases": { alias: {} } });
        server.put("/sequence.g1", &body).await?;
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..40 {
            let lines: Vec<String> = (0..rng.random_range(1..30))
                .map(|_| any_item(&mut rng, alias))
                .collect();
            server.bulk(&lines).await?;
        }
        server.refresh(alias).await?;
        let path = format!("/{alias}/_search");
        let body = json!({ "version": true, "sort": [{ "_id": "asc" }] });
        server.post(&path, &body).await?;
        Ok(())
    })
    .await
}

fn any_item(rng: &mut StdRng, alias: &str) -> String {
    let id = ["a", "b", "c", "d"][rng.random_range(0..4)];
    let version = rng.random_range(0..12);
    match rng.random_range(0..10) {
        0..5 => index(
            alias,
            id,
            version,
            &json!({ "number": rng.random_range(0..1_000) }),
        ),
        5..8 => remove(alias, id, version),
        8 => plain(
            ["index", "create", "delete"][rng.random_range(0..3)],
            alias,
            id,
        ),
        _ => index("sequence.none", id, version, &json!({})),
    }
}

#[tokio::test]
async fn a_delete_is_forgotten_after_gc_deletes() -> Tested {
    compare(async |server: &mut Server| {
        let settings = alone(&json!({ "gc_deletes": "3s" }));
        let body = json!({ "settings": settings, "aliases": { "gc.w1": {} } });
        server.put("/gc.g1", &body).await?;
        let put = |id: &str, version: u64| index("gc.w1", id, version, &json!({}));
        let delete = |id: &str, version: u64| remove("gc.w1", id, version);
        server
            .bulk(&[
                put("a", 10),
                delete("a", 20),
                delete("b", 20),
                plain("delete", "gc.w1", "c"),
            ])
            .await?;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        server
            .bulk(&[put("a", 15), delete("b", 19), plain("delete", "gc.w1", "c")])
            .await?;
        // Waits for `gc_deletes` and the lag of the server's coarse clock.
        tokio::time::sleep(Duration::from_secs(4)).await;
        server
            .bulk(&[
                put("a", 15),
                delete("b", 19),
                put("b", 18),
                plain("delete", "gc.w1", "c"),
            ])
            .await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn writes_to_a_missing_index_are_refused_or_create_it() -> Tested {
    compare(async |server: &mut Server| {
        let settings = json!({ "settings": alone(&json!({})) });
        let template =
            json!({ "index_patterns": ["missing*"], "priority": 5, "template": settings });
        server.put("/_index_template/missing", &template).await?;
        server
            .put("/missing.g1", &json!({ "aliases": { "missing.w1": {} } }))
            .await?;
        let put = |index_name: &str| index(index_name, "a", 7, &json!({ "a": 1 }));
        let delete = |index_name: &str| remove(index_name, "a", 7);
        server.bulk(&[put("missing.w9"), put("missing.g1")]).await?;
        // Deletes ignore `require_alias`, unless an index item of the request has it.
        server
            .bulk(&[put("missing.w9"), delete("missing.w9")])
            .await?;
        server
            .bulk(&[
                delete("missing.w9"),
                delete("missing.g1"),
                delete("missing.W9"),
            ])
            .await?;
        server
            .get("/missing*?filter_path=*.aliases,*.settings.index.gc_deletes")
            .await?;
        server.bulk(&[put("missing.w9")]).await?;
        server
            .aliases(json!([{ "add": { "index": "missing.g1", "alias": "missing.w9" } }]))
            .await?;
        let of = |action: &str, name: &str| plain(action, name, "a");
        server
            .bulk(&[
                of("delete", "missing-1"),
                of("index", "missing-2"),
                of("create", "missing-3"),
            ])
            .await?;
        server
            .bulk(&[
                of("index", "MISSING"),
                plain("index", "missing.w1", ""),
                of("delete", "missing-1"),
            ])
            .await?;
        server.get("/missing*?filter_path=*.aliases").await?;
        for details in [
            json!({}),
            json!({ "is_write_index": true }),
            json!({ "is_write_index": false }),
        ] {
            let mut add = json!({ "index": "missing-2", "alias": "missing.w1" });
            extend(&mut add, &details);
            server.aliases(json!([{ "add": add }])).await?;
            server
                .bulk(&[put("missing.w1"), delete("missing.w1")])
                .await?;
        }
        server
            .send(
                Method::POST,
                "/missing-2/_bulk",
                &item("index", &json!({ "_id": "1" }), "{}"),
            )
            .await?;
        server
            .send(
                Method::POST,
                "/missing-2/_bulk?require_alias=true",
                &item("index", &json!({ "_id": "1" }), "{}"),
            )
            .await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_malformed_bulk_request_is_refused_as_a_whole() -> Tested {
    compare(async |server: &mut Server| {
        server
            .put("/malformed", &json!({ "settings": alone(&json!({})) }))
            .await?;
        for body in malformed() {
            server.send(Method::POST, "/_bulk", &body).await?;
        }
        let good = plain("index", "malformed", "q");
        server.send(Method::POST, "/_bulk?bogus=1", &good).await?;
        server
            .send(Method::POST, "/_bulk?refresh=true", &good)
            .await?;
        server.get("/malformed/_count").await?;
        Ok(())
    })
    .await
}

fn malformed() -> Vec<String> {
    let put = |details: Value| {
        let mut members = json!({ "_index": "malformed", "_id": "q" });
        extend(&mut members, &details);
        item("index", &members, "{}")
    };
    let good = || put(json!({}));
    let gte = |version: Value| put(json!({ "version": version, "version_type": "external_gte" }));
    let no_version = json!({ "_index": "malformed", "_id": "q", "version_type": "external_gte" });
    let mut bodies: Vec<String> = ["", "\n", "garbage\n", "[]\n", "{}\n", "{\"index\":\"x\"}\n"]
        .map(ToOwned::to_owned)
        .to_vec();
    bodies.extend([
        item("bogus", &json!({ "_index": "malformed", "_id": "q" }), "{}"),
        put(json!({ "bogus": 1 })),
        good().trim_end().to_owned(),
        item("index", &json!({ "_id": "q" }), "{}"),
        item("delete", &json!({ "_index": "malformed" }), ""),
        put(json!({ "_id": "x".repeat(513) })),
        put(json!({ "version": 3 })) + &item("delete", &no_version, ""),
        gte(json!(-1)),
        gte(json!(9_223_372_036_854_775_808_u64)),
        put(json!({ "version": 1, "version_type": "bogus" })),
        // The last document is missing: its action is passed over.
        good() + &item("index", &json!({ "_index": "malformed", "_id": "bad" }), ""),
        good() + "\n" + &put(json!({ "_id": 7, "version": "12", "version_type": "external_gte" })),
    ]);
    bodies
}

#[tokio::test]
async fn documents_that_do_not_fit_are_refused_alone() -> Tested {
    compare(async |server: &mut Server| {
        let mappings = json!({ "dynamic": false, "properties": {
            "k": { "type": "keyword" },
            "short": { "type": "keyword", "ignore_above": 5 },
            "time": { "type": "date", "ignore_malformed": true },
            "at": { "type": "date" },
            "flatter": { "type": "flat_object" },
            "long": { "type": "long" },
            "o": { "properties": { "x": { "type": "keyword" } } },
            "off": { "type": "object", "enabled": false },
            "flag": { "type": "boolean" },
        } });
        let body = json!({ "settings": alone(&json!({})), "mappings": mappings });
        server.put("/refused", &body).await?;
        for (number, document) in documents().iter().enumerate() {
            let details = json!({ "_index": "refused", "_id": number.to_string() });
            server
                .bulk(&[item("index", &details, &document.to_string())])
                .await?;
        }
        let text = json!({ "_index": "refused", "_id": "text" });
        for document in [" ", r#"{"k":"#, r#"{"k":1,"k":2}"#, "not json"] {
            server.bulk(&[item("index", &text, document)]).await?;
        }
        server.bulk(&[item("index", &text, "") + "\n"]).await?;
        server.refresh("refused").await?;
        let body = json!({ "size": 100, "_source": false });
        server.post("/refused/_search", &body).await?;
        let short = json!({ "exists": { "field": "short" } });
        let body = json!({ "query": short, "_source": ["short"] });
        server.post("/refused/_search", &body).await?;
        Ok(())
    })
    .await
}

fn documents() -> Vec<Value> {
    let text = |length: usize| "x".repeat(length);
    vec![
        json!({ "k": text(32_766) }),
        json!({ "k": text(32_767) }),
        json!({ "o": { "x": ["a", text(32_767)] } }),
        json!({ "short": text(40_000) }),
        json!({ "short": "äöüäö" }),
        json!({ "short": "äöüäöü" }),
        json!({ "flatter": { "abc": text(32_746) } }),
        json!({ "flatter": { "abc": text(32_747) } }),
        json!({ "flatter": { "abc": { "de": text(32_743) } } }),
        json!({ "flatter": { "abc": { "de": text(32_744) } } }),
        json!({ "k": { "a": 1 } }),
        json!({ "k": ["a", { "b": 1 }] }),
        json!({ "k": 5 }),
        json!({ "k": true }),
        json!({ "k": [["a"], null] }),
        json!({ "time": "soon" }),
        json!({ "time": { "a": 1 } }),
        json!({ "at": "soon" }),
        json!({ "at": "2026-01-01T00:00:00Z" }),
        json!({ "at": 12345 }),
        json!({ "at": { "a": 1 } }),
        json!({ "flatter": "text" }),
        json!({ "flatter": { "a": { "b": ["x", 1, true, null] } } }),
        json!({ "flatter": null }),
        json!({ "flatter": [{ "a": 1 }] }),
        json!({ "flatter": { "app.kubernetes.io/name": "a", "app": "b" } }),
        json!({ "long": "x" }),
        json!({ "long": "5" }),
        json!({ "long": 5.7 }),
        json!({ "o": "text" }),
        json!({ "o": [{ "x": "a" }, { "x": "b" }] }),
        json!({ "o": null }),
        json!({ "o": [] }),
        json!({ "o": ["s"] }),
        json!({ "off": "text" }),
        json!({ "flag": "nope" }),
        json!({ "flag": "true" }),
        json!([]),
        json!("text"),
        json!({}),
        json!({ "": 1 }),
        json!({ "a": { "": 1 } }),
        json!({ "a..b": 1 }),
        json!({ "_id": "x" }),
        json!({ "o.x": "dotted" }),
        json!({ "unmapped": { "a": 1 } }),
    ]
}

#[tokio::test]
async fn blocks_refuse_writes_until_they_are_lifted() -> Tested {
    compare(async |server: &mut Server| {
        let body = json!({ "settings": alone(&json!({})), "aliases": { "blocked.w1": {} } });
        server.put("/blocked.g1", &body).await?;
        server.bulk(&around_blocks(1)).await?;
        for (block, version) in [
            ("write", 2),
            ("read_only_allow_delete", 3),
            ("read_only", 4),
        ] {
            let name = format!("index.blocks.{block}");
            server
                .put("/blocked.g1/_settings", &json!({ name.as_str(): true }))
                .await?;
            while_blocked(server, block, version).await?;
            server
                .put("/blocked.g1/_settings", &json!({ name.as_str(): null }))
                .await?;
            server.bulk(&around_blocks(version)).await?;
        }
        let body = json!({ "index.blocks.read_only_allow_delete": true });
        server.put("/blocked.g1/_settings", &body).await?;
        server.delete("/blocked.g1").await?;
        Ok(())
    })
    .await
}

async fn while_blocked(server: &mut Server, block: &str, version: u64) -> Result<()> {
    server.bulk(&around_blocks(version)).await?;
    server.get("/blocked.g1/_doc/a").await?;
    server.refresh("blocked.g1").await?;
    server.post("/blocked.g1/_count", &json!({})).await?;
    // An index that is entirely read-only, which Fleetdex never encounters.
    if block != "read_only" {
        let body = json!({ "_meta": { "block": block } });
        server.put("/blocked.g1/_mapping", &body).await?;
        server
            .aliases(
                json!([{ "add": { "index": "blocked.g1", "alias": format!("blocked-{block}") } }]),
            )
            .await?;
    }
    Ok(())
}

fn around_blocks(version: u64) -> [String; 3] {
    let document = json!({});
    [
        index("blocked.w1", "a", version, &document),
        remove("blocked.w1", "b", version),
        index("blocked.w9", "a", 1, &document),
    ]
}
