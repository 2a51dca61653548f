//! Searches: typed, narrowed, paged, refused and completed.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;

use e2e::{
    browser::{Browser, keys},
    test_result::Tested,
};
use serde_json::json;

use crate::site::{OBJECTS_OF_DEMO, OF_DEMO, Visit, columns, objects, search};

const CHECKOUT: &str = "checkout kind:Pod,Deployment,Service ns:shop";

#[tokio::test]
async fn a_search_is_typed_narrowed_and_widened_and_its_address_has_all_of_it() -> Tested {
    let visit = Visit::begin().await;
    let browser = visit.open("/").await;
    browser.click("#q").await?;
    browser.type_text(CHECKOUT).await?;
    browser.press(keys::ENTER).await?;
    browser.wait_for_text("h1", "6 objects").await?;
    let all = objects(&browser).await?;
    assert_eq!(all.len(), 6, "{all:?}");
    for value in ["Pod 2", "Deployment 2", "Service 2", "member1 3", "shop 6"] {
        let counts = browser.texts(".facets li").await?;
        let found = counts.iter().any(|count| one_line(count) == value);
        assert!(found, "{value} in {counts:?}");
    }

    browser.click_text(".facets a", "member2").await?;
    browser.wait_for_text("h1", "3 objects").await?;
    let narrowed = objects(&browser).await?;
    let of_member2 = all.iter().filter(|path| path.contains("/member2/"));
    assert_eq!(
        narrowed.iter().collect::<BTreeSet<_>>(),
        of_member2.collect()
    );
    let value = browser.attribute("#q", "value").await?;
    assert_eq!(value.unwrap(), format!("{CHECKOUT} cluster:member2"));

    let other = visit.open("/fleet").await;
    other.goto(&browser.url().await?).await?;
    assert_eq!(objects(&other).await?, narrowed);

    browser.click_text(".terms a", "cluster:member2").await?;
    browser.wait_for_text("h1", "6 objects").await?;
    assert_eq!(objects(&browser).await?, all);
    browser.back().await?;
    browser.wait_for_text("h1", "3 objects").await?;
    Ok(())
}

#[tokio::test]
async fn a_result_of_more_than_50_objects_has_pages() -> Tested {
    let visit = Visit::begin().await;
    let browser = visit.open(&search(OF_DEMO)).await;
    let title = format!("{OBJECTS_OF_DEMO} objects");
    browser.wait_for_text("h1", &title).await?;
    let first = objects(&browser).await?;
    assert_eq!(first.len(), 50);
    browser.click_text(".pages a", "Next page").await?;
    browser.wait_for_url("continue=").await?;
    browser.wait_for_text("h1", &title).await?;
    let second = objects(&browser).await?;
    let both: BTreeSet<&String> = first.iter().chain(&second).collect();
    assert_eq!((second.len(), both.len()), (37, OBJECTS_OF_DEMO));
    assert_eq!(browser.texts(".pages a").await?, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn a_text_that_is_no_search_is_refused_with_its_column() -> Tested {
    let visit = Visit::begin().await;
    let browser = visit.open(&search("kind:Pod heath:Degraded")).await;
    let problem = browser.text(".problem[role=alert]").await?;
    let is_helpful = problem.contains("column 10") && problem.contains("health");
    assert!(is_helpful, "{problem}");
    let value = browser.attribute("#q", "value").await?;
    assert_eq!(value.as_deref(), Some("kind:Pod heath:Degraded"));
    Ok(())
}

#[tokio::test]
async fn objects_of_one_kind_have_the_columns_of_their_kind_and_their_namespaces() -> Tested {
    let visit = Visit::begin().await;
    let of_pods = visit.open(&search("kind:Pod ns:shop,web")).await;
    let expected = [
        "Cluster",
        "Namespace",
        "Name",
        "Ready",
        "Status",
        "Restarts",
    ];
    assert_eq!(columns(&of_pods).await?[..6], expected);
    let rows = of_pods.texts("#results tbody tr").await?;
    let crashing = rows
        .iter()
        .map(|row| one_line(row))
        .find(|row| row.starts_with("member1 shop checkout-0"));
    let crashing = crashing.unwrap();
    assert!(crashing.contains("0/1 CrashLoopBackOff 7"), "{crashing}");

    let of_both = search("kind:Pod,Service ns:shop");
    of_pods.goto(&visit.address(&of_both)).await?;
    let of_all_kinds = columns(&of_pods).await?;
    let has = |name: &str| of_all_kinds.iter().any(|column| column == name);
    assert!(has("Kind") && !has("Ready"), "{of_all_kinds:?}");
    Ok(())
}

#[tokio::test]
async fn qualifiers_kinds_and_labels_are_completed_with_the_arrow_keys() -> Tested {
    let visit = Visit::begin().await;
    let browser = visit.open("/").await;
    assert_eq!(attribute(&browser, "role").await?, "combobox");
    assert_eq!(attribute(&browser, "aria-expanded").await?, "false");
    browser.click("#q").await?;
    for (typed, offered, value) in [
        ("kin", "kind:", "kind:"),
        ("dep", "Deployment", "kind:Deployment "),
        ("label:tie", "tier", "kind:Deployment label:tier="),
        ("back", "backend", "kind:Deployment label:tier=backend "),
        (
            "health:deg",
            "Degraded",
            "kind:Deployment label:tier=backend health:Degraded ",
        ),
    ] {
        browser.type_text(typed).await?;
        browser
            .wait_for_text("#choices [role=option] .text", offered)
            .await?;
        assert_eq!(attribute(&browser, "aria-expanded").await?, "true");
        browser.press(keys::DOWN).await?;
        browser
            .wait_for_text("#choices [aria-selected=true]", offered)
            .await?;
        let active = attribute(&browser, "aria-activedescendant").await?;
        let id = browser
            .attribute("#choices [aria-selected=true]", "id")
            .await?;
        assert_eq!(id.as_deref(), Some(&*active));
        browser.press(keys::ENTER).await?;
        assert_eq!(typed_text(&browser).await?.trim_end(), value.trim_end());
    }
    browser.type_text("ns:").await?;
    browser.wait_for("#choices [role=option]").await?;
    browser.press(keys::ESCAPE).await?;
    browser.wait_until_gone("#choices", "").await?;
    assert_eq!(attribute(&browser, "aria-expanded").await?, "false");
    browser.type_text("shop").await?;
    browser.press(keys::ENTER).await?;
    browser.wait_for_url("shop").await?;
    let found = objects(&browser).await?;
    assert!(
        !found.is_empty() && found.iter().all(|path| path.contains("/shop/deployments/")),
        "{found:?}"
    );
    Ok(())
}

/// A text with one blank between words.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

async fn attribute(browser: &Browser, name: &str) -> Tested<String> {
    let value = browser.attribute("#q", name).await?;
    Ok(value.unwrap_or_default())
}

async fn typed_text(browser: &Browser) -> Tested<String> {
    let script = "return document.getElementById('q').value;";
    Ok(browser.evaluate(script, &json!([])).await?)
}
