//! The service that stores send requests to, and an engine on it.

use fleetdex_core::model::IndexPrefix;
use fleetdex_store::{
    changes::Sequence,
    opensearch::{
        Engine, EngineOptions, Feed, IndexSettings, OpenSearchService, PlacementRules,
        ResponseBudget,
    },
};
use tower::util::BoxCloneSyncService;

use super::{server::OpenSearch, transport};

impl OpenSearch {
    /// Returns the service that a store sends its requests to.
    pub fn service(&self) -> OpenSearchService {
        let server = self.clone();
        BoxCloneSyncService::new(tower::service_fn(move |request| {
            transport::exchange(server.clone(), request)
        }))
    }

    /// Returns an engine on the server, with default options.
    pub fn engine(&self, prefix: IndexPrefix) -> Engine {
        self.engine_reading_into(prefix, ResponseBudget::default())
    }

    /// Returns an engine with its own limits for responses.
    pub fn engine_reading_into(&self, prefix: IndexPrefix, answers: ResponseBudget) -> Engine {
        let options = EngineOptions {
            prefix,
            settings: IndexSettings::default(),
            fields: Vec::new(),
            projection: String::new(),
            placement: PlacementRules::default(),
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
