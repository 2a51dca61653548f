//! Templates, indices, mappings, settings, aliases.

use anyhow::Result;
use e2e::test_result::Tested;
use fleetdex_core::model::FieldPath;
use fleetdex_store::opensearch::{IndexSettings, index_template};
use reqwest::Method;
use serde_json::{Value, json};

use super::{Server, alone, compare, index};

fn template(patterns: &[&str], priority: u64, template: &Value) -> Value {
    json!({ "index_patterns": patterns, "priority": priority, "template": template })
}

#[tokio::test]
async fn indices_come_from_templates_and_requests() -> Tested {
    compare(async |server: &mut Server| {
        write_templates(server).await?;
        make_indices(server).await?;
        show_indices(server).await?;
        refuse_indices(server).await?;
        delete_indices(server).await
    })
    .await
}

async fn write_templates(server: &mut Server) -> Result<()> {
    let wanted = json!({
        "settings": { "index": alone(&json!({ "gc_deletes": "15m", "mapping": { "total_fields": { "limit": 2000 } } })) },
        "mappings": { "dynamic": false, "_meta": { "of": { "template": 1 } }, "properties": {
            "kind": { "type": "keyword" }, "o": { "properties": { "b": { "type": "keyword" } } },
        } },
        "aliases": { "made": {} },
    });
    server
        .put(
            "/_index_template/made",
            &template(&["*-made.g*"], 505, &wanted),
        )
        .await?;
    server
        .put(
            "/_index_template/made",
            &template(&["*-made.g*"], 505, &wanted),
        )
        .await?;
    server
        .put(
            "/_index_template/made-2",
            &template(&["a-made.*"], 505, &json!({})),
        )
        .await?;
    let low = json!({ "aliases": { "low": {} } });
    server
        .put(
            "/_index_template/made-3",
            &template(&["a-made.*", "b-made.*"], 7, &low),
        )
        .await?;
    server
        .put("/_index_template/made-4", &json!({ "template": {} }))
        .await?;
    let body = json!({ "index_patterns": ["q*"], "bogus": 1 });
    server.put("/_index_template/made-4", &body).await?;
    let bogus = json!({ "settings": { "bogus": 1 } });
    server
        .put("/_index_template/made-4", &template(&["q*"], 1, &bogus))
        .await?;
    Ok(())
}

async fn make_indices(server: &mut Server) -> Result<()> {
    let request = json!({ "aliases": { "a-made.w1": {} }, "mappings": { "_meta": { "of": { "request": 2 } } } });
    server.put("/a-made.g1", &request).await?;
    server.put("/a-made.g1", &request).await?;
    server.get("/a-made.g1").await?;
    let properties =
        json!({ "kind": { "type": "long" }, "o": { "properties": { "c": { "type": "date" } } } });
    let body = json!({ "mappings": { "properties": properties } });
    server.put("/b-made.g1", &body).await?;
    let clash = json!({ "kind": { "properties": { "x": { "type": "long" } } } });
    let body = json!({ "mappings": { "properties": clash } });
    server.put("/b-made.g2", &body).await?;
    let settings = json!({ "index.number_of_replicas": 0, "refresh_interval": "3s" });
    server
        .put("/a-made.h1", &json!({ "settings": settings }))
        .await?;
    Ok(())
}

async fn show_indices(server: &mut Server) -> Result<()> {
    for path in [
        "/*-made.*",
        "/*-made.g*?filter_path=*.aliases,*.settings.index.uuid,*.mappings._meta",
        "/none-made.g*?filter_path=*.aliases,*.settings.index.uuid,*.mappings._meta",
        "/made,a-made.h1?filter_path=*.aliases",
        "/none-made",
        "/a-made.g1,none-made",
        "/none-made?ignore_unavailable=true",
        "/none-made*?allow_no_indices=false",
        "/a-made.g1/_mapping",
        "/none-made/_mapping",
        "/none-made*/_mapping",
        "/b-made.g1/_settings",
    ] {
        server.get(path).await?;
    }
    Ok(())
}

