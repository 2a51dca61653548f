//! Searches and points in time.

use anyhow::Result;
use e2e::test_result::Tested;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Server, alone, compare, index, remove};

#[tokio::test]
async fn a_point_in_time_is_stable_until_it_or_its_index_is_deleted() -> Tested {
    compare(async |server: &mut Server| {
        let mappings = json!({ "dynamic": false, "properties": { "n": { "type": "keyword" }, "kind": { "type": "keyword" } } });
        let body = json!({ "settings": alone(&json!({ "refresh_interval": "-1" })), "mappings": mappings });
        for name in ["view.g1", "view.g2"] {
            server.put(&format!("/{name}"), &body).await?;
        }
        let add = |index: &str, alias: &str| json!({ "add": { "index": index, "alias": alias } });
        server.aliases(json!([add("view.g1", "view.w1"), add("view.g*", "view")])).await?;
        let put = |id: &str, version: u64| index("view.w1", id, version, &json!({ "n": id, "kind": "Pod" }));
        server.bulk(&[put("a", 1), put("b", 2), put("c", 3), put("d", 4)]).await?;
        server.refresh("view.g1").await?;
        let before = server.open("view.g1").await?;
        server.bulk(&[put("a", 11), remove("view.w1", "b", 12), put("e", 13)]).await?;
        let unrefreshed = server.open("view.w1").await?;
        server.refresh("view").await?;
        let after = server.open("view").await?;
        for pit in [&before, &unrefreshed, &after] {
            read_pages(server, pit).await?;
        }
        refuse_points_in_time(server, &before).await?;
        for _ in 0..2 {
            close(server, &[&unrefreshed]).await?;
            server.post("/_search", &all_of(&unrefreshed)).await?;
        }
        server.delete("/view.g1").await?;
        server.post("/_search", &all_of(&before)).await?;
        server.post("/_search", &all_of(&after)).await?;
        // A new index of the same name is a different one.
        server.put("/view.g1", &body).await?;
        server.post("/_search", &all_of(&before)).await?;
        close(server, &[&before, &after]).await
    })
    .await
}

/// Pages as the relist diff reads them.
async fn read_pages(server: &mut Server, pit: &str) -> Result<()> {
    let mut after = Value::Null;
    for _ in 0..3 {
        let mut page = json!({
            "size": 2,
            "pit": { "id": pit, "keep_alive": "5m" },
            "query": { "bool": { "filter": [{ "term": { "kind": "Pod" } }] } },
            "sort": [{ "n": "asc" }],
            "_source": false,
            "version": true,
            "track_total_hits": false,
        });
        if !after.is_null() {
            page["search_after"] = after.clone();
        }
        let found = server.post("/_search", &page).await?;
        after = found["hits"]["hits"]
            .as_array()
            .and_then(|hits| hits.last())
            .map_or(after, |hit| hit["sort"].clone());
        let named =
            "pit_id,timed_out,_shards.failed,hits.hits._id,hits.hits._version,hits.hits.sort";
        server
            .post(&format!("/_search?filter_path={named}"), &page)
            .await?;
    }
    Ok(())
}

async fn refuse_points_in_time(server: &mut Server, pit: &str) -> Result<()> {
    server.post("/view.g1/_search", &all_of(pit)).await?;
    server
        .post("/_search?ignore_unavailable=true", &all_of(pit))
        .await?;
    server
        .post("/_search?preference=_local", &all_of(pit))
        .await?;
    let body = json!({ "sort": [{ "n": "asc" }] });
    server
        .post("/view.g1/_search?preference=_local", &body)
        .await?;
    server.post("/_search", &all_of("bogus")).await?;
    server
        .post("/_search", &json!({ "pit": { "keep_alive": "1m" } }))
        .await?;
    server
        .post("/_search", &json!({ "pit": { "id": pit, "bogus": 1 } }))
        .await?;
    close(server, &[]).await?;
    close(server, &["bogus"]).await?;
    server
        .send(Method::DELETE, "/_search/point_in_time", "")
        .await?;
    for target in [
        "view.g1/_search/point_in_time",
        "none-view/_search/point_in_time?keep_alive=1m",
        "none-view/_search/point_in_time?keep_alive=1m&ignore_unavailable=true",
        "none-view*/_search/point_in_time?keep_alive=1m",
        "view.g1/_search/point_in_time?keep_alive=bogus",
        "view.g1/_search/point_in_time?keep_alive=1m&bogus=1",
    ] {
        server.send(Method::POST, &format!("/{target}"), "").await?;
    }
    Ok(())
}

fn all_of(pit: &str) -> Value {
    json!({ "pit": { "id": pit }, "sort": [{ "n": "asc" }] })
}

async fn close(server: &mut Server, pits: &[&str]) -> Result<()> {
    server
        .send(
            Method::DELETE,
            "/_search/point_in_time",
            &json!({ "pit_id": pits }).to_string(),
        )
        .await
        .map(drop)
}

