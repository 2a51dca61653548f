//! How many connections the watches of a real API server take.

#![expect(clippy::unwrap_used, clippy::panic, reason = "parts of a test")]

use std::{collections::BTreeSet, fs, time::Duration};

use e2e::{
    fleet::{Fleet, OpenSearchKind, Options},
    objects::Objects,
    poll::eventually,
    test_result::Tested,
};
use fleetdex_clusters::{
    bearer::Bearer,
    connect::{Connect, Network, Protocols},
    credentials::Credentials,
    member::{Member, MemberAccess},
    watch::{Collection, ListerWatcher},
};
use fleetdex_core::model::{Gvk, Resource, Scope};
use fleetdex_crds::cluster::{Cluster, LocalSecretReference};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

/// More than one connection may have.
const WATCHES: usize = 100;

#[tokio::test]
async fn a_hundred_watches_of_a_member_take_two_connections_instead_of_a_hundred() -> Tested {
    let options = Options::of(1, OpenSearchKind::None);
    let fleet = Fleet::start(options).await?;
    let member = fleet.member(1);
    let objects = Objects::of(member)?;
    let port = member.url().rsplit_once(':').unwrap().1.parse().unwrap();
    for (protocols, expected) in [(Protocols::Http2AndHttp1, 2), (Protocols::Http1, WATCHES)] {
        let others = connections_to(port);
        let client = client(&fleet, protocols).await;
        let watching = ListerWatcher::new(client, config_maps());
        let version = watching.current_version().await.unwrap();
        let mut watches = try_join_all((0..WATCHES).map(|_| watching.watch(version)))
            .await
            .unwrap();
        let opened = connections_to(port).difference(&others).count();
        assert_eq!(opened, expected, "{protocols:?}");

        let name = format!("written-{expected}");
        let data = json!({ "a": "b" });
        objects.apply_config_map("default", &name, &data).await?;
        for watch in &mut watches {
            let next = tokio::time::timeout(Duration::from_secs(20), watch.next());
            let line = next.await?.unwrap().unwrap();
            assert!(String::from_utf8_lossy(&line).contains(&name));
        }
        drop((watches, watching));
        eventually(
            "the connections are closed",
            Duration::from_secs(20),
            || async {
                let open = connections_to(port).difference(&others).count();
                // One has written the object.
                anyhow::ensure!(open <= 1, "{open} are open");
                Ok(())
            },
        )
        .await?;
    }
    Ok(())
}

fn config_maps() -> Collection {
    Collection {
        resource: Resource {
            gvk: Gvk::new("", "v1", "ConfigMap"),
            plural: "configmaps".into(),
            namespaced: true,
        },
        scope: Scope::Namespace("default".parse().unwrap()),
        label_selector: None,
        field_selector: None,
    }
}

async fn client(fleet: &Fleet, protocols: Protocols) -> kube::Client {
    let server = fleet.member(1);
    let cluster: Cluster = serde_json::from_value(json!({
        "metadata": { "name": "member1" },
        "spec": { "apiEndpoint": server.url(), "insecureSkipTLSVerification": true },
    }))
    .unwrap();
    let secret: Secret = serde_json::from_value(json!({
        "stringData": {}, "data": { "token": base64(server.token()) },
    }))
    .unwrap();
    let reference = LocalSecretReference {
        namespace: "default".into(),
        name: "member1".into(),
    };
    let member = Member::try_from(&cluster).unwrap();
    let MemberAccess::Endpoint(endpoint) = &member.access else {
        panic!("{:?}", member.access)
    };
    let credentials = Credentials::from_secret(endpoint, &reference, &secret).unwrap();
    let network = Network {
        protocols,
        ..Network::default()
    };
    let bearer = Bearer::new(Some(server.token()));
    network
        .connect(&member, &credentials, &bearer)
        .await
        .unwrap()
}

fn base64(text: &str) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.encode(text)
}

/// The clients' ends of the established connections of this machine to a port.
fn connections_to(port: u16) -> BTreeSet<String> {
    let mut ends = BTreeSet::new();
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let table = fs::read_to_string(file).unwrap_or_default();
        let local_end = |line: &str| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let [_, local, remote, state, ..] = columns[..] else {
                return None;
            };
            let (_, remote_port) = remote.rsplit_once(':')?;
            let is_to_port = state == "01" && remote_port == format!("{port:04X}");
            is_to_port.then(|| local.to_owned())
        };
        ends.extend(table.lines().filter_map(local_end));
    }
    ends
}
