//! Tests of the test tools on real servers: load, registration, users, one fleet for several tests.

use std::sync::Arc;

use e2e::{
    fleet::{
        Fleet, OpenSearchKind, Options, Registration, SharedFleet, process::members_of_group,
        unique,
    },
    http,
    load::{Load, gzip_ratio},
    test_result::Tested,
};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::json;

#[expect(clippy::unwrap_used, reason = "every test needs it")]
async fn fleet() -> Arc<SharedFleet> {
    let options = Options::of(1, OpenSearchKind::None);
    Fleet::shared(options).await.unwrap()
}

#[tokio::test]
async fn pods_of_the_load_are_as_large_and_as_hard_to_compress_as_real_ones() -> Tested {
    let fleet = fleet().await;
    let member = fleet.member(1);
    let namespace = unique("load");
    member
        .kubectl()?
        .run(&["create", "namespace", &namespace])
        .await?;

    let load = Load::new(&namespace, 300);
    let created = load.create(member).await?;
    let patched = load.patch_statuses(member, 0).await?;
    eprintln!(
        "{:.0} pods/s created, {:.0}/s patched",
        created.per_second(),
        patched.per_second()
    );

    let url = format!("{}/api/v1/namespaces/{namespace}/pods", member.url());
    let client = http::client(Some(member.ca_pem()))?;
    let request = client.get(url).bearer_auth(member.token());
    let list = request.send().await?.bytes().await?;
    let ratio = gzip_ratio(&list).unwrap();
    eprintln!(
        "{} bytes per pod, compressed by {ratio:.1}",
        list.len() / 300
    );
    assert!((4_500..6_000).contains(&(list.len() / 300)));
    assert!(ratio < 6.0, "{ratio}");

    let pods: Api<Pod> = Api::namespaced(member.client().await?, &namespace);
    let running = pods
        .list(&kube::api::ListParams::default().fields("status.phase=Running"))
        .await?;
    assert_eq!(running.items.len(), 270);
    load.delete(member).await?;
    assert!(
        pods.list(&kube::api::ListParams::default())
            .await?
            .items
            .is_empty()
    );
    Ok(())
}

#[tokio::test]
async fn a_registration_names_the_address_of_its_member() -> Tested {
    let fleet = fleet().await;
    let member = fleet.member(1);
    let registration = Registration::new(member, "member1", "default");
    let manifest: serde_json::Value = serde_json::from_str(&registration.manifest())?;
    assert_eq!(manifest["items"][1]["spec"]["apiEndpoint"], member.url());
    let secret = &registration.secret.to_string();
    fleet.control_plane().kubectl()?.apply(secret).await?;
    Ok(())
}

#[tokio::test]
async fn a_plain_user_is_denied_without_a_role_binding() -> Tested {
    let fleet = fleet().await;
    let member = fleet.member(1);
    let pods: Api<Pod> = Api::all(member.client_of("alice").await?);
    let refused = pods
        .list(&kube::api::ListParams::default())
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 403),
        "{refused}"
    );
    Ok(())
}

#[tokio::test]
async fn equal_options_share_a_fleet_until_it_is_dropped() -> Tested {
    let options = Options {
        opensearch: OpenSearchKind::None,
        own_etcds: true,
        ..Options::default()
    };
    let first = Fleet::shared(options.clone()).await?;
    let second = Fleet::shared(options.clone()).await?;
    assert!(Arc::ptr_eq(&first, &second));
    let group = first.process_group();
    drop(first);
    second.check_running().unwrap();
    drop(second);
    let other = Fleet::start(options).await?;
    assert_ne!(other.process_group(), group);
    assert_eq!(members_of_group(group), Vec::<u32>::new());
    Ok(())
}

#[tokio::test]
async fn a_reused_opensearch_is_empty_and_running() -> Tested {
    let options = Options::default();
    let first = Fleet::start(options.clone()).await?;
    let server = first.opensearch()?;
    let client = server.client()?;
    let template = json!({ "index_patterns": ["left*"], "template": { "settings": { "number_of_replicas": 0 } } });
    client.put("_index_template/left", &template).await?;
    client.put("left-1/_doc/1", &json!({ "a": 1 })).await?;
    let view = "left-1/_search/point_in_time?keep_alive=5m";
    client.post(view, &json!({})).await?;
    let setting = json!({ "persistent": { "action.auto_create_index": "false" } });
    client.put("_cluster/settings", &setting).await?;
    server.pause()?;
    drop(first);

    let second = Fleet::start(options).await?;
    let client = second.opensearch()?.client()?;
    for path in ["_cat/indices?format=json", "_cat/templates?format=json"] {
        assert_eq!(client.get(path).await?, json!([]), "{path}");
    }
    let settings = client.get("_cluster/settings").await?;
    assert_eq!(settings, json!({ "persistent": {}, "transient": {} }));
    let views = client.get("_search/point_in_time/_all").await?;
    assert_eq!(views["pits"], json!([]), "{views}");
    Ok(())
}
