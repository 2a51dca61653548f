//! Documents with routings behind filtered aliases, and changes of aliases that depend on one.

use anyhow::Result;
use e2e::test_result::Tested;
use serde_json::{Value, json};

use super::{Server, alone, compare};

const INDEX: &str = "packed.shared.1";

#[tokio::test]
async fn partitions_of_one_index_are_written_read_and_removed_through_their_aliases() -> Tested {
    compare(async |server: &mut Server| {
        make_index(server).await?;
        add_partition(server).await?;
        write(server).await?;
        read(server).await?;
        remove_partition(server).await?;
        server.delete(&format!("/{INDEX}")).await.map(drop)
    })
    .await
}

/// The write alias of a partition.
fn write_alias(cluster: &str, partition: u64) -> (String, Value) {
    let filter = json!({ "bool": { "filter": [
        { "term": { "_routing": partition.to_string() } },
        { "term": { "cluster": { "value": cluster, "_name": format!("uid-of-{cluster}") } } },
    ] } });
    let configuration = json!({ "routing": partition.to_string(), "filter": filter });
    (format!("packed-{cluster}.w1.p{partition}"), configuration)
}

fn add(alias: &str, configuration: &Value) -> Value {
    let mut action = json!({ "index": INDEX, "alias": alias });
    if let (Some(action), Some(members)) = (action.as_object_mut(), configuration.as_object()) {
        action.extend(members.clone());
    }
    json!({ "add": action })
}

fn remove(alias: &str) -> Value {
    json!({ "remove": { "index": INDEX, "alias": alias, "must_exist": true } })
}

async fn make_index(server: &mut Server) -> Result<()> {
    let (first, configuration) = write_alias("a", 1);
    let body = json!({
        "settings": { "index": alone(&json!({})) },
        "mappings": { "dynamic": false, "properties": {
            "cluster": { "type": "keyword" }, "name": { "type": "keyword" },
        } },
        "aliases": { first.as_str(): configuration, "packed.shared.1.v1": {} },
    });
    server.put(&format!("/{INDEX}"), &body).await?;
    server.put(&format!("/{INDEX}"), &body).await?;
    server.get(&format!("/{INDEX}/_alias")).await.map(drop)
}

async fn add_partition(server: &mut Server) -> Result<()> {
    let (second, configuration) = write_alias("b", 2);
    let over_all = json!({ "filter": { "bool": {
        "should": [{ "terms": { "_routing": ["1"] } }], "minimum_should_match": 1,
    } } });
    let change = json!([
        remove("packed.shared.1.v1"),
        add("packed.shared.1.v2", &json!({})),
        { "remove": { "index": INDEX, "alias": "packed-absent" } },
        add(&second, &configuration),
        add("packed", &over_all),
        add("packed-b", &json!({ "search_routing": "2", "filter": configuration["filter"] })),
    ]);
    server.aliases(change.clone()).await?;
    // It was made from a state that is gone.
    server.aliases(change).await?;
    server.get(&format!("/{INDEX}/_alias")).await.map(drop)
}

async fn write(server: &mut Server) -> Result<()> {
    let line = |alias: &str, id: &str, cluster: &str, version: u64| {
        let action = json!({ "index": {
            "_index": alias, "_id": id, "version": version, "version_type": "external_gte", "require_alias": true,
        } });
        format!("{action}\n{}\n", json!({ "cluster": cluster, "name": id }))
    };
    let (first, _) = write_alias("a", 1);
    let (second, _) = write_alias("b", 2);
    let lines = [
        line(&first, "1:v1/Pod/u", "a", 5),
        line(&second, "2:v1/Pod/u", "b", 7),
        line(&second, "2:v1/Pod/v", "b", 8),
        line(&second, "2:v1/Pod/v", "b", 6),
        line("packed-absent.w1.p3", "3:v1/Pod/u", "c", 1),
    ];
    server.bulk(&lines).await?;
    server.refresh(INDEX).await.map(drop)
}

async fn read(server: &mut Server) -> Result<()> {
    let (first, _) = write_alias("a", 1);
    let (second, _) = write_alias("b", 2);
    let all = json!({ "version": true, "sort": [{ "name": "asc" }] });
    for target in [first.as_str(), &second, "packed", "packed-b", INDEX] {
        server.post(&format!("/{target}/_search"), &all).await?;
        server.get(&format!("/{target}/_count")).await?;
    }
    server
        .post(&format!("/{first},{second}/_search"), &all)
        .await?;
    let docs = json!({ "docs": [
        { "_index": first, "_id": "1:v1/Pod/u" }, { "_index": second, "_id": "2:v1/Pod/w" },
    ] });
    server.post("/_mget", &docs).await?;
    let others = json!({
        "query": { "bool": { "must_not": [{ "terms": { "_routing": ["1"] } }] } },
        "sort": [{ "name": "asc" }], "_source": false, "version": true,
    });
    server.post(&format!("/{INDEX}/_search"), &others).await?;
    let point = server.open("packed").await?;
    let of_point = json!({ "pit": { "id": point }, "sort": [{ "name": "asc" }] });
    server.post("/_search", &of_point).await?;
    server
        .send(
            reqwest::Method::DELETE,
            "/_search/point_in_time",
            &json!({ "pit_id": [point] }).to_string(),
        )
        .await
        .map(drop)
}

async fn remove_partition(server: &mut Server) -> Result<()> {
    let (second, _) = write_alias("b", 2);
    server
        .aliases(json!([
            remove("packed.shared.1.v2"),
            add("packed.shared.1.v3", &json!({})),
            { "remove": { "index": INDEX, "alias": second } },
            { "remove": { "index": INDEX, "alias": "packed-b" } },
        ]))
        .await?;
    let delete = |id: &str, version: u64| {
        let action = json!({ "delete": {
            "_index": INDEX, "_id": id, "routing": "2", "version": version, "version_type": "external_gte",
        } });
        format!("{action}\n")
    };
    server
        .bulk(&[delete("2:v1/Pod/u", 7), delete("2:v1/Pod/v", 8)])
        .await?;
    server.refresh(INDEX).await?;
    let all = json!({ "version": true, "sort": [{ "name": "asc" }] });
    server
        .post(&format!("/{INDEX}/_search"), &all)
        .await
        .map(drop)
}