#[tokio::test]
async fn searches_return_the_same_hits_in_the_same_order() -> Tested {
    compare(async |server: &mut Server| {
        write_documents(server).await?;
        for query in queries() {
            let body = json!({ "query": query, "_source": false });
            server
                .post(
                    "/found/_search?filter_path=hits,error,status,_shards",
                    &body,
                )
                .await?;
            server
                .post("/found/_count", &json!({ "query": query }))
                .await?;
        }
        for body in orders().iter().chain(&pages()) {
            server.post("/found/_search", body).await?;
        }
        search_targets(server).await?;
        for body in [
            "",
            r#"{"size":"#,
            "garbage",
            r#"{"size":"x"}"#,
            r#"{"size":-5}"#,
            r#"{"bogus":1}"#,
            r#"{"bogus":{}}"#,
        ] {
            server.send(Method::POST, "/found/_search", body).await?;
        }
        Ok(())
    })
    .await
}

async fn write_documents(server: &mut Server) -> Result<()> {
    let mappings = json!({ "dynamic": false, "properties": {
        "k": { "type": "keyword" },
        "time": { "type": "date", "ignore_malformed": true },
        "flat": { "type": "flat_object" },
        "long": { "type": "long" },
        "ns": { "type": "keyword" },
        "o": { "properties": { "x": { "type": "keyword" } } },
    } });
    let settings = alone(&json!({ "refresh_interval": "-1" }));
    let body = json!({ "settings": settings, "mappings": mappings, "aliases": { "found": {} } });
    server.put("/found.g1", &body).await?;
    server
        .put("/found.g2", &json!({ "settings": alone(&json!({})) }))
        .await?;
    let flat = json!({ "a": { "b": "c" }, "x.y": "z" });
    let documents = [
        json!({ "k": ["a", "b"], "time": "2026-01-01T00:00:00Z", "long": 5, "flat": flat, "ns": "n1" }),
        json!({ "k": "c", "time": "bad", "long": 7, "ns": "", "o": { "x": "y" } }),
        json!({ "k": null, "time": "2026-01-01T00:00:01.5Z", "other": "x" }),
        json!({ "k": "b", "time": "2025-12-31T00:00:00+01:00", "long": -7, "ns": "n2", "flat": { "a": { "b": ["c", "d"] } } }),
    ];
    let numbered = documents.iter().enumerate();
    let lines: Vec<String> = numbered
        .map(|(id, document)| index("found", &(id + 1).to_string(), 10, document))
        .collect();
    server.bulk(&lines).await?;
    server.post("/found/_search", &json!({})).await?;
    server.refresh("found").await?;
    Ok(())
}

async fn search_targets(server: &mut Server) -> Result<()> {
    for target in [
        "none-found/_search",
        "none-found/_search?ignore_unavailable=true",
        "none-found/_search?ignore_unavailable=true&allow_no_indices=false",
        "none-found*/_search",
        "none-found*/_search?allow_no_indices=false",
        "found,none-found/_search?ignore_unavailable=true",
        "found,found.g1/_search",
        "found.g1,found.g2/_search",
        "found/_search?bogus=1",
        "found/_search?ignore_unavailable=perhaps",
        "found/_search?filter_path=hits.hits.*,-hits.hits._source",
        "found/_search?filter_path=-hits",
        "found/_search?filter_path=**._id",
        "found/_search?filter_path=hits.h*s._i*",
        "found/_search?filter_path=nothing",
        "found.g2/_search?filter_path=hits.hits._id,timed_out",
        "found.g2/_search?filter_path=hits.hits",
        "none-found/_search?filter_path=nothing",
        "none-found/_count",
        "none-found/_count?ignore_unavailable=true",
    ] {
        server
            .send(Method::POST, &format!("/{target}"), "{}")
            .await?;
    }
    // Sorted by a field of one index only: the shards of the other fail.
    let body = json!({ "sort": [{ "k": "asc" }] });
    server.post("/found.g1,found.g2/_search", &body).await?;
    for target in ["none-found", "none-found*", "found.g1"] {
        server
            .send(Method::POST, &format!("/{target}/_refresh"), "")
            .await?;
    }
    server
        .send(
            Method::POST,
            "/none-found/_refresh?ignore_unavailable=true",
            "",
        )
        .await?;
    for (method, path) in [
        (Method::GET, "/found.g1/_bogus"),
        (Method::POST, "/found.g1/_bogus"),
        (Method::GET, "/_bogus"),
    ] {
        server.send(method, path, "").await?;
    }
    Ok(())
}

