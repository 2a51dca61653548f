//! What stores reach the server through, and a whole store on it.

use fleetdex_core::model::IndexPrefix;
use fleetdex_store::{
    changes::Sequence,
    opensearch::{Answers, Engine, EngineOptions, Feed, IndexSettings, OpenSearchService},
};
use tower::util::BoxCloneSyncService;

use super::{server::OpenSearch, transport};

impl OpenSearch {
    /// What a store sends its requests to.
    pub fn service(&self) -> OpenSearchService {
        let server = self.clone();
        BoxCloneSyncService::new(tower::service_fn(move |request| {
            transport::exchange(server.clone(), request)
        }))
    }

    /// A store on it, of which nothing is set that could be left out.
    pub fn engine(&self, prefix: IndexPrefix) -> Engine {
        self.engine_reading_into(prefix, Answers::default())
    }

    /// The same with its own limits for answers.
    pub fn engine_reading_into(&self, prefix: IndexPrefix, answers: Answers) -> Engine {
        let options = EngineOptions {
            prefix,
            settings: IndexSettings::default(),
            fields: Vec::new(),
            projection: String::new(),
            owner: "me".to_owned(),
            address: "simulation".to_owned(),
        };
        Engine::reading_into(
            self.service(),
            options,
            Feed::new(Sequence::default()),
            answers,
        )
    }
}
