//! Sends queries to Fleetdex, to OpenSearch itself, and to members.

use anyhow::{Result, ensure};
use bytes::Bytes;
use fleetdex_core::{
    kinds,
    model::Gvk,
    query::{CheckedQuery, Query, ResourceName, Selectable},
};
use fleetdex_store::opensearch::dsl::{self, Paging};
use futures::future::try_join_all;
use reqwest::{Client, RequestBuilder};
use serde_json::Value;

use super::{figures::Figures, sizes::DEADLINE};
use crate::{fleet::Fleet, http, operator::Operator, poll::eventually};

pub(super) const NAME: &str = "queries";

/// Queries before those that count.
pub(super) const WARM_UP: usize = 20;

/// Number of applications that pods belong to; each query selects the next one.
pub(super) const APPLICATIONS: usize = 40;

/// Page size of the bare scan, as the server reads.
pub(super) const PAGE: usize = 1_000;

/// From this many objects on, a narrower selector is needed to find about fifty.
pub(super) const LARGE_FLEET: usize = 100_000;

/// Sends the same query to several targets.
#[derive(Clone)]
pub(super) struct QueryClient<'f> {
    pub(super) client: Client,
    pub(super) server: String,
    pub(super) token: String,
    pub(super) opensearch: &'f str,
    pub(super) objects: usize,
}

impl<'f> QueryClient<'f> {
    pub(super) fn new(fleet: &'f Fleet, operator: &Operator, objects: usize) -> Result<Self> {
        Ok(Self {
            client: http::plain_client(None)?,
            server: format!(
                "http://{}/apis/search.fleetdex.io/v1alpha1",
                operator.api_address()
            ),
            token: operator.token()?,
            opensearch: fleet.opensearch()?.url(),
            objects,
        })
    }

    pub(super) async fn until_all_are_found(&self) -> Result<()> {
        for store in ["opensearch", "cache"] {
            self.until_found(store).await?;
        }
        Ok(())
    }

    pub(super) async fn until_found(&self, store: &str) -> Result<()> {
        eventually("all pods are found", DEADLINE, || async {
            let page: Value = serde_json::from_slice(&self.list(store, "limit=1").await?)?;
            let found = page["metadata"]["remainingItemCount"].as_u64().unwrap_or(0) + 1;
            ensure!(
                found == self.objects as u64,
                "{found} of {} in {store}",
                self.objects
            );
            Ok(())
        })
        .await
    }

    /// A selector that finds about fifty objects.
    pub(super) fn selector(&self, number: usize) -> String {
        let (application, patch) = (number % APPLICATIONS, number % 11);
        let label = "app.kubernetes.io";
        if self.objects >= LARGE_FLEET {
            let instance = format!("service-{application:02}");
            let two = format!("{label}/instance in ({instance}-0,{instance}-1)");
            return format!(
                "{label}/name=service-{application:02},{label}/version=1.{}.{patch},{two}",
                number % 7
            );
        }
        let versions: Vec<String> = (0..7).map(|minor| format!("1.{minor}.{patch}")).collect();
        format!(
            "{label}/name=service-{application:02},{label}/version in ({})",
            versions.join(",")
        )
    }

    /// A list from Fleetdex.
    pub(super) async fn list(&self, store: &str, query: &str) -> Result<Bytes> {
        self.body(self.list_request(store, query)).await
    }

    /// The request of a list from Fleetdex.
    pub(super) fn list_request(&self, store: &str, query: &str) -> RequestBuilder {
        let url = format!("{}/search/{store}/api/v1/pods?{query}", self.server);
        self.client.get(url).bearer_auth(&self.token)
    }

    pub(super) async fn send(&self, target: Target<'_>, number: usize) -> Result<Vec<Bytes>> {
        let selector = self.selector(number);
        let query = format!("labelSelector={}", url_encoded(&selector));
        match target {
            Target::OpenSearch => {
                let query = Query {
                    labels: selector.parse()?,
                    ..all_pods()
                };
                let body = dsl::request_body(
                    &CheckedQuery::new(&query)?,
                    &Paging {
                        look_ahead: true,
                        ..Paging::default()
                    },
                );
                let url = format!(
                    "{}/{NAME}/_search?ignore_unavailable=true&allow_no_indices=true",
                    self.opensearch
                );
                Ok(vec![self.body(self.client.post(url).json(&body)).await?])
            }
            Target::Server(store) => Ok(vec![self.list(store, &query).await?]),
            Target::Copy(url) => Ok(vec![self.body(self.client.get(url)).await?]),
            Target::Members(urls) => {
                try_join_all(
                    urls.iter().map(|url| {
                        self.body(self.client.get(format!("{url}/api/v1/pods?{query}")))
                    }),
                )
                .await
            }
        }
    }

    pub(super) async fn body(&self, request: RequestBuilder) -> Result<Bytes> {
        let answer = request.send().await?;
        let code = answer.status();
        let body = answer.bytes().await?;
        ensure!(
            code.is_success(),
            "HTTP {code}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(body)
    }
}

/// The server that a query is sent to.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    OpenSearch,
    /// Fleetdex, by the name of the store in its paths.
    Server(&'a str),
    /// Every member, concurrently.
    Members(&'a [String]),
    /// A server that has one answer ready.
    Copy(&'a str),
}

pub(super) fn all_pods() -> Query {
    let pods = Gvk::new("", "v1", "Pod");
    let fields = kinds::selectable_fields(&pods).unwrap_or_default();
    Query::all_of(
        ResourceName::new("", "pods"),
        Selectable::of(&pods, fields),
        PAGE,
    )
}

/// What the names of figures of so many objects end with.
pub(super) fn size_suffix(objects: usize) -> &'static str {
    if objects >= LARGE_FLEET { "_200k" } else { "" }
}

pub(super) fn url_encoded(text: &str) -> String {
    let encoded = |byte: u8| {
        if byte.is_ascii_alphanumeric() {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(encoded).collect()
}

pub(super) fn report_line(figures: &mut Figures, subject: &str, text: String) {
    println!("  {subject}: {text}");
    figures.line(subject, text);
}
