//! What tests are made of works on real servers: load, registration, users, one fleet for several tests.

use std::time::Duration;

use e2e::{
    fleet::{Fleet, OpenSearchKind, Options, Registration, unique},
    http,
    load::{Load, gzip_ratio},
    poll::always,
};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;

#[expect(clippy::unwrap_used, reason = "every test needs it")]
async fn fleet() -> &'static Fleet {
    let options = Options {
        members: 1,
        opensearch: OpenSearchKind::None,
        ..Options::default()
    };
    Fleet::shared(options).await.unwrap()
}

#[tokio::test]
async fn pods_of_the_load_are_as_large_and_as_hard_to_compress_as_real_ones() {
    let fleet = fleet().await;
    let member = fleet.member(1).unwrap();
    let namespace = unique("load");
    member
        .kubectl()
        .unwrap()
        .run(&["create", "namespace", &namespace])
        .await
        .unwrap();

    let load = Load::new(&namespace, 300);
    let created = load.create(member).await.unwrap();
    let patched = load.patch_statuses(member, 0).await.unwrap();
    eprintln!(
        "{:.0} pods/s created, {:.0}/s patched",
        created.per_second(),
        patched.per_second()
    );

    let url = format!("{}/api/v1/namespaces/{namespace}/pods", member.url());
    let client = http::client(Some(member.ca_pem())).unwrap();
    let request = client.get(url).bearer_auth(member.token());
    let list = request.send().await.unwrap().bytes().await.unwrap();
    let ratio = gzip_ratio(&list).unwrap();
    eprintln!(
        "{} bytes per pod, compressed by {ratio:.1}",
        list.len() / 300
    );
    assert!((4_500..5_500).contains(&(list.len() / 300)));
    assert!(ratio < 6.0, "{ratio}");

    let pods: Api<Pod> = Api::namespaced(member.client().await.unwrap(), &namespace);
    let running = pods
        .list(&kube::api::ListParams::default().fields("status.phase=Running"))
        .await
        .unwrap();
    assert_eq!(running.items.len(), 270);
    load.delete(member).await.unwrap();
    assert!(
        pods.list(&kube::api::ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test]
async fn a_registration_reaches_the_member_with_what_it_holds() {
    let fleet = fleet().await;
    let member = fleet.member(1).unwrap();
    let registration = Registration::new(member, "member1", "default");
    let manifest: serde_json::Value = serde_json::from_str(&registration.manifest()).unwrap();
    assert_eq!(manifest["items"][1]["spec"]["apiEndpoint"], member.url());
    let secret = &registration.secret.to_string();
    fleet
        .control_plane()
        .kubectl()
        .unwrap()
        .apply(secret)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_plain_user_may_do_nothing_until_a_role_is_bound() {
    let member = fleet().await.member(1).unwrap();
    let pods: Api<Pod> = Api::all(member.client_of("alice").await.unwrap());
    let refused = pods
        .list(&kube::api::ListParams::default())
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 403),
        "{refused}"
    );
}

#[tokio::test]
async fn the_shared_fleet_cannot_be_asked_for_in_two_ways() {
    let fleet = fleet().await;
    let other = Fleet::shared(Options {
        members: 2,
        ..Options::default()
    })
    .await
    .unwrap_err();
    assert!(other.to_string().contains("members: 2"), "{other:#}");
    let running = always("servers run", Duration::from_millis(200), || async {
        fleet.check_running()
    });
    running.await.unwrap();
}
