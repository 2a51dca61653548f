//! Field selectors of any path on the fake OpenSearch; `e2e/tests/queries/every_path.rs` runs the
//! same comparison on real ones.

use fakes::opensearch::OpenSearch;
use fleetdex_store::opensearch::{Engine, EngineOptions, IndexSettings, PlacementRules};
use simulation::every_path::compare;

#[tokio::test(start_paused = true)]
async fn selectors_of_any_path_select_the_same_objects_in_opensearch_and_in_memory() {
    for seed in 0..6 {
        let options = EngineOptions {
            prefix: "fleetdex".parse().unwrap(),
            settings: IndexSettings {
                is_full: true,
                ..IndexSettings::default()
            },
            fields: Vec::new(),
            projection: "full".to_owned(),
            placement: PlacementRules::default(),
            owner: "me".to_owned(),
            address: "simulation".to_owned(),
        };
        let engine = Engine::new(OpenSearch::new(seed).service(), options);
        engine.prepare().await.unwrap();
        let report = compare(&engine, seed, 200, 100).await.unwrap();
        assert!(
            report.disagreements.is_empty(),
            "seed {seed}: {:#?}",
            report.disagreements
        );
        assert!(
            report.discriminating > 20,
            "seed {seed}: only {} selectors select some objects, but not all",
            report.discriminating
        );
    }
}
