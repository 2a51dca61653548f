//! Field selectors of any path on the simulated OpenSearch; `e2e/tests/queries/every_path.rs` asks the real ones the same.

use fleetdex_store::{
    IndexWriter as _,
    opensearch::{Engine, EngineOptions, IndexSettings},
};
use simulation::{every_path::ask, opensearch::OpenSearch};

#[tokio::test(start_paused = true)]
async fn any_path_reads_the_same_in_opensearch_in_memory_and_in_the_objects() {
    for seed in 0..6 {
        let options = EngineOptions {
            prefix: "fleetdex".parse().unwrap(),
            settings: IndexSettings {
                is_full: true,
                ..IndexSettings::default()
            },
            fields: Vec::new(),
            projection: "full".to_owned(),
            owner: "me".to_owned(),
            address: "simulation".to_owned(),
        };
        let engine = Engine::new(OpenSearch::new(seed).service(), options);
        engine.prepare().await.unwrap();
        let report = ask(&engine, seed, 200, 100).await.unwrap();
        assert!(
            report.disagreements.is_empty(),
            "seed {seed}: {:#?}",
            report.disagreements
        );
        assert!(
            report.telling > 20,
            "seed {seed}: only {} selectors tell something",
            report.telling
        );
    }
}
