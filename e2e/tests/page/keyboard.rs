//! The page without a pointer.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;

use e2e::{
    browser::{Browser, keys},
    test_result::Tested,
};
use serde::Deserialize;
use serde_json::json;

use crate::site::{POD, Visit, objects, search};

/// Elements that a user can act on.
const ELEMENTS: &str = r#"
    const all = [...document.querySelectorAll('a[href], button, input, summary, [tabindex="0"]')];
    return all.filter(element => element.type !== 'hidden' && element.checkVisibility());
"#;

/// The focused element.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Focus {
    /// Among [`ELEMENTS`]; negative for another one.
    position: i64,
    html: String,
    /// Whether an outline shows it.
    is_outlined: bool,
}

async fn focus(browser: &Browser) -> Focus {
    let script = format!(
        "const elements = (() => {{ {ELEMENTS} }})();
         const element = document.activeElement;
         const style = getComputedStyle(element);
         const isOutlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
         return {{ position: elements.indexOf(element), html: element.cloneNode(false).outerHTML, isOutlined }};"
    );
    browser.evaluate(&script, &json!([])).await.unwrap()
}

/// All elements that a user can act on, without their content.
async fn elements(browser: &Browser) -> Vec<String> {
    let script = format!(
        "return (() => {{ {ELEMENTS} }})().map(element => element.cloneNode(false).outerHTML);"
    );
    browser.evaluate(&script, &json!([])).await.unwrap()
}

/// The address of the focused link.
async fn focused_link(browser: &Browser) -> Tested<String> {
    let script = "return document.activeElement.getAttribute('href') ?? '';";
    Ok(browser.evaluate(script, &json!([])).await?)
}

#[tokio::test]
async fn keys_move_through_a_search_open_an_object_and_lead_back() -> Tested {
    let visit = Visit::begin().await;
    let browser = visit.open("/").await;
    browser.wait_for("#results tbody tr").await?;
    browser.press('/').await?;
    browser.type_text("kind:Pod ns:shop checkout").await?;
    browser.press(keys::ENTER).await?;
    browser.wait_for_text("h1", "2 objects").await?;
    let links = objects(&browser).await?;
    for (key, expected) in [('j', 0), ('j', 1), ('j', 1), ('k', 0), ('k', 0)] {
        browser.press(key).await?;
        assert_eq!(focused_link(&browser).await?, links[expected]);
        assert!(focus(&browser).await.is_outlined);
    }
    browser.press('j').await?;
    browser.press(keys::ENTER).await?;
    browser.wait_for_url(&links[1]).await?;
    browser.wait_for("#facts").await?;
    browser.press('b').await?;
    browser.wait_for_text("h1", "2 objects").await?;
    browser.press('f').await?;
    browser.wait_for_url("/ui/fleet").await?;
    browser.wait_for_text("h1", "The fleet").await?;

    browser.press('?').await?;
    browser
        .wait_for_text("#keys", "next and previous row")
        .await?;
    browser.press(keys::ESCAPE).await?;
    browser.wait_until_gone("#keys", "").await?;
    // Letters in the search box are text, also after `/`.
    browser.press('/').await?;
    browser.type_text("fjk?").await?;
    let value: String = browser
        .evaluate("return document.getElementById('q').value;", &json!([]))
        .await?;
    assert_eq!(value, "fjk?");
    browser.press(keys::ESCAPE).await?;
    browser.press('j').await?;
    assert!(focused_link(&browser).await?.contains("cluster"));
    Ok(())
}

#[tokio::test]
async fn the_tab_key_reaches_everything_and_the_focus_is_visible() -> Tested {
    let visit = Visit::begin().await;
    let browser = visit.open("/").await;
    for path in [search("kind:Pod ns:shop checkout"), POD.to_owned()] {
        browser.goto(&visit.address(&path)).await?;
        browser.wait_for("[data-row]").await?;
        let elements = elements(&browser).await;
        let mut reached = BTreeSet::new();
        // What is not among them may have the focus, too: the browser lets the keyboard scroll.
        for _ in 0..2 * elements.len() {
            browser.press(keys::TAB).await?;
            let focus = focus(&browser).await;
            if let Ok(position) = usize::try_from(focus.position) {
                assert!(focus.is_outlined, "{path}: {}", focus.html);
                reached.insert(position);
            }
            if reached.len() == elements.len() {
                break;
            }
        }
        let missed = elements.iter().enumerate();
        let missed: Vec<&String> = missed
            .filter(|(position, _)| !reached.contains(position))
            .map(|(_, element)| element)
            .collect();
        assert!(missed.is_empty(), "{path}: {missed:#?}");
    }
    Ok(())
}
