//! What the first view of a new browser loads.

#![allow(clippy::unwrap_used, reason = "a test")]

use e2e::{
    browser::{Browser, BrowserOptions},
    test_result::Tested,
};

use crate::site::{DIFFERENCES, POD, Visit, search};

/// Of all responses that the first view needs, headers included.
const MAX_BYTES: u64 = 100_000;

#[tokio::test]
async fn the_first_view_has_less_than_100_kb_all_from_this_server() -> Tested {
    let visit = Visit::begin().await;
    let browser = Browser::open(BrowserOptions::default()).await?;
    browser.goto(&visit.link().await).await?;
    browser.wait_for("#results tbody tr").await?;
    browser.wait_for("[data-keys]").await?;
    let mut requests = browser.requests().await?;
    // What follows a change of the fleet is no part of the first view.
    requests.retain(|request| !request.url.contains("?version="));
    let bytes: u64 = requests.iter().map(|request| request.bytes).sum();
    for request in &requests {
        println!("{:7} {} {}", request.bytes, request.kind, request.url);
    }
    println!("{bytes:7} bytes in all for the first view");
    assert!(bytes < MAX_BYTES, "{bytes} bytes: {requests:#?}");
    assert!(requests.len() > 5, "{requests:#?}");
    Ok(())
}

#[tokio::test]
async fn no_view_asks_another_server_or_breaks_the_policy_of_the_page() -> Tested {
    let visit = Visit::begin().await;
    let browser = visit.open("/").await;
    let origin = visit.address("").replace("/ui", "");
    for path in [
        search("kind:Pod"),
        POD.to_owned(),
        DIFFERENCES.to_owned(),
        "/fleet".to_owned(),
    ] {
        browser.goto(&visit.address(&path)).await?;
        browser.wait_for("[data-keys]").await?;
    }
    for request in browser.requests().await? {
        assert_eq!(request.origin().unwrap(), origin, "{request:?}");
        let is_refused = request.failure.as_deref() == Some("csp");
        assert!(!is_refused, "{request:?}");
    }
    assert_eq!(browser.console().await?, []);
    Ok(())
}
