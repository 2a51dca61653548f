//! Every view in light and dark colours, wide and narrow: WCAG 2.2 A and AA, as far as axe-core
//! finds out, and no scrolling to the side.

use e2e::{
    browser::{Browser, BrowserOptions, ColorScheme, keys},
    test_result::Tested,
};

use crate::site::{DIFFERENCES, POD, Visit, search};

/// The height of a phone; the width is that of the narrowest one.
const NARROW: (u32, u32) = (360, 740);
const WIDE: (u32, u32) = (1280, 800);

#[tokio::test]
async fn no_view_breaks_a_rule_of_accessibility_in_light_colours() -> Tested {
    every_view_is_accessible(ColorScheme::Light).await
}

#[tokio::test]
async fn no_view_breaks_a_rule_of_accessibility_in_dark_colours() -> Tested {
    every_view_is_accessible(ColorScheme::Dark).await
}

async fn every_view_is_accessible(color_scheme: ColorScheme) -> Tested {
    let visit = Visit::begin().await;
    let options = BrowserOptions {
        color_scheme,
        ..BrowserOptions::default()
    };
    let browser = Browser::open(options).await?;
    let mut faults = Vec::new();
    browser.goto(&visit.address("/login")).await?;
    check(&browser, "sign in", &mut faults).await?;
    browser.goto(&visit.link().await).await?;
    for (name, path) in [
        ("search", search("checkout")),
        ("search of one kind", search("kind:Pod")),
        ("search without rows", search("no-such-object")),
        ("search with an error", search("heath:Degraded")),
        ("object", POD.to_owned()),
        ("differences", DIFFERENCES.to_owned()),
        ("fleet", "/fleet".to_owned()),
    ] {
        browser.goto(&visit.address(&path)).await?;
        browser.wait_for("h1").await?;
        check(&browser, name, &mut faults).await?;
    }
    browser.press('?').await?;
    browser.wait_for("dialog").await?;
    check(&browser, "keys", &mut faults).await?;

    browser.goto(&visit.address("/")).await?;
    browser.press('/').await?;
    browser.type_text("kind:").await?;
    browser.wait_for("#choices [role=option]").await?;
    browser.press(keys::DOWN).await?;
    check(&browser, "completions", &mut faults).await?;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

/// Adds what is wrong with the shown view, wide and narrow.
async fn check(browser: &Browser, view: &str, faults: &mut Vec<String>) -> Tested {
    for (width, height) in [NARROW, WIDE] {
        browser.resize(width, height).await?;
        let violations = browser.accessibility_violations().await?;
        faults.extend(
            violations
                .iter()
                .map(|violation| format!("{view}, {width} pixels: {violation}")),
        );
        let overflow = browser.overflow().await?;
        if overflow > 0 {
            faults.push(format!(
                "{view}, {width} pixels: {overflow} pixels too wide"
            ));
        }
    }
    Ok(())
}
