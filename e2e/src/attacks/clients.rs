//! Attacks of clients that read nothing, or that take what is there for all: L2 and slow readers.

use anyhow::Result;
use bytes::Bytes;
use futures::future::try_join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    attack::{Attack, AttackSize, Planted, TEXT},
    names::{ATTACKED, ATTACKERS},
    texts::list,
    volley::{Users, Volley},
};
use crate::{
    objects::{Objects, service_account_path},
    query_api::GROUP,
};

const ACCOUNTS: usize = 64;

/// L2: accounts that make one-time links.
pub async fn links(hub: &Objects) -> Result<Attack> {
    let tokens = try_join_all((0..ACCOUNTS).map(|number| token(hub, number))).await?;
    let volley = Volley::get(Users::Tokens(tokens), ACCOUNTS, "/ui/links").sending(
        Method::POST,
        "application/json",
        Bytes::from_static(b"{}"),
    );
    Ok(Attack::of_requests(
        "l2",
        "64 accounts make links",
        vec![volley],
    ))
}

async fn token(hub: &Objects, number: usize) -> Result<String> {
    let name = format!("attacker-{number}");
    let account =
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } });
    hub.apply(&service_account_path(&name), &account).await?;
    let request =
        json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let answer = hub
        .create(&format!("{}/token", service_account_path(&name)), &request)
        .await?;
    Ok(answer["status"]["token"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

/// Users who begin long lists and read nothing of them.
pub fn unread_lists(_: AttackSize) -> Attack {
    let planted: Vec<Planted> = (0..30)
        .map(|number| text_map(&format!("long-{number:02}"), 1_000_000))
        .collect();
    let path = format!("{GROUP}/search/api/v1/namespaces/{ATTACKED}/configmaps");
    let proxied = format!("{GROUP}/proxying/karmada/proxy/api/v1/namespaces/{ATTACKED}/configmaps");
    Attack {
        name: "s1",
        what: "80 lists of 30 MB, unread",
        planted,
        probe: Some(format!("{path}?limit=1&names=long-29&onlyMetadata=true")),
        volleys: vec![
            Volley::get(Users::Group(ATTACKERS, 40), 40, format!("{path}?limit=500")).unread(),
            Volley::get(Users::Group(ATTACKERS, 20), 20, path).unread(),
            Volley::get(
                Users::Group(ATTACKERS, 20),
                20,
                format!("{proxied}?limit=500"),
            )
            .unread(),
        ],
    }
}

/// Users who watch and read nothing.
pub fn unread_watches(size: AttackSize) -> Attack {
    let path = format!("{GROUP}/search/api/v1/namespaces/{ATTACKED}/configmaps?watch=true");
    Attack {
        name: "s2",
        what: "500 watches of an object of 500 kB that changes, unread",
        planted: vec![text_map("watched", 500_000).changing()],
        probe: None,
        volleys: vec![
            Volley::get(Users::Group(ATTACKERS, 25), size.of(500, 250), path.clone()).unread(),
            Volley::get(Users::Group(ATTACKERS, 25), size.of(500, 250), path)
                .tables()
                .unread(),
        ],
    }
}

fn text_map(name: &str, bytes: usize) -> Planted {
    let data = list(bytes / 1_000, |_| format!("\"{}\"", "x".repeat(997)));
    let metadata = json!({ "name": name, "namespace": ATTACKED, "labels": { "app": name } });
    let object: Value = json!({ "metadata": metadata, "data": TEXT });
    Planted::new("configmaps", object).with_text(data)
}
