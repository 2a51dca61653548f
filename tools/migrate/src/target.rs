//! Requests to the control plane that is migrated.

use std::time::Duration;

use fleetdex_core::model::causes;
use fleetdex_crds::cluster::Cluster;
use k8s_openapi::{
    api::core::v1::Service,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::APIResourceList,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, PostParams, Preconditions},
    core::{ApiResource, GroupVersionKind, TypeMeta},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use fleetdex_checks::permissions::REQUEST_TIMEOUT;

/// The `APIService` of karmada-search.
pub const API_SERVICE: &str = "v1alpha1.search.karmada.io";
/// The `APIService` of Karmada's Clusters.
pub const CLUSTERS_API_SERVICE: &str = "v1alpha1.cluster.karmada.io";
/// The `APIService` of Fleetdex's query API.
pub const QUERY_API_SERVICE: &str = "v1alpha1.search.fleetdex.io";
/// The CRD of Fleetdex.
pub const CRD: &str = "resourceregistries.search.karmada.io";
const GROUP_VERSION: &str = "search.karmada.io/v1alpha1";
const KIND: &str = "ResourceRegistry";
const PLURAL: &str = "resourceregistries";
/// The short name that the CRD has, and the API of karmada-search does not.
const SHORT_NAME: &str = "rr";
/// Field manager of what a migration creates.
const MANAGER: &str = "fleetdex-migrate";
/// Objects in a page of a list, as kubectl has it.
const PAGE: u32 = 500;
const POLL: Duration = Duration::from_millis(250);

/// A request that the control plane refused, or did not answer.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {object} at {server}: {problem}")]
pub struct RequestFailed {
    /// What was requested.
    verb: &'static str,
    /// Of what.
    object: String,
    /// The control plane.
    server: String,
    /// What it said.
    problem: String,
    /// The HTTP status, if there was an answer.
    pub code: Option<u16>,
}

/// Who answers for the group of registries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupServer {
    /// An aggregated API server.
    Aggregated,
    /// The CRD of Fleetdex.
    Crd,
    /// Nothing: there is no such group.
    Nothing,
}

/// What became of a registry that was to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// It is new.
    Created,
    /// One of this name is there.
    Exists,
}

/// A control plane.
pub struct MigrationTarget {
    /// Sends requests.
    pub client: Client,
    /// Its URL, for messages.
    pub server: String,
    /// How long a step may wait, in seconds.
    pub seconds: u64,
}

impl MigrationTarget {
    /// Sends no request.
    pub fn new(client: Client, server: String, seconds: u64) -> Self {
        Self {
            client,
            server,
            seconds,
        }
    }

    /// The `APIService`, if a server other than this one answers for it.
    pub async fn aggregated(&self, name: &str) -> Result<Option<APIService>, RequestFailed> {
        let found = self.api_service(name).await?;
        Ok(found.filter(|found| {
            let spec = found.spec.as_ref();
            spec.is_some_and(|spec| spec.service.is_some())
        }))
    }

    /// The `APIService`, which is also there for a CRD.
    pub async fn api_service(&self, name: &str) -> Result<Option<APIService>, RequestFailed> {
        let api = Api::<APIService>::all(self.client.clone());
        self.sent("get", format!("APIService {name}"), api.get_opt(name))
            .await
    }

    /// The CRD of registries.
    pub async fn crd(&self) -> Result<Option<CustomResourceDefinition>, RequestFailed> {
        let api = Api::<CustomResourceDefinition>::all(self.client.clone());
        self.sent("get", format!("CRD {CRD}"), api.get_opt(CRD))
            .await
    }

