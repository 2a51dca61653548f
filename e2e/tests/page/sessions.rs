//! How sessions begin and end.

#![allow(clippy::unwrap_used, reason = "a test")]

use e2e::{
    browser::{Browser, BrowserOptions},
    fleet::unique,
    objects::service_account_path,
};

use crate::site::{POD, Visit, is_marked, mark, search, sign_in};

#[tokio::test]
async fn a_link_signs_in_once() {
    let visit = Visit::begin().await;
    let link = visit.link().await;
    let first = Browser::open(BrowserOptions::default()).await.unwrap();
    first.goto(&link).await.unwrap();
    first.wait_for("form.account").await.unwrap();
    let url = first.url().await.unwrap();
    assert_eq!(
        url,
        visit.address("/"),
        "the code does not stay in the address"
    );

    let second = Browser::open(BrowserOptions::default()).await.unwrap();
    second.goto(&link).await.unwrap();
    second
        .wait_for_text(".problem", "This link was used already")
        .await
        .unwrap();
    second.goto(&visit.address("/fleet")).await.unwrap();
    second.wait_for_text("h1", "Sign in").await.unwrap();
}

#[tokio::test]
async fn a_session_that_ended_goes_on_where_it_was_after_signing_in() {
    let visit = Visit::begin().await;
    let path = search("kind:Pod ns:shop");
    let browser = visit.open(&path).await;
    for cookie in browser.cookies().await.unwrap() {
        browser.set_cookie(&cookie, "expired").await.unwrap();
    }
    browser.goto(&visit.address(POD)).await.unwrap();
    browser
        .wait_for_text(".problem", "Your session has ended")
        .await
        .unwrap();
    assert_eq!(browser.url().await.unwrap(), visit.address(POD));
    sign_in(&browser, &visit.site().operator.token().unwrap()).await;
    assert_eq!(browser.url().await.unwrap(), visit.address(POD));
    browser.wait_for_text("h1", "checkout-0").await.unwrap();
}

#[tokio::test]
async fn an_open_view_asks_for_a_token_when_its_token_is_revoked() {
    let visit = Visit::begin().await;
    let (hub, account) = (visit.hub(), unique("revoked"));
    let token = hub.service_account_token(&account).await.unwrap();
    let browser = visit.open_as(&token, "/fleet").await;
    browser.wait_for_text("h1", "The fleet").await.unwrap();
    mark(&browser).await;
    hub.delete(&service_account_path(&account)).await.unwrap();
    // The view loads itself every 5 s, and a review of a token holds for some seconds.
    browser
        .wait_for_text(".problem", "Your session has ended")
        .await
        .unwrap();
    assert!(is_marked(&browser).await, "the page was loaded again");
    let control_plane = visit.site().fleet.control_plane();
    sign_in(&browser, control_plane.token()).await;
    browser.wait_for_text("h1", "The fleet").await.unwrap();
    let url = browser.url().await.unwrap();
    assert_eq!(url, visit.secure_address("/fleet"));
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_signing_out_ends_the_session() {
    let visit = Visit::begin().await;
    let browser = Browser::open(BrowserOptions::default()).await.unwrap();
    browser.goto(&visit.address("/fleet")).await.unwrap();
    browser.click("#token").await.unwrap();
    browser.type_text("wrong").await.unwrap();
    browser.click("main button").await.unwrap();
    browser
        .wait_for_text(".problem", "This token is not valid")
        .await
        .unwrap();
    sign_in(&browser, &visit.site().operator.token().unwrap()).await;
    assert_eq!(browser.url().await.unwrap(), visit.address("/fleet"));

    browser.click_text("button", "Sign out").await.unwrap();
    browser.wait_for_text("h1", "Sign in").await.unwrap();
    assert_eq!(browser.cookies().await.unwrap(), []);
    browser.goto(&visit.address("/fleet")).await.unwrap();
    browser.wait_for_text("h1", "Sign in").await.unwrap();
}
