//! How requests to an OpenSearch of AWS are signed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Signatures (Signature Version 4) for the OpenSearch Service of AWS. The access keys are those of
/// the Secret, or of the Pod's role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AwsSigning {
    /// The region of the domain, such as `eu-central-1`.
    #[schemars(length(min = 1, max = 64))]
    pub region: String,
    /// The name of the service in signatures; `es` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub service: Option<String>,
    /// A role to assume with these keys, such as one in the account of the domain.
    #[serde(default, rename = "roleARN", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub role_arn: Option<String>,
}

impl AwsSigning {
    /// The name of the service in signatures.
    pub fn service(&self) -> &str {
        self.service.as_deref().unwrap_or("es")
    }
}

/// The rules of the field in a spec. In a status, which has a list of these, they would exceed what
/// an API server lets rules cost. Source:
/// <https://docs.aws.amazon.com/opensearch-service/latest/developerguide/serverless-genref.html>
pub(super) const AWS_RULES: &[(&str, &str)] = &[
    (
        "self.region.matches('^[a-z0-9]+(-[a-z0-9]+)+$')",
        "region is a region of AWS such as eu-central-1",
    ),
    (
        "!has(self.service) || self.service != 'aoss'",
        "service aoss, OpenSearch Serverless, cannot be a store: it has no refresh on request, no state of the cluster, and document IDs only in some \
         collections; use a domain of the OpenSearch Service (es)",
    ),
    (
        "!has(self.service) || self.service.matches('^[a-z][a-z0-9-]*$')",
        "service is the name of a service of AWS, such as es",
    ),
    (
        "!has(self.roleARN) || self.roleARN.matches('^arn:aws[a-z-]*:iam::[0-9]{12}:role/[!-~]+$')",
        "roleARN is the ARN of a role, such as arn:aws:iam::123456789012:role/search",
    ),
];
