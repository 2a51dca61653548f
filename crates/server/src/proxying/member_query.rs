//! The query of a request for one object: the clusters that it names, and the query for the member.

use fleetdex_core::model::ClusterName;
use fleetdex_query_api::{
    fleet_request::{ResourceInfo, Verb},
    uri::QueryParameters,
};

use crate::api_error::ApiError;

/// Parameters of lists over the fleet. They mean nothing to a member.
const OF_LISTS: [&str; 11] = [
    "namespaces",
    "names",
    "store",
    "orderBy",
    "ownerUID",
    "ownerName",
    "ownerSeniority",
    "since",
    "before",
    "onlyMetadata",
    "withRemainingCount",
];
/// Splits the query into the clusters that the request names and the query for the member.
/// `cluster` is the one that the path names.
pub(super) fn split(
    cluster: Option<ClusterName>,
    info: &ResourceInfo,
    query: &QueryParameters<'_>,
) -> Result<(Vec<ClusterName>, String), ApiError> {
    let mut clusters: Vec<ClusterName> = cluster.into_iter().collect();
    if info.subresource.as_deref() == Some("proxy") {
        // The query belongs to the server behind the proxy.
        return Ok((clusters, query.encoded().to_owned()));
    }
    let mut forwarded = Vec::new();
    for parameter in query.all()? {
        let value = &parameter.value;
        match &*parameter.key {
            "clusters" if value.is_empty() => {}
            "clusters" if !clusters.is_empty() => {
                return Err(ApiError::bad_request(
                    "parameter clusters: clusters are named already; name them once".to_owned(),
                ));
            }
            "clusters" => {
                for name in value.split(',') {
                    let name = name.parse().map_err(|error| {
                        ApiError::bad_request(format!("parameter clusters: {error}"))
                    })?;
                    clusters.push(name);
                }
            }
            "resourceVersion" | "resourceVersionMatch" if info.verb == Verb::Get => {
                // The member itself is read, so that the result is never older than what the caller
                // has read before.
            }
            list if OF_LISTS.contains(&list) => {
                return Err(ApiError::bad_request(format!(
                    "parameter {list}: it is for lists, and this request is for one object"
                )));
            }
            _ => forwarded.push(parameter.encoded),
        }
    }
    Ok((clusters, forwarded.join("&")))
}
