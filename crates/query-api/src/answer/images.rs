//! The images of Pods.

use fleetdex_core::model::ClusterName;
use serde::{Deserialize, Serialize};

use super::{AnswerList, FoundMetadata};

/// An `ImageCountList`: how many Pods of each cluster have each image, the most frequent images
/// first.
pub type ImageCountList = AnswerList<ImageCount>;

/// How many Pods of a cluster have an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageCount {
    /// `ImageCount`
    pub kind: String,
    /// Our API group and version.
    pub api_version: String,
    /// The image as a name, and the cluster as an annotation.
    pub metadata: FoundMetadata,
    /// The image as the Pods name it.
    pub image: String,
    /// The member that holds the Pods.
    pub cluster: ClusterName,
    /// How many Pods have the image.
    pub pods: u64,
}