    /// A Service.
    pub async fn service(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Service>, RequestFailed> {
        let api = Api::<Service>::namespaced(self.client.clone(), namespace);
        let object = format!("Service {namespace}/{name}");
        self.sent("get", object, api.get_opt(name)).await
    }

    /// The registries of karmada-search or of the CRD, with kind and version.
    pub async fn registries(&self) -> Result<Vec<Value>, RequestFailed> {
        let mut parameters = ListParams::default().limit(PAGE);
        let mut found = Vec::new();
        loop {
            let api = self.registry_api();
            let listed = api.list(&parameters);
            let page = self.sent("list", PLURAL.to_owned(), listed).await?;
            for mut registry in page.items {
                // Items of a list do not repeat it.
                registry.types = Some(TypeMeta {
                    api_version: GROUP_VERSION.to_owned(),
                    kind: KIND.to_owned(),
                });
                found.push(serde_json::to_value(registry).unwrap_or_default());
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => return Ok(found),
            }
        }
    }

    /// One registry.
    pub async fn registry(&self, name: &str) -> Result<Option<Value>, RequestFailed> {
        let api = self.registry_api();
        let object = format!("ResourceRegistry {name}");
        let found = self.sent("get", object, api.get_opt(name)).await?;
        Ok(found.and_then(|found| serde_json::to_value(found).ok()))
    }

    /// The clusters that Karmada, or a CRD, serves.
    pub async fn clusters(&self) -> Result<Vec<Cluster>, RequestFailed> {
        let api = Api::<Cluster>::all(self.client.clone());
        let parameters = ListParams::default();
        let listed = api.list(&parameters);
        let listed = self.sent("list", "clusters.cluster.karmada.io".to_owned(), listed);
        Ok(listed.await?.items)
    }

    /// Who answers for the group, by its discovery document.
    pub async fn group_server(&self) -> Result<GroupServer, RequestFailed> {
        let path = format!("/apis/{GROUP_VERSION}");
        let Some(discovered) = if_present(self.discover(&path).await)? else {
            return Ok(GroupServer::Nothing);
        };
        let is_of_crd = discovered.resources.iter().any(|resource| {
            let names = resource.short_names.as_deref().unwrap_or_default();
            resource.name == PLURAL && names.iter().any(|name| name == SHORT_NAME)
        });
        Ok(if is_of_crd {
            GroupServer::Crd
        } else {
            GroupServer::Aggregated
        })
    }

    async fn discover(&self, path: &str) -> Result<APIResourceList, RequestFailed> {
        let request = http::Request::get(path).body(Vec::new());
        let answer = async {
            let request = request.map_err(kube::Error::HttpError)?;
            self.client.request::<APIResourceList>(request).await
        };
        self.sent("get", path.to_owned(), answer).await
    }

    /// Removes an `APIService` that is still the same object.
    pub async fn delete_api_service(&self, found: &APIService) -> Result<(), RequestFailed> {
        let name = found.name_any();
        let api = Api::<APIService>::all(self.client.clone());
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: found.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let object = format!("APIService {name}");
        let deleted = self.sent("delete", object, api.delete(&name, &parameters));
        if_present(deleted.await).map(drop)
    }

    /// Removes the CRD, with all registries.
    pub async fn delete_crd(&self) -> Result<(), RequestFailed> {
        let api = Api::<CustomResourceDefinition>::all(self.client.clone());
        let parameters = DeleteParams::default();
        let deleted = self.sent("delete", format!("CRD {CRD}"), api.delete(CRD, &parameters));
        if_present(deleted.await).map(drop)
    }

    /// Removes a registry; one with finalizers is still there after that.
    pub async fn delete_registry(&self, name: &str) -> Result<(), RequestFailed> {
        let api = self.registry_api();
        let parameters = DeleteParams::default();
        let object = format!("ResourceRegistry {name}");
        let deleted = self.sent("delete", object, api.delete(name, &parameters));
        if_present(deleted.await).map(drop)
    }

    /// Creates a registry, unless one of its name is there. With `dry_run` the API server only
    /// checks it.
    pub async fn create_registry(
        &self,
        registry: &Value,
        dry_run: bool,
    ) -> Result<Creation, RequestFailed> {
        self.created(&self.registry_api(), registry, dry_run).await
    }

    /// Creates an `APIService`, unless it is there.
    pub async fn create_api_service(&self, object: &Value) -> Result<Creation, RequestFailed> {
        let api = Api::<APIService>::all(self.client.clone());
        self.created(&api, object, false).await
    }

    /// Creates a Service, unless it is there.
    pub async fn create_service(&self, object: &Value) -> Result<Creation, RequestFailed> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let api = Api::<Service>::namespaced(self.client.clone(), namespace);
        self.created(&api, object, false).await
    }

