//! Fleetdex's OpenSearch store on the server of a test fleet, without the operator.

use anyhow::Result;
use fleetdex_store::opensearch::{
    Authentication, Engine, EngineOptions, IndexSettings, OpenSearchService, PlacementRules,
    Settings, connect,
};

use crate::{fleet::OpenSearchServer, http};

/// A connection to a server, with the administrator's password if it is secure.
pub fn service(server: &OpenSearchServer) -> Result<OpenSearchService> {
    service_of(server, server.username().zip(server.password()))
}

/// A connection to a server, as a user with a password.
pub fn service_of(
    server: &OpenSearchServer,
    login: Option<(&str, &str)>,
) -> Result<OpenSearchService> {
    http::install_tls_provider();
    let settings = Settings {
        addresses: vec![server.url().to_owned()],
        authentication: login.map_or(Authentication::None, |(user, password)| {
            Authentication::Basic {
                user: user.to_owned(),
                password: password.to_owned(),
            }
        }),
        client_certificate: None,
        ca_bundle: server.ca_pem().map(|pem| pem.as_bytes().to_vec()),
        insecure: false,
        proxy: None,
    };
    Ok(connect(&settings)?)
}

/// Options of a store with this prefix: no mapped field paths, `shards` shards per index.
pub fn options(server: &OpenSearchServer, prefix: &str, shards: u32) -> Result<EngineOptions> {
    Ok(EngineOptions {
        prefix: prefix.parse()?,
        settings: IndexSettings {
            shards,
            replicas: Some(0),
            ..IndexSettings::default()
        },
        fields: Vec::new(),
        projection: String::new(),
        placement: PlacementRules::default(),
        owner: prefix.to_owned(),
        address: server.url().to_owned(),
    })
}

/// A store of this prefix.
pub fn engine(server: &OpenSearchServer, prefix: &str, shards: u32) -> Result<Engine> {
    Ok(Engine::new(
        service(server)?,
        options(server, prefix, shards)?,
    ))
}
