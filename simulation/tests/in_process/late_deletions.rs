//! A cluster that leaves and is read again at once, while OpenSearch still holds a request of its
//! deletion, which it applies later.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fakes::opensearch::{Fault, OpenSearch, Span};
use fleetdex_store::{RevisionStore as _, opensearch::PlacementRules};
use tower::{ServiceExt as _, util::BoxCloneSyncService};

use crate::packing::{RULES, cluster, engine, engine_over, fill, seen};

const DELAY: Duration = Duration::from_secs(50);

/// Drops a cluster whose request of this number is applied late; false if it makes fewer requests.
async fn drop_with_late_request(
    server: &OpenSearch,
    placement: PlacementRules,
    number: usize,
) -> bool {
    let sent = Arc::new(AtomicUsize::new(0));
    let service = server.service().map_request({
        let (server, sent) = (server.clone(), Arc::clone(&sent));
        move |request| {
            if sent.fetch_add(1, Ordering::Relaxed) == number {
                server.inject(Fault::AppliedLate(DELAY), Span::Times(1));
            }
            request
        }
    });
    let leaving = engine_over(BoxCloneSyncService::new(service), placement);
    // The registry selects the cluster again before the deletion is repeated.
    let _given_up = leaving.drop_cluster(&cluster(0)).await;
    server.heal();
    number < sent.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn a_late_deletion_leaves_a_cluster_alone_that_is_read_again() {
    for shards_percent in [100, 0] {
        let placement = PlacementRules {
            shards_percent,
            ..RULES
        };
        let mut number = 0;
        loop {
            let server = OpenSearch::new(1);
            let engine = engine(&server, placement);
            engine.prepare().await.unwrap();
            fill(&engine, 0, &["a"]).await;
            if !drop_with_late_request(&server, placement, number).await {
                break;
            }
            let again = fill(&engine, 0, &["a", "b"]).await;
            tokio::time::sleep(2 * DELAY).await;
            let expected = [(cluster(0), vec!["a".to_owned(), "b".to_owned()])].into();
            assert_eq!(
                seen(&engine, &[]).await,
                expected,
                "request {number} of {placement:?}"
            );
            let lost = engine.lost(&[again]).await.unwrap();
            assert!(lost.is_empty(), "request {number} of {placement:?}");
            // What was withdrawn leaves nothing, and keeps no later deletion from its end.
            engine.drop_cluster(&cluster(0)).await.unwrap();
            assert!(seen(&engine, &[]).await.is_empty());
            number += 1;
        }
        assert!(number > 3, "{number} requests");
    }
}
