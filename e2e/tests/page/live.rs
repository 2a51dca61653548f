//! Views that follow changes of the members.

use e2e::{fleet::unique, objects::Objects, test_result::Tested};
use serde_json::{Value, json};

use crate::site::{Visit, is_marked, mark, pod, search};

/// Says of a pod that its only container waits for this reason.
async fn fail(member: &Objects, path: &str, reason: &str) -> Tested {
    let waiting = json!({ "waiting": { "reason": reason, "message": "as a test says" } });
    set_state(member, path, &waiting).await
}

async fn set_state(member: &Objects, path: &str, state: &Value) -> Tested {
    let is_ready = state.get("running").is_some();
    let ready = if is_ready { "True" } else { "False" };
    let container = json!({ "name": "main", "ready": is_ready, "restartCount": 0, "image": "", "imageID": "", "state": state });
    let status = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }], "containerStatuses": [container] } });
    member.merge(&format!("{path}/status"), &status).await?;
    Ok(())
}

#[tokio::test]
async fn a_search_shows_objects_that_come_change_and_go_without_a_reload() -> Tested {
    let visit = Visit::begin().await;
    let (member, namespace) = (visit.member(1), unique("live"));
    member.create_namespace(&namespace).await?;
    let browser = visit.open(&search(&format!("ns:{namespace}"))).await;
    browser.wait_for_text("h1", "0 objects").await?;
    mark(&browser).await?;

    let path = format!("api/v1/namespaces/{namespace}/pods/changing");
    member
        .apply(&path, &pod("changing", "example.com/web:1"))
        .await?;
    browser.wait_for_text("h1", "1 object").await?;
    let row = "#results tbody tr";
    browser.wait_for_text(row, "changing").await?;
    fail(&member, &path, "CrashLoopBackOff").await?;
    browser.wait_for_text(row, "CrashLoopBackOff").await?;
    browser.wait_for_text(".facets", "Degraded").await?;
    let running = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
    set_state(&member, &path, &running).await?;
    browser.wait_until_gone(row, "CrashLoopBackOff").await?;
    member.delete(&path).await?;
    browser.wait_for_text("h1", "0 objects").await?;
    browser.wait_until_gone(row, "").await?;
    assert!(is_marked(&browser).await?, "the page was loaded again");
    Ok(())
}

#[tokio::test]
async fn an_object_shows_its_changes_and_its_end_without_a_reload() -> Tested {
    let visit = Visit::begin().await;
    let (member, namespace) = (visit.member(2), unique("live"));
    member.create_namespace(&namespace).await?;
    let path = format!("api/v1/namespaces/{namespace}/pods/changing");
    member
        .apply(&path, &pod("changing", "example.com/web:1"))
        .await?;
    visit.until_found(&format!("ns:{namespace}"), 1).await;
    let view = format!("/clusters/member2/{path}");
    let browser = visit.open(&view).await;
    browser.wait_for("#facts").await?;
    mark(&browser).await?;

    fail(&member, &path, "ImagePullBackOff").await?;
    browser.wait_for_text("#facts", "ImagePullBackOff").await?;
    browser.wait_for_text("#facts", "as a test says").await?;
    browser
        .wait_for_text("#yaml", "reason: ImagePullBackOff")
        .await?;
    member.delete(&path).await?;
    browser
        .wait_for_text(".problem", "It may have been deleted")
        .await?;
    assert!(is_marked(&browser).await?, "the page was loaded again");
    Ok(())
}
