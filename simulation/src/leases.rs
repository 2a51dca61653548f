//! The part of a control plane that replicas need: applying, listing and deleting Leases.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::Full;
use kube::client::Body as ClientBody;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

/// Leases by name. Clones share the Leases.
#[derive(Clone, Default)]
pub struct Leases(Arc<Mutex<BTreeMap<String, Value>>>);

impl Leases {
    /// Creates a client, which is bound to the current async runtime.
    pub fn client(&self) -> kube::Client {
        let leases = self.clone();
        let service = service_fn(move |request: Request<ClientBody>| {
            let leases = leases.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let name = head.uri.path().rsplit('/').next().unwrap_or_default();
                let response = leases.respond(&head.method, name, &body)?;
                Ok::<_, BoxError>(Response::new(Full::new(Bytes::from(response.to_string()))))
            }
        });
        kube::Client::new(service, "default")
    }

    fn respond(&self, method: &Method, name: &str, body: &[u8]) -> Result<Value, BoxError> {
        let mut leases = self.0.lock();
        match *method {
            Method::PATCH => {
                let mut lease: Value = serde_json::from_slice(body)?;
                lease["metadata"]["uid"] = name.into();
                leases.insert(name.to_owned(), lease.clone());
                Ok(lease)
            }
            Method::DELETE => Ok(leases
                .remove(name)
                .unwrap_or_else(|| json!({ "metadata": {} }))),
            _ => {
                let items: Vec<&Value> = leases.values().collect();
                Ok(
                    json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "metadata": {}, "items": items }),
                )
            }
        }
    }
}