fn queries() -> Vec<Value> {
    let a = || json!({ "term": { "k": "a" } });
    let c = || json!({ "term": { "k": "c" } });
    vec![
        json!({ "match_all": {} }),
        json!({ "match_none": {} }),
        a(),
        json!({ "term": { "k": { "value": "b" } } }),
        json!({ "terms": { "k": ["b", "c"] } }),
        json!({ "terms": { "k": [] } }),
        json!({ "terms": { "long": [5, "7"] } }),
        json!({ "exists": { "field": "k" } }),
        json!({ "exists": { "field": "time" } }),
        json!({ "exists": { "field": "flat" } }),
        json!({ "exists": { "field": "other" } }),
        json!({ "exists": { "field": "ns" } }),
        json!({ "exists": { "field": "o" } }),
        json!({ "term": { "other": "x" } }),
        json!({ "term": { "ns": "" } }),
        json!({ "term": { "flat.a.b": "c" } }),
        json!({ "term": { "flat": "z" } }),
        json!({ "terms": { "flat.a.b": ["d"] } }),
        json!({ "term": { "_id": "2" } }),
        json!({ "range": { "k": { "gt": "a", "lt": "c" } } }),
        json!({ "range": { "k": { "gt": "a", "lte": "c" } } }),
        json!({ "range": { "long": { "gte": 6 } } }),
        json!({ "range": { "time": { "gte": "2026-01-01T00:00:00Z" } } }),
        json!({ "range": { "other": { "gte": 6 } } }),
        json!({ "prefix": { "k": "a" } }),
        json!({ "ids": { "values": ["1", "3"] } }),
        json!({ "bool": { "must_not": [{ "terms": { "k": ["a"] } }] } }),
        json!({ "bool": {} }),
        json!({ "bool": { "should": [a(), c()] } }),
        json!({ "bool": { "filter": [a()], "should": [c()] } }),
        json!({ "bool": { "filter": [a()], "should": [c()], "minimum_should_match": 1 } }),
        json!({ "bool": { "filter": { "term": { "k": "b" } }, "must": [{ "exists": { "field": "ns" } }] } }),
        json!({ "bool": { "must_not": [{ "exists": { "field": "k" } }], "filter": [{ "bool": { "must_not": [a()] } }] } }),
        json!({ "bogus": {} }),
        json!({ "term": { "k": "a", "long": 5 } }),
        json!({ "term": { "k": ["a"] } }),
        json!({ "terms": { "k": "a" } }),
        json!({ "terms": {} }),
        json!({ "bool": { "bogus": [] } }),
        json!({ "range": { "k": { "bogus": 1 } } }),
        json!({ "exists": {} }),
        json!({}),
        json!({ "exists": { "field": "k" }, "term": { "k": "a" } }),
    ]
}

fn orders() -> Vec<Value> {
    let key = |field: &str, order: &str, missing: &str| json!({ field: { "order": order, "missing": missing } });
    let by_id = || json!({ "_id": "asc" });
    vec![
        json!({ "sort": [{ "k": "asc" }] }),
        json!({ "sort": [{ "k": "desc" }] }),
        json!({ "sort": [key("ns", "asc", "_first"), { "k": { "order": "asc" } }] }),
        json!({ "sort": [key("ns", "desc", "_last"), { "k": { "order": "desc" } }] }),
        json!({ "sort": [key("time", "desc", "_first"), key("k", "asc", "_first")] }),
        json!({ "sort": [key("time", "asc", "_first")] }),
        json!({ "sort": [key("time", "desc", "_last")] }),
        json!({ "sort": [{ "long": "asc" }, by_id()] }),
        json!({ "sort": [{ "_index": "asc" }, { "_id": "desc" }] }),
        json!({ "sort": ["long", { "k": "desc" }] }),
        json!({ "sort": [{ "other": "asc" }] }),
        json!({ "sort": [{ "other": { "order": "asc", "unmapped_type": "keyword" } }, { "_id": "desc" }] }),
        json!({ "sort": [{ "k": { "order": "asc", "bogus": 1 } }] }),
        json!({ "sort": [{ "_doc": "asc" }] }),
        json!({ "sort": [{ "long": "asc" }], "search_after": [5] }),
        json!({ "sort": [{ "long": "asc" }], "search_after": [9_223_372_036_854_775_807_i64] }),
        json!({ "sort": [{ "k": "asc" }], "search_after": [null] }),
        json!({ "sort": [key("ns", "asc", "_first"), by_id()], "search_after": [null, "3"] }),
        json!({ "sort": [key("ns", "asc", "_first"), by_id()], "search_after": [null, "0"] }),
        json!({ "sort": [key("ns", "desc", "_last"), by_id()], "search_after": ["n1", "1"] }),
        json!({ "sort": [key("time", "desc", "_last"), by_id()], "search_after": [1_767_225_600_000_i64, "1"] }),
        json!({ "sort": [{ "k": "asc" }, { "long": "asc" }], "search_after": ["a"] }),
        json!({ "search_after": ["a"] }),
    ]
}

fn pages() -> Vec<Value> {
    vec![
        json!({ "size": 0 }),
        json!({ "size": 10_001 }),
        json!({ "from": 1, "size": 1 }),
        json!({ "from": 9_999, "size": 2 }),
        json!({ "track_total_hits": false, "size": 1 }),
        json!({ "track_total_hits": 2, "size": 1 }),
        json!({ "track_total_hits": true, "size": 0 }),
        json!({ "size": 1, "version": true }),
        json!({ "size": 1, "_source": ["flat.a", "long"] }),
        json!({ "size": 1, "_source": "l*" }),
        json!({ "size": 1, "_source": "none" }),
        json!({ "size": 1, "_source": true, "version": false }),
        json!({ "size": 2, "sort": [{ "_id": "asc" }], "_source": false }),
    ]
}
