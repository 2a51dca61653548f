//! The view of an object, and of its differences between clusters.

#![allow(clippy::unwrap_used, reason = "a test")]

use e2e::{
    browser::{Browser, keys},
    fleet::unique,
    test_result::{Tested, assert_contains},
};
use serde_json::{Value, json};

use crate::site::{POD, SECRET, Visit, content, pod, search, source};

#[tokio::test]
async fn an_object_shows_its_health_and_leads_to_its_relations() -> Tested {
    let visit = Visit::begin().await;
    let browser = visit.open(POD).await;
    let facts = browser.text("#facts").await?;
    for fact in [
        "member1",
        "shop",
        "Degraded",
        "CrashLoopBackOff",
        "back-off 5m0s",
    ] {
        assert!(facts.contains(fact), "{fact} in {facts}");
    }
    let relations = browser.texts(".relations li").await?;
    for (direction, name) in [
        ("uses", "Secret credentials"),
        ("used by", "Service checkout"),
    ] {
        let found = relations
            .iter()
            .any(|relation| relation.starts_with(direction) && relation.contains(name));
        assert!(found, "{direction} {name} in {relations:?}");
    }
    let picture = ".graph a[aria-label*='Service checkout']";
    browser.click(picture).await?;
    browser.wait_for_url("/services/checkout").await?;
    browser.click_text(".relations a", "Pod checkout-0").await?;
    browser.wait_for_url(POD).await?;
    browser
        .click_text(".relations a", "Secret credentials")
        .await?;
    browser.wait_for_url(SECRET).await?;
    Ok(())
}

#[tokio::test]
async fn an_object_leads_to_the_same_object_of_other_clusters_and_to_its_differences() -> Tested {
    let visit = Visit::begin().await;
    let namespace = unique("drift");
    let path = format!("apis/apps/v1/namespaces/{namespace}/deployments/web");
    for (number, image) in [(1, "example.com/web:1"), (2, "example.com/web:2")] {
        let member = visit.member(number);
        member.create_namespace(&namespace).await?;
        member.apply(&path, &deployment(image)).await?;
    }
    visit.until_found(&format!("ns:{namespace}"), 2).await;
    let browser = visit.open(&format!("/clusters/member1/{path}")).await;
    let rows = browser.texts("#clusters-section tbody tr").await?;
    let is_complete =
        rows.len() == 2 && rows[0].contains("member1 (this one)") && rows[1].contains("member2");
    assert!(is_complete, "{rows:?}");
    browser.click_text("#clusters-section a", "Compare").await?;
    browser.wait_for_url("/ui/compare/").await?;
    let text = browser.text("main").await?;
    assert_contains(&text, "1 line differs between member1 and member2");
    let removed = browser.texts(".differences .removed").await?;
    let added = browser.texts(".differences .added").await?;
    assert!(
        removed[0].contains("image: example.com/web:1"),
        "{removed:?}"
    );
    assert!(added[0].contains("image: example.com/web:2"), "{added:?}");
    assert_eq!((removed.len(), added.len()), (1, 1));

    visit
        .member(2)
        .apply(&path, &deployment("example.com/web:1"))
        .await?;
    let search = format!("ns:{namespace} image:example.com/web:1");
    visit.until_found(&search, 2).await;
    browser.reload().await?;
    browser
        .wait_for_text("main", "The objects are the same in member1 and member2")
        .await?;
    browser.click_text("main a", "member2").await?;
    browser
        .wait_for_url(&format!("/clusters/member2/{path}"))
        .await?;
    for number in [1, 2] {
        visit.member(number).delete(&path).await?;
    }
    visit.until_found(&format!("ns:{namespace}"), 0).await;
    Ok(())
}

