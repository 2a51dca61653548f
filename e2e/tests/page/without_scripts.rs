//! The page in a browser that runs no scripts.

use e2e::{
    browser::{BrowserOptions, keys},
    test_result::Tested,
};

use crate::{
    questions::show_question_to_opensearch,
    site::{OBJECTS_OF_DEMO, OF_DEMO, Visit, objects},
};

#[tokio::test]
async fn search_pages_objects_differences_and_the_fleet_need_no_scripts() -> Tested {
    let visit = Visit::begin().await;
    let options = BrowserOptions {
        javascript: false,
        ..BrowserOptions::default()
    };
    let browser = visit.open_with(options, "/").await;
    browser.click("#q").await?;
    browser.type_text(OF_DEMO).await?;
    browser.press(keys::ENTER).await?;
    let title = format!("{OBJECTS_OF_DEMO} objects");
    browser.wait_for_text("h1", &title).await?;
    browser.click_text(".pages a", "Next page").await?;
    browser.wait_for_url("continue=").await?;
    assert_eq!(objects(&browser).await?.len(), OBJECTS_OF_DEMO - 50);

    browser.click_text(".facets a", "Pod").await?;
    browser.wait_for_text("h1", "25 objects").await?;
    browser.click_text("#results th a", "checkout-0").await?;
    browser.wait_for("#facts").await?;
    // Nothing that only a script could do is offered.
    let hidden = "[data-keys], [data-copy], [data-copy-from], [data-yaml-search]";
    browser.wait_until_gone(hidden, "").await?;
    browser.click_text("#clusters-section a", "Compare").await?;
    browser.wait_for_url("/ui/compare/").await?;
    browser.wait_for(".differences").await?;
    browser.click_text("nav a", "Fleet").await?;
    browser.wait_for_text("#fleet th", "member1").await?;
    show_question_to_opensearch(&browser).await?;
    browser.click_text("button", "Sign out").await?;
    browser.wait_for_text("h1", "Sign in").await?;
    Ok(())
}
