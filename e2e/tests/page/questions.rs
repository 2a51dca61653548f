//! The questions that views show in the words of kubectl, `fleetdex` and OpenSearch.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;

use e2e::{
    browser::Browser,
    scenario::until,
    test_result::{Tested, assert_contains},
};
use reqwest::Method;
use serde_json::Value;

use crate::site::{DIFFERENCES, POD, SECRET, Visit, content, objects, search};

/// Runs a command that a view shows.
async fn run(visit: &Visit, browser: &Browser, program: &str) -> String {
    let command = content(browser, &format!("#question-{program}")).await;
    let session = &visit.site().session;
    session.shell(&command).await.unwrap()
}

async fn until_available(visit: &Visit) -> Tested {
    let session = &visit.site().session;
    let command = "kubectl --context fleet get pods -A -o name";
    until("kubectl asks the fleet", || session.shell(command)).await?;
    Ok(())
}

/// The paths of the objects of a list in the page.
fn views_of(list: &Value) -> BTreeSet<String> {
    let items = list["items"].as_array().unwrap();
    let view = |item: &Value| {
        let annotations = &item["metadata"]["annotations"];
        let text = |key: &str| annotations[key].as_str().unwrap().to_owned();
        let cluster = text("resource.karmada.io/cached-from-cluster");
        format!("/ui/clusters/{cluster}{}", text("fleetdex.io/native-path"))
    };
    items.iter().map(view).collect()
}

/// Opens the folded question, and follows the link to that of OpenSearch.
pub async fn show_question_to_opensearch(browser: &Browser) -> Tested {
    browser.click("#question summary").await?;
    let link = "Show the question to OpenSearch";
    browser.click_text("#question a", link).await?;
    browser
        .wait_for("#question[open] #question-OpenSearch")
        .await?;
    Ok(())
}

/// What OpenSearch answers to the body that the view shows when it is asked for.
async fn answer_of_opensearch(visit: &Visit, browser: &Browser) -> Tested<Value> {
    show_question_to_opensearch(browser).await?;
    let body = content(browser, "#question-OpenSearch").await;
    let body: Value = serde_json::from_str(&body)?;
    let opensearch = visit.site().fleet.opensearch()?.client()?;
    let answer = opensearch.send(Method::POST, "fleetdex/_search", Some(&body));
    Ok(answer.await?.body)
}

#[tokio::test]
async fn the_question_of_a_search_has_the_same_answer_elsewhere() -> Tested {
    let visit = Visit::begin().await;
    until_available(&visit).await?;
    let text = "kind:Pod,Deployment ns:shop NOT health:Healthy";
    let browser = visit.open(&search(text)).await;
    let shown: BTreeSet<String> = objects(&browser).await?.into_iter().collect();
    assert!(shown.len() > 3, "{shown:?}");

    let list = run(&visit, &browser, "kubectl").await;
    let list: Value = serde_json::from_str(&list)?;
    assert_eq!(views_of(&list), shown);

    let table = run(&visit, &browser, "fleetdex").await;
    assert_eq!(table.lines().count(), shown.len() + 1, "{table}");

    let answer = answer_of_opensearch(&visit, &browser).await?;
    let hits = answer["hits"]["hits"].as_array().map(Vec::len);
    assert_eq!(hits, Some(shown.len()), "{answer}");
    Ok(())
}

#[tokio::test]
async fn the_question_of_an_object_has_the_same_answer_elsewhere() -> Tested {
    let visit = Visit::begin().await;
    until_available(&visit).await?;
    let browser = visit.open(POD).await;
    let list = run(&visit, &browser, "kubectl").await;
    let list: Value = serde_json::from_str(&list)?;
    let item = &list["items"][0];
    assert_eq!(item["metadata"]["name"], "checkout-0");

    let yaml = run(&visit, &browser, "fleetdex").await;
    let uid = item["metadata"]["uid"].as_str().unwrap();
    assert!(yaml.contains(uid), "{yaml}");

    let answer = answer_of_opensearch(&visit, &browser).await?;
    assert!(answer.to_string().contains(uid), "{answer}");
    Ok(())
}

#[tokio::test]
async fn the_questions_of_differences_and_of_the_fleet_are_answered_elsewhere() -> Tested {
    let visit = Visit::begin().await;
    until_available(&visit).await?;
    let browser = visit.open(DIFFERENCES).await;
    for program in ["kubectl", "fleetdex"] {
        let command = content(&browser, &format!("#question-{program}")).await;
        // `diff` says with 1 that there are differences; the shell of the session knows no `<(`.
        let line = format!("bash <<'END'\n{command} || [ $? = 1 ]\nEND");
        let lines = visit.site().session.shell(&line).await?;
        assert_contains(&lines, "member1");
        assert_contains(&lines, "member2");
    }
    browser.goto(&visit.address("/fleet")).await?;
    let fleet = run(&visit, &browser, "kubectl").await;
    for part in ["member1", "member3", "kind: ResourceRegistry"] {
        assert!(fleet.contains(part), "{part} in {fleet}");
    }
    Ok(())
}

#[tokio::test]
async fn a_question_is_copied_with_a_click() -> Tested {
    let visit = Visit::begin().await;
    let browser = visit.open(&format!("/clusters/member1/{SECRET}")).await;
    browser.click("#question summary").await?;
    browser.click("[data-copy=question-kubectl]").await?;
    browser
        .wait_for_text("[data-copy=question-kubectl]", "Copied")
        .await?;
    Ok(())
}
