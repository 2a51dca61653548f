//! How sessions begin and end.

use e2e::{
    browser::{Browser, BrowserOptions},
    fleet::unique,
    objects::service_account_path,
    test_result::Tested,
};

use crate::site::{POD, Visit, is_marked, mark, search, sign_in};

#[tokio::test]
async fn a_link_signs_in_once() -> Tested {
    let visit = Visit::begin().await;
    let link = visit.link().await;
    let first = Browser::open(BrowserOptions::default()).await?;
    first.goto(&link).await?;
    first.wait_for("form.account").await?;
    let url = first.url().await?;
    assert_eq!(
        url,
        visit.address("/"),
        "the code does not stay in the address"
    );

    let second = Browser::open(BrowserOptions::default()).await?;
    second.goto(&link).await?;
    second
        .wait_for_text(".problem", "This link was used already")
        .await?;
    second.goto(&visit.address("/fleet")).await?;
    second.wait_for_text("h1", "Sign in").await?;
    Ok(())
}

#[tokio::test]
async fn a_session_that_ended_goes_on_where_it_was_after_signing_in() -> Tested {
    let visit = Visit::begin().await;
    let path = search("kind:Pod ns:shop");
    let browser = visit.open(&path).await;
    for cookie in browser.cookies().await? {
        browser.set_cookie(&cookie, "expired").await?;
    }
    browser.goto(&visit.address(POD)).await?;
    browser
        .wait_for_text(".problem", "Your session has ended")
        .await?;
    assert_eq!(browser.url().await?, visit.address(POD));
    sign_in(&browser, &visit.site().operator.token()?).await;
    assert_eq!(browser.url().await?, visit.address(POD));
    browser.wait_for_text("h1", "checkout-0").await?;
    Ok(())
}

#[tokio::test]
async fn an_open_view_asks_for_a_token_when_its_token_is_revoked() -> Tested {
    let visit = Visit::begin().await;
    let (hub, account) = (visit.hub(), unique("revoked"));
    let token = hub.service_account_token(&account).await?;
    let browser = visit.open_as(&token, "/fleet").await;
    browser.wait_for_text("h1", "The fleet").await?;
    mark(&browser).await?;
    hub.delete(&service_account_path(&account)).await?;
    // The view loads itself every 5 s, and a review of a token holds for some seconds.
    browser
        .wait_for_text(".problem", "Your session has ended")
        .await?;
    assert!(is_marked(&browser).await?, "the page was loaded again");
    let control_plane = visit.site().fleet.control_plane();
    sign_in(&browser, control_plane.token()).await;
    browser.wait_for_text("h1", "The fleet").await?;
    let url = browser.url().await?;
    assert_eq!(url, visit.secure_address("/fleet"));
    Ok(())
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_signing_out_ends_the_session() -> Tested {
    let visit = Visit::begin().await;
    let browser = Browser::open(BrowserOptions::default()).await?;
    browser.goto(&visit.address("/fleet")).await?;
    browser.click("#token").await?;
    browser.type_text("wrong").await?;
    browser.click("main button").await?;
    browser
        .wait_for_text(".problem", "This token is not valid")
        .await?;
    sign_in(&browser, &visit.site().operator.token()?).await;
    assert_eq!(browser.url().await?, visit.address("/fleet"));

    browser.click_text("button", "Sign out").await?;
    browser.wait_for_text("h1", "Sign in").await?;
    assert_eq!(browser.cookies().await?, []);
    browser.goto(&visit.address("/fleet")).await?;
    browser.wait_for_text("h1", "Sign in").await?;
    Ok(())
}
