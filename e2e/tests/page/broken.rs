//! What the page says of a cluster whose API server has stopped.

use crate::site::{Visit, is_marked, mark, search};
use e2e::test_result::Tested;

#[tokio::test]
async fn a_cluster_that_is_down_is_said_to_be_so_with_the_time_and_the_reason() -> Tested {
    let visit = Visit::begin_alone().await;
    let fleet = visit.open("/fleet").await;
    let row = "#fleet tbody tr";
    fleet.wait_for_text(row, "member3").await?;
    mark(&fleet).await?;
    let other = visit.open(&search("kind:Pod")).await;
    other.wait_for("#results tbody tr").await?;
    assert_eq!(other.texts(".warnings li").await?, [""; 0]);

    let member = visit.site().fleet.member(3);
    member.kill();
    fleet
        .wait_for_text("#fleet tbody td", "Shown as of")
        .await?;
    let rows = fleet.texts(row).await?;
    let broken: Vec<&String> = rows
        .iter()
        .filter(|row| row.contains("Shown as of"))
        .collect();
    let is_shown =
        broken.len() == 1 && broken[0].starts_with("member3") && !broken[0].contains("Current");
    assert!(is_shown, "{rows:?}");
    fleet
        .wait_for_text(".registry", "1 cluster is not wholly in sync")
        .await?;

    other.reload().await?;
    other.wait_for_text(".warnings li", "member3").await?;
    let pod = visit.open("/clusters/member3/api/v1/namespaces/web/pods/web-0");
    let pod = pod.await;
    pod.wait_for_text("#facts", "the cluster is not read at present")
        .await?;

    member.restart().await?;
    fleet
        .wait_until_gone("#fleet tbody td", "Shown as of")
        .await?;
    fleet
        .wait_until_gone(".registry", "not wholly in sync")
        .await?;
    assert!(is_marked(&fleet).await?, "the page was loaded again");
    Ok(())
}
