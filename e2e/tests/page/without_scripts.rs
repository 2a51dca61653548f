//! The page in a browser that runs no scripts.

#![allow(clippy::unwrap_used, reason = "a test")]

use e2e::browser::{BrowserOptions, keys};

use crate::{
    questions::show_question_to_opensearch,
    site::{OBJECTS_OF_DEMO, OF_DEMO, Visit, objects},
};

#[tokio::test]
async fn search_pages_objects_differences_and_the_fleet_need_no_scripts() {
    let visit = Visit::begin().await;
    let options = BrowserOptions {
        javascript: false,
        ..BrowserOptions::default()
    };
    let browser = visit.open_with(options, "/").await;
    browser.click("#q").await.unwrap();
    browser.type_text(OF_DEMO).await.unwrap();
    browser.press(keys::ENTER).await.unwrap();
    let title = format!("{OBJECTS_OF_DEMO} objects");
    browser.wait_for_text("h1", &title).await.unwrap();
    browser.click_text(".pages a", "Next page").await.unwrap();
    browser.wait_for_url("continue=").await.unwrap();
    assert_eq!(objects(&browser).await.len(), OBJECTS_OF_DEMO - 50);

    browser.click_text(".facets a", "Pod").await.unwrap();
    browser.wait_for_text("h1", "25 objects").await.unwrap();
    browser
        .click_text("#results th a", "checkout-0")
        .await
        .unwrap();
    browser.wait_for("#facts").await.unwrap();
    // Nothing that only a script could do is offered.
    let hidden = "[data-keys], [data-copy], [data-copy-from], [data-yaml-search]";
    browser.wait_until_gone(hidden, "").await.unwrap();
    browser
        .click_text("#clusters-section a", "Compare")
        .await
        .unwrap();
    browser.wait_for_url("/ui/compare/").await.unwrap();
    browser.wait_for(".differences").await.unwrap();
    browser.click_text("nav a", "Fleet").await.unwrap();
    browser.wait_for_text("#fleet th", "member1").await.unwrap();
    show_question_to_opensearch(&browser).await;
    browser.click_text("button", "Sign out").await.unwrap();
    browser.wait_for_text("h1", "Sign in").await.unwrap();
}