async fn refuse_indices(server: &mut Server) -> Result<()> {
    for (path, body) in [
        ("/a-made.w1", json!({})),
        ("/A-made", json!({})),
        ("/_made", json!({})),
        ("/c-made", json!({ "bogus": {} })),
        ("/c-made", json!({ "settings": { "bogus": 1 } })),
        (
            "/c-made",
            json!({ "mappings": { "properties": { "a": { "type": "bogus" } } } }),
        ),
        ("/c-made", json!({ "aliases": { "a-made.g1": {} } })),
        ("/c-made?bogus=1", json!({})),
    ] {
        server.put(path, &body).await?;
    }
    server
        .send(Method::PUT, "/c-made", r#"{"aliases":"#)
        .await?;
    server.send(Method::PUT, "/c-made", "garbage").await?;
    Ok(())
}

async fn delete_indices(server: &mut Server) -> Result<()> {
    for path in [
        "/a-made.w1",
        "/a-made.g1",
        "/a-made.g1",
        "/none-made*",
        "/b-made.g1,a-made.h1",
    ] {
        server.delete(path).await?;
        server.get("/*-made*?filter_path=*.aliases").await?;
    }
    server.delete("/_index_template/made-3").await?;
    server.delete("/_index_template/made-3").await?;
    Ok(())
}

#[tokio::test]
async fn leaves_are_searchable_as_fields_with_full_indexing() -> Tested {
    compare(async |server: &mut Server| {
        let settings = IndexSettings { replicas: Some(0), is_full: true, ..IndexSettings::default() };
        let fields = ["status.phase", "type"].map(FieldPath::new);
        server.put("/_index_template/fleet_full", &index_template(&"fleet_full".parse()?, &settings, &fields)).await?;
        server.put("/fleet_full-a.g1", &json!({ "aliases": { "full": {} } })).await?;
        server.get("/fleet_full-a.g1/_mapping").await?;
        let search = |leaves: &[&str]| json!({ "fields": ["a=1"], "numbers": ["n=5"], "leaves": leaves });
        let documents = [
            json!({ "search": search(&["spec.b=2", "spec.c="]), "spec": { "b": 2, "x.y": { "z": [true, null] } } }),
            json!({ "search": search(&["spec.b=3"]), "spec": null, "status": { "phase": "Running" } }),
            json!({ "search": search(&["spec.b=3", &"x".repeat(8_192)]), "status": [{ "phase": "Pending" }, { "a": [[1], {}] }] }),
        ];
        let numbered = documents.iter().enumerate();
        let lines: Vec<String> = numbered.map(|(id, document)| index("full", &(id + 1).to_string(), 10, document)).collect();
        server.bulk(&lines).await?;
        server.refresh("full").await?;
        for query in [
            json!({ "term": { "search.fields": "a=1" } }),
            json!({ "term": { "search.fields": "spec.b=2" } }),
            json!({ "terms": { "search.fields": ["spec.b=3", "spec.b=4"] } }),
            json!({ "range": { "search.fields": { "gt": "spec.c=", "lt": "spec.c>" } } }),
            json!({ "range": { "search.fields": { "gte": "spec.c=", "lt": "spec.c>" } } }),
            json!({ "range": { "search.numbers": { "gt": "n=", "lt": "n>" } } }),
            json!({ "term": { "search.fields": "x".repeat(8_192) } }),
            json!({ "term": { "status.phase": "Pending" } }),
            json!({ "term": { "spec.x.y.z": "true" } }),
        ] {
            server.post("/full/_search", &json!({ "query": query })).await?;
        }
        server.delete("/fleet_full-a.g1").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_template_of_fleetdex_makes_the_same_indices() -> Tested {
    compare(async |server: &mut Server| {
        let settings = IndexSettings {
            replicas: Some(0),
            ..IndexSettings::default()
        };
        let fields = ["status.phase", "spec.nodeName", "metadata.name"].map(FieldPath::new);
        let prefix = "fleet_template".parse()?;
        server
            .put(
                "/_index_template/fleet_template",
                &index_template(&prefix, &settings, &fields),
            )
            .await?;
        let meta = json!({ "fleetdex": { "cluster": "a", "generation": 1 } });
        let body = json!({ "aliases": { "w": {} }, "mappings": { "_meta": meta } });
        server.put("/fleet_template-a.g1", &body).await?;
        server.get("/fleet_template-a.g1").await?;
        let body = json!({ "_meta": { "fleetdex": { "uid": "u" } } });
        server.put("/fleet_template-a.g1/_mapping", &body).await?;
        server
            .get("/fleet_template-a.g1/_mapping?filter_path=*.mappings._meta")
            .await?;
        server.delete("/fleet_template-a.g1").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn mappings_grow_but_do_not_change() -> Tested {
    compare(async |server: &mut Server| {
        let o = json!({ "properties": { "x": { "type": "keyword" } } });
        let mappings = json!({ "properties": { "k": { "type": "keyword" }, "o": o } });
        server.put("/mapped", &json!({ "settings": alone(&json!({})), "mappings": mappings, "aliases": { "map": {} } })).await?;
        for (path, update) in [
            ("/mapped/_mapping", json!({ "_meta": { "a": { "b": 1 } } })),
            ("/map/_mapping", json!({ "_meta": { "a": { "c": 1 } } })),
            ("/mapp*/_mapping", json!({ "properties": { "o": { "properties": { "y": { "type": "date" } } } } })),
            ("/mapped/_mapping", json!({ "properties": { "k": { "type": "text" } } })),
            ("/mapped/_mapping", json!({ "properties": { "k": { "properties": { "z": { "type": "text" } } } } })),
            ("/mapped/_mapping", json!({ "properties": { "o": { "type": "keyword" } } })),
            ("/mapped/_mapping", json!({ "properties": { "n": { "type": "bogus" } } })),
            ("/mapped/_mapping", json!({ "properties": { "n": {} } })),
            ("/mapped/_mapping", json!({ "bogus": { "a": 2 } })),
            ("/mapped/_mapping", json!({ "properties": { "e": { "type": "object", "enabled": false } } })),
            ("/mapped/_mapping", json!({ "dynamic": "strict" })),
            ("/unmapped/_mapping", json!({ "_meta": {} })),
            ("/unmapped*/_mapping", json!({ "_meta": {} })),
            ("/mapped/_settings", json!({ "number_of_shards": 3 })),
            ("/mapped/_settings", json!({ "index": { "refresh_interval": "5s", "gc_deletes": "1s" } })),
            ("/mapped/_settings", json!({ "bogus": 3 })),
            ("/unmapped/_settings", json!({ "gc_deletes": "1s" })),
        ] {
            server.put(path, &update).await?;
        }
        server.send(Method::PUT, "/mapped/_mapping", "").await?;
        server.get("/mapped").await?;
        let documents = [json!({ "z": 1 }), json!({ "o": { "z": 1 } }), json!({ "e": { "z": 1 } }), json!({ "o": { "x": 1 } })];
        server.bulk(&documents.map(|document| index("map", "1", 1, &document))).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_mapping_without_rules_grows_with_the_documents() -> Tested {
    compare(async |server: &mut Server| {
        server.put("/dynamic", &json!({ "settings": alone(&json!({})), "aliases": { "dyn": {} } })).await?;
        let first = json!({
            "a": 1, "b": 1.5, "c": true, "d": "Some Text", "e": "2026-01-01T00:00:00Z", "f": { "g": ["x"] }, "h": [], "i": null,
            "j": {}, "k": [{ "l": 1 }, { "m": 2 }], "n.o": 1, "n.p": 2, "q": "5", "r": "2026-01-01",
        });
        server.bulk(&[index("dyn", "1", 1, &first)]).await?;
        server.get("/dynamic/_mapping").await?;
        let others = [json!({ "a": "x" }), json!({ "f": 1 }), json!({ "j": 1 }), json!({ "a": "7", "d": 5 })];
        server.bulk(&others.map(|document| index("dyn", "2", 1, &document))).await?;
        server.refresh("dynamic").await?;
        for query in [
            json!({ "term": { "d": "text" } }),
            json!({ "term": { "d.keyword": "Some Text" } }),
            json!({ "term": { "c": true } }),
            json!({ "exists": { "field": "k" } }),
            json!({ "range": { "a": { "gte": 2 } } }),
        ] {
            server.post("/dynamic/_search?filter_path=hits.total,hits.hits._id", &json!({ "query": query })).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn aliases_change_together_or_not_at_all() -> Tested {
    compare(async |server: &mut Server| {
        for name in ["swap.g1", "swap.g2", "swap-other"] {
            let target = format!("/{name}");
            let body = json!({ "settings": alone(&json!({})) });
            server.put(&target, &body).await?;
        }
        for actions in changes_of_aliases() {
            server.aliases(actions).await?;
            server.get("/swap*?filter_path=*.aliases").await?;
        }
        server.send(Method::POST, "/_aliases", "").await?;
        // An index on a full disk is removed by a request of its own only.
        let full = json!({ "index.blocks.read_only_allow_delete": true });
        server
            .put("/swap.g3", &json!({ "settings": alone(&full) }))
            .await?;
        let removal = json!({ "remove_index": { "index": "swap.g3" } });
        server.aliases(json!([removal])).await?;
        server.get("/swap*?filter_path=*.aliases").await?;
        server.delete("/swap.g3").await?;
        for path in [
            "/_alias/swap",
            "/_alias/swap*",
            "/_alias/none-swap",
            "/_alias/none-swap*",
            "/_alias/swap,none-swap",
            "/_alias/none-swap?filter_path=*.aliases",
            "/swap.g2/_alias",
            "/swap/_alias/swap-*",
            "/_alias/swap*?filter_path=*.aliases",
        ] {
            server.get(path).await?;
        }
        Ok(())
    })
    .await
}

fn changes_of_aliases() -> Vec<Value> {
    let add = |index: &str, alias: &str| json!({ "add": { "index": index, "alias": alias } });
    let remove = |index: &str, alias: &str| json!({ "remove": { "index": index, "alias": alias } });
    let must = |must_exist: bool| json!({ "remove": { "index": "swap.g1", "alias": "none", "must_exist": must_exist } });
    let remove_index = |index: &str| json!({ "remove_index": { "index": index } });
    vec![
        json!([add("swap.g1", "swap")]),
        json!([add("swap.g1", "swap-b"), add("swap-none", "swap-b")]),
        json!([add("swap.g1", "swap-c"), remove("swap.g1", "none")]),
        json!([remove("swap.g1", "none")]),
        json!([must(true)]),
        json!([must(false)]),
        json!([must(true), add("swap.g1", "swap-d")]),
        // No deletion without its permit.
        json!([must(true), remove_index("swap.g2")]),
        json!([add("swap.g1", "swap.g1")]),
        json!([add("swap.g1", "swap-other")]),
        json!([add("swap.g1", "swap*")]),
        json!([{ "add": { "index": "swap.g1" } }]),
        json!([{ "bogus": { "index": "swap.g1" } }]),
        json!([]),
        json!([remove_index("swap-none")]),
        json!([remove_index("swap-none*")]),
        json!([remove_index("swap")]),
        json!([add("swap.g1", "swap-e"), remove_index("swap.g1")]),
        // A request that removes an index may not contain other actions on it.
        json!([
            add("swap.g2", "swap"),
            remove("swap.g1", "swap"),
            remove_index("swap.g1")
        ]),
        // The swap, and the same request again.
        json!([add("swap.g2", "swap"), remove_index("swap.g1")]),
        json!([add("swap.g2", "swap"), remove_index("swap.g1")]),
        json!([add("swap.g2", "swap-other"), remove_index("swap-other")]),
        json!([{ "add": { "indices": ["swap.g*"], "aliases": ["swap-m", "swap-n"] } }]),
        json!([remove("*", "swap-n*")]),
        json!([{ "remove": { "index": "swap*", "aliases": ["swap-m", "swap-none"] } }]),
        json!([remove("swap-none*", "swap-m")]),
    ]
}
