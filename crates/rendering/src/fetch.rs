//! Fetches charts and folders: from OCI registries, and from chart repositories with an
//! `index.yaml`.
//!
//! Every host has to be allowed, also those of redirects and of token services. Credentials go to
//! the hosts that they are bound to, and to no other. Digests are verified, and every answer is
//! bounded.

mod challenge;
mod error;
mod hosts;
mod http;
mod oci;
mod reference;
mod repository;

use std::sync::Arc;

pub use self::{
    error::FetchError,
    hosts::{BasicCredentials, HostPolicy, RemoteHost},
    http::FetchSettings,
};
use self::{
    http::FetchClient, oci::Registry, reference::OciReference, repository::ChartRepository,
};
use crate::archive::Archive;

/// Where a chart is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChartLocation {
    /// In an OCI registry: `oci://HOST/NAME`, with `:TAG` or `@sha256:DIGEST`, or else a version.
    Oci {
        /// The address.
        address: String,
        /// A version or a constraint; empty: that of the address, or else the newest.
        version: String,
    },
    /// In a chart repository.
    Repository {
        /// The address of the folder that has `index.yaml`.
        url: String,
        /// The name of the chart.
        name: String,
        /// A version or a constraint; empty: the newest.
        version: String,
    },
}

/// What was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedArchive {
    /// The archive.
    pub archive: Archive,
    /// The version that was chosen; of a digest the digest.
    pub version: String,
}

/// Fetches archives.
pub struct Fetcher {
    http: FetchClient,
}

impl Fetcher {
    /// A fetcher that asks `policy` about every host.
    pub fn new(settings: &FetchSettings, policy: Arc<dyn HostPolicy>) -> Result<Self, FetchError> {
        let http = FetchClient::new(settings, policy)?;
        Ok(Self { http })
    }

    /// Fetches a chart.
    pub async fn chart(&self, location: &ChartLocation) -> Result<FetchedArchive, FetchError> {
        match location {
            ChartLocation::Oci { address, version } => self.oci(address, version).await,
            ChartLocation::Repository { url, name, version } => {
                let repository = ChartRepository::new(&self.http, url)?;
                let (bytes, version) = repository.chart(name, version).await?;
                let archive = Archive::new(bytes)?;
                Ok(FetchedArchive { archive, version })
            }
        }
    }

    /// Fetches the layer of an artifact that is a gzipped tar: a chart or a folder.
    pub async fn oci(&self, address: &str, version: &str) -> Result<FetchedArchive, FetchError> {
        let reference: OciReference = address.parse()?;
        let registry = Registry::new(&self.http, &reference)?;
        let version = registry.resolve(version).await?;
        let archive = Archive::new(registry.pull(&version).await?)?;
        Ok(FetchedArchive { archive, version })
    }
}

#[cfg(test)]
mod tests;
