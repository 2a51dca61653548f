//! The real servers start, recover from kills, and leave nothing behind.

use std::time::{Duration, Instant};

use e2e::{
    fleet::{Fleet, OpenSearchKind, Options, process::members_of_group, unique},
    poll::eventually,
    test_result::Tested,
};
use serde_json::json;

fn options(opensearch: OpenSearchKind) -> Options {
    Options {
        members: 1,
        opensearch,
        own_opensearch: true,
        ..Options::default()
    }
}

#[tokio::test]
async fn servers_are_killed_and_restarted_with_their_data_and_leave_nothing_behind() -> Tested {
    let started = Instant::now();
    let fleet = Fleet::start(options(OpenSearchKind::Plain)).await?;
    eprintln!(
        "plain fleet ready in {:.1} s",
        started.elapsed().as_secs_f64()
    );

    let member = fleet.member(1);
    let kubectl = member.kubectl()?;
    let namespace = unique("parts");
    kubectl.run(&["create", "namespace", &namespace]).await?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web", "namespace": namespace },
        "spec": { "containers": [{ "name": "web", "image": "nginx" }] },
    });
    kubectl.apply(&pod.to_string()).await?;
    let index = unique("parts");
    let server = fleet.opensearch()?;
    let opensearch = server.client()?;
    opensearch
        .put(&format!("{index}/_doc/1"), &json!({ "answer": 42 }))
        .await?;

    member.kill();
    let refused = kubectl.output(&["get", "pods", "-n", &namespace]).await?;
    assert!(!refused.success, "{refused:?}");
    assert!(fleet.check_running().is_err());
    let restarted = Instant::now();
    member.restart().await?;
    eprintln!(
        "API server back in {:.1} s",
        restarted.elapsed().as_secs_f64()
    );
    let pods = kubectl.json(&["get", "pods", "-n", &namespace]).await?;
    assert_eq!(pods["items"][0]["metadata"]["name"], "web");

    server.kill();
    assert!(opensearch.get("").await.is_err());
    let reopened = Instant::now();
    server.restart().await?;
    eprintln!(
        "OpenSearch back in {:.1} s",
        reopened.elapsed().as_secs_f64()
    );
    let documents = eventually("the document is back", Duration::from_secs(30), || async {
        opensearch.documents(&index).await
    });
    let documents = documents.await?;
    assert_eq!(documents.len(), 1);
    assert_eq!(documents[0]["_source"]["answer"], 42);
    fleet.check_running().unwrap();

    let state = fleet.state();
    let state_file = fleet.state_file().to_owned();
    assert_eq!(
        e2e::fleet::FleetState::read(&state_file).unwrap().members[0].server,
        member.url()
    );
    let group = fleet.process_group();
    assert_eq!(
        members_of_group(group).len(),
        5,
        "anchor, etcd, two API servers, OpenSearch"
    );
    drop(fleet);
    assert_eq!(members_of_group(group), Vec::<u32>::new());
    let own_process = std::process::id();
    let left: Vec<_> = state
        .survivors()
        .into_iter()
        .filter(|process| process.pid != own_process)
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!state_file.exists());
    Ok(())
}

#[tokio::test]
async fn a_secure_opensearch_refuses_wrong_passwords_and_unknown_authorities() -> Tested {
    let started = Instant::now();
    let fleet = Fleet::start(Options {
        members: 0,
        ..options(OpenSearchKind::Secure)
    })
    .await?;
    eprintln!(
        "secure fleet ready in {:.1} s",
        started.elapsed().as_secs_f64()
    );
    let server = fleet.opensearch()?;

    let wrong = server.client_of("admin", "wrong").unwrap();
    assert_eq!(
        wrong.send(reqwest::Method::GET, "", None).await?.status,
        401
    );
    let right = server.client()?;
    assert_eq!(right.get("").await?["version"]["number"], "2.19.4");
    right.put("secret/_doc/1", &json!({ "answer": 42 })).await?;
    assert_eq!(right.documents("secret").await?.len(), 1);

    let password = "Reads-0nly-everything-9";
    server.create_user("reader", password, &["readall"]).await?;
    let reader = server.client_of("reader", password).unwrap();
    let written = reader
        .send(reqwest::Method::PUT, "secret/_doc/2", Some(&json!({})))
        .await?;
    assert_eq!(written.status, 403, "{written:?}");
    reader.get("secret/_doc/1").await?;

    let stranger =
        e2e::opensearch::OpenSearch::new(server.url(), Some(fleet.control_plane().ca_pem()), None)?;
    assert!(
        stranger.get("").await.is_err(),
        "a certificate of another authority was accepted"
    );

    server.restart().await?;
    reader.get("secret/_doc/1").await?;
    Ok(())
}
