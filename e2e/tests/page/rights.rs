//! What users of the control plane see, over TLS, and what protects their sessions.

#![allow(clippy::unwrap_used, reason = "a test")]

use axum::{Router, response::Html, routing::get};
use e2e::{
    browser::{Browser, keys},
    test_result::Tested,
};
use tokio::net::TcpListener;

use crate::site::{POD, SECRET, Visit, objects, search, source};

/// Pods of the namespace web in all members: all that alice may list.
const PODS_OF_ALICE: usize = 8;

async fn alice(visit: &Visit, path: &str) -> Browser {
    let hub = visit.site().fleet.control_plane();
    visit.open_as(hub.token_of("alice").unwrap(), path).await
}

#[tokio::test]
async fn a_user_sees_in_a_search_only_what_she_may_list() -> Tested {
    let visit = Visit::begin().await;
    let browser = alice(&visit, "/").await;
    let title = format!("{PODS_OF_ALICE} objects");
    browser.wait_for_text("h1", &title).await?;
    assert_eq!(browser.text(".user").await?, "alice");
    let found = objects(&browser).await?;
    let are_hers = found
        .iter()
        .all(|path| path.contains("/namespaces/web/pods/"));
    assert!(found.len() == PODS_OF_ALICE && are_hers, "{found:?}");
    let facets = browser.text(".facets").await?;
    for (value, is_hers) in [
        ("web", true),
        ("Pod", true),
        ("shop", false),
        ("Secret", false),
    ] {
        assert_eq!(facets.contains(value), is_hers, "{value} in {facets}");
    }

    for (typed, hers, of_others) in [
        ("kind:", "Pod", "Secret"),
        (" ns:", "web", "shop"),
        (" label:app=", "web", "checkout"),
    ] {
        browser.press('/').await?;
        browser.press(keys::BACKSPACE).await?;
        browser.type_text(typed.trim()).await?;
        let option = "#choices [role=option] .text";
        browser.wait_for_text(option, hers).await?;
        let offered = browser.texts(option).await?;
        let is_offered = offered.iter().any(|text| text == of_others);
        assert!(!is_offered, "{typed}: {offered:?}");
        browser.press(keys::ESCAPE).await?;
        browser.press(keys::ESCAPE).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_user_sees_of_objects_and_of_the_fleet_only_what_she_may_list() -> Tested {
    let visit = Visit::begin().await;
    let browser = alice(&visit, POD).await;
    for path in [
        POD.to_owned(),
        format!("/clusters/member1/{SECRET}"),
        format!("/compare/{SECRET}?left=member1&right=member2"),
    ] {
        browser.goto(&visit.secure_address(&path)).await?;
        let problem = browser.text(".problem").await?;
        assert!(problem.contains("alice"), "{path}: {problem}");
        let html = source(&browser).await?;
        assert!(!html.contains("CrashLoopBackOff"), "{path}: {html}");
    }
    let hers = "/clusters/member1/api/v1/namespaces/web/pods/web-0";
    browser.goto(&visit.secure_address(hers)).await?;
    browser.wait_for_text("#facts", "Healthy").await?;
    browser.goto(&visit.secure_address("/fleet")).await?;
    browser.wait_for_text("h1", "The fleet").await?;
    let text = browser.text("main").await?;
    assert!(
        !text.contains("Registries") && !text.contains("demo"),
        "{text}"
    );
    let without = browser
        .goto(&visit.secure_address(&search("kind:Pod ns:shop")))
        .await;
    without.unwrap();
    browser.wait_for_text("h1", "0 objects").await?;
    Ok(())
}

#[tokio::test]
async fn scripts_and_other_sites_cannot_use_a_session() -> Tested {
    let visit = Visit::begin().await;
    let browser = alice(&visit, "/").await;
    let cookies = browser.cookies().await?;
    assert!(!cookies.is_empty());
    for cookie in &cookies {
        let is_protected = cookie.http_only
            && cookie.secure
            && cookie.same_site.as_deref() == Some("Lax")
            && cookie.path == "/ui";
        assert!(is_protected, "{cookie:?}");
    }
    let html = source(&browser).await?;
    let token = visit.site().fleet.control_plane().token_of("alice");
    assert!(!html.contains(token.unwrap()), "the token is in the page");

    for (path, fields) in [
        ("/logout", String::new()),
        ("/login", "<input name=token value=other>".to_owned()),
    ] {
        let forged = other_site(&visit.secure_address(path), &fields).await?;
        browser.goto(&forged).await?;
        browser.forget().await?;
        browser.click("button").await?;
        browser
            .wait_for_text(".problem", "This form was sent from another site.")
            .await?;
        let requests = browser.requests().await?;
        let form = requests.iter().find(|request| request.method == "POST");
        assert_eq!(form.unwrap().status, Some(403));
        browser.goto(&visit.secure_address("/")).await?;
        assert_eq!(browser.text(".user").await?, "alice");
    }
    Ok(())
}

/// Serves a form for the page on another site until the test ends; returns its address.
async fn other_site(action: &str, fields: &str) -> Tested<String> {
    let form = format!(
        "<!doctype html><form method=post action='{action}'>{fields}<button>Win</button></form>"
    );
    let site = Router::new().route("/", get(move || async move { Html(form) }));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, site).await });
    Ok(format!("http://localhost:{port}/"))
}