#[tokio::test]
async fn an_object_shows_its_events() -> Tested {
    let visit = Visit::begin().await;
    let (member, namespace) = (visit.member(3), unique("events"));
    member.create_namespace(&namespace).await?;
    let path = format!("api/v1/namespaces/{namespace}/pods/web");
    let made = member.apply(&path, &pod("web", "example.com/web:1")).await;
    let uid = &made.unwrap()["metadata"]["uid"];
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": "web.1" }, "type": "Warning", "reason": "BackOff", "count": 3,
        "involvedObject": { "apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": "web", "uid": uid },
        "source": { "component": "kubelet" }, "message": "Back-off restarting", "lastTimestamp": "2026-01-01T00:00:00Z",
    });
    let events = format!("api/v1/namespaces/{namespace}/events");
    member.create(&events, &event).await?;
    visit.until_found(&format!("ns:{namespace}"), 2).await;
    let browser = visit.open(&format!("/clusters/member3/{path}")).await;
    let rows = browser.texts("#events-section tbody tr").await?;
    let is_shown =
        rows.len() == 1 && rows[0].contains("BackOff") && rows[0].contains("Back-off restarting");
    assert!(is_shown, "{rows:?}");
    browser.goto(&visit.address(POD)).await?;
    browser
        .wait_for_text("#events-section", "No events.")
        .await?;
    member.delete(&path).await?;
    member.delete(&format!("{events}/web.1")).await?;
    visit.until_found(&format!("ns:{namespace}"), 0).await;
    Ok(())
}

#[tokio::test]
async fn the_yaml_folds_is_searched_and_is_there_as_plain_text() -> Tested {
    let visit = Visit::begin().await;
    let browser = visit.open(POD).await;
    let before = visible_lines(&browser).await?;
    browser.click_text("#yaml summary", "status").await?;
    let folded = visible_lines(&browser).await?;
    assert!(folded < before, "{folded} of {before} lines");

    browser.click("[data-yaml-search] input").await?;
    browser.type_text("crashloop").await?;
    browser.wait_for_text("[data-yaml-found]", "1 line").await?;
    let found = browser.texts("#yaml .found").await?;
    assert!(
        found.len() == 1 && found[0].contains("reason: CrashLoopBackOff"),
        "{found:?}"
    );
    assert_eq!(visible_lines(&browser).await?, before, "it is unfolded");
    browser.press(keys::ENTER).await?;

    let lines: Vec<String> = browser.texts("#yaml .line").await?;
    browser.click_text("a", "Plain text").await?;
    browser.wait_for_url("format=yaml").await?;
    let plain = browser.text("pre").await?;
    assert_eq!(plain.lines().count(), lines.len(), "{plain}");
    assert!(plain.contains("kind: Pod\n"), "{plain}");
    Ok(())
}

#[tokio::test]
async fn values_of_secrets_are_in_no_view() -> Tested {
    let visit = Visit::begin().await;
    let browser = visit
        .open(&search("kind:Secret name:credentials ns:shop"))
        .await;
    let of_member1 = format!("/clusters/member1/{SECRET}");
    for view in [
        &of_member1,
        &format!("{of_member1}?format=yaml"),
        &format!("/compare/{SECRET}?left=member1&right=member2"),
        &search("never-leaves-member1"),
    ] {
        browser.goto(&visit.address(view)).await?;
        let html = source(&browser).await?;
        // As they are in the object, and as a Secret has them.
        for value in ["never-leaves-member1\n", "bmV2ZXItbGVhdmVz"] {
            assert!(!html.contains(value), "{view}: {html}");
        }
    }
    browser.goto(&visit.address(&of_member1)).await?;
    let yaml = content(&browser, "#yaml").await;
    assert_contains(&yaml, "username");
    assert_contains(&yaml, "password");
    let title = browser.text("h1").await?;
    assert_eq!(title, "Secret credentials");
    Ok(())
}

#[tokio::test]
async fn an_object_that_is_not_there_is_said_to_be_gone() -> Tested {
    let visit = Visit::begin().await;
    let browser = visit
        .open("/clusters/member3/apis/apps/v1/namespaces/shop/deployments/checkout")
        .await;
    let problem = browser.text(".problem").await?;
    let expected = "Cluster member3 has no deployments.apps checkout that you may see in namespace shop. It may have been deleted.";
    assert_eq!(problem, expected);
    Ok(())
}

async fn visible_lines(browser: &Browser) -> Tested<usize> {
    let script = "return [...document.querySelectorAll('#yaml .line')].filter(line => line.checkVisibility()).length;";
    Ok(browser.evaluate(script, &json!([])).await?)
}

fn deployment(image: &str) -> Value {
    let labels = json!({ "app": "web" });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "labels": labels },
        "spec": { "replicas": 1, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "web", "image": image }] } } },
    })
}