    async fn created<K>(
        &self,
        api: &Api<K>,
        object: &Value,
        dry_run: bool,
    ) -> Result<Creation, RequestFailed>
    where
        K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let [kind, name] = [&object["kind"], &object["metadata"]["name"]];
        let title = [kind, name]
            .map(|text| text.as_str().unwrap_or_default())
            .join(" ");
        let parameters = PostParams {
            dry_run,
            field_manager: Some(MANAGER.to_owned()),
        };
        let created = async {
            let object: K =
                serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
            api.create(&parameters, &object).await
        };
        match self.sent("create", title, created).await {
            Ok(_) => Ok(Creation::Created),
            Err(error) if error.code == Some(409) => Ok(Creation::Exists),
            Err(error) => Err(error),
        }
    }

    fn registry_api(&self) -> Api<DynamicObject> {
        let (group, version) = GROUP_VERSION.split_once('/').unwrap_or_default();
        let kind = GroupVersionKind::gvk(group, version, KIND);
        let resource = ApiResource::from_gvk_with_plural(&kind, PLURAL);
        Api::all_with(self.client.clone(), &resource)
    }

    /// Waits until a condition holds; false if it does not in time. A request that fails meanwhile
    /// is repeated: API servers restart.
    pub async fn until(
        &self,
        mut holds: impl AsyncFnMut() -> Result<bool, RequestFailed>,
    ) -> Result<bool, RequestFailed> {
        let deadline = Instant::now() + Duration::from_secs(self.seconds);
        loop {
            let is_late = Instant::now() >= deadline;
            match holds().await {
                Ok(true) => return Ok(true),
                Ok(false) if is_late => return Ok(false),
                Err(error) if is_late => return Err(error),
                _ => sleep(POLL).await,
            }
        }
    }

    async fn sent<T>(
        &self,
        verb: &'static str,
        object: String,
        answer: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, RequestFailed> {
        let (code, problem) = match timeout(REQUEST_TIMEOUT, answer).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(kube::Error::Api(status))) => (Some(status.code), status.message.clone()),
            Ok(Err(error)) => (None, causes(&error)),
            Err(_) => (
                None,
                format!("no answer within {} s", REQUEST_TIMEOUT.as_secs()),
            ),
        };
        Err(RequestFailed {
            verb,
            object,
            server: self.server.clone(),
            problem,
            code,
        })
    }
}

/// `None`: it is not there, and needs no deletion.
fn if_present<T>(result: Result<T, RequestFailed>) -> Result<Option<T>, RequestFailed> {
    match result {
        Err(error) if error.code == Some(404) => Ok(None),
        result => result.map(Some),
    }
}

/// Why an `APIService` is not available; `None` if it is.
pub fn unavailability(service: &APIService) -> Option<String> {
    let status = service.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let available = conditions.and_then(|all| all.iter().find(|found| found.type_ == "Available"));
    match available {
        Some(found) if found.status == "True" => None,
        Some(found) => Some(found.message.clone().unwrap_or_default()),
        None => Some("the control plane has not checked it yet".to_owned()),
    }
}

/// Namespace and name of the Service of an `APIService`.
pub fn service_of(api_service: &APIService) -> (String, String) {
    let service = api_service
        .spec
        .as_ref()
        .and_then(|spec| spec.service.clone());
    let service = service.unwrap_or_default();
    (
        service.namespace.unwrap_or_default(),
        service.name.unwrap_or_default(),
    )
}
