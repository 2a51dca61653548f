//! Where the objects of a `Distribution` come from.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema::{any_object, requires, rules};

/// Most places that values come from.
const VALUES_FROM: usize = 64;
/// Most images and patches.
const CHANGES: usize = 256;
/// As many bytes as an object of Kubernetes may have.
const TEXT_BYTES: usize = 1 << 20;
/// A folder within another one.
const PATH: &str = r"^(\./)?[^/.][^/]*(/[^/.][^/]*)*/?$";
const RELEASE_NAME: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const NAMESPACE: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const OCI: &str = "^oci://[^/]+/.+$";

const ONE_SOURCE: &str = "use exactly one of helm, kustomize and manifests";
const ONE_CHART: &str = "use exactly one of chart and configMapRef";
const REPOSITORY_NEEDED: &str =
    "chart is an address that begins with oci://, or a name beside repository";
const ONE_FOLDER: &str = "use exactly one of oci and configMapRef";
const ONE_TEXT: &str = "use exactly one of inline and configMapRef";

const SOURCE_RULES: &[(&str, &str)] = &[(
    "[has(self.helm), has(self.kustomize), has(self.manifests)].filter(one, one).size() == 1",
    ONE_SOURCE,
)];
const CHART_RULES: &[(&str, &str)] = &[
    ("has(self.chart) != has(self.configMapRef)", ONE_CHART),
    (
        "!has(self.chart) || self.chart.startsWith('oci://') != has(self.repository)",
        REPOSITORY_NEEDED,
    ),
];
const FOLDER_RULES: &[(&str, &str)] = &[("has(self.oci) != has(self.configMapRef)", ONE_FOLDER)];
const MANIFEST_RULES: &[(&str, &str)] = &[("has(self.inline) != has(self.configMapRef)", ONE_TEXT)];

/// Where the objects come from: exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(SOURCE_RULES)))]
pub struct DistributionSource {
    /// A chart, which helm renders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<ChartSource>,
    /// A folder, which kustomize renders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kustomize: Option<FolderSource>,
    /// Objects as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifests: Option<ManifestSource>,
}

/// A chart and its values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(CHART_RULES)))]
pub struct ChartSource {
    /// An address such as `oci://registry.example.com/charts/web`, with `:TAG` or `@sha256:…` if
    /// wanted, or the name of a chart in `repository`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub chart: Option<String>,
    /// The address of a chart repository, where `index.yaml` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), extend("pattern" = "^https?://"))]
    pub repository: Option<String>,
    /// A version, or a constraint such as `^1.2`; absent: the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub version: Option<String>,
    /// The archive of a chart, as `helm package` writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapKey>,
    /// The Secret with `username` and `password` for the hosts in its annotation
    /// `fleetdex.io/allowed-hosts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<NamedSecret>,
    /// The name of the release. Default: that of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 53), extend("pattern" = RELEASE_NAME))]
    pub release_name: Option<String>,
    /// The namespace of the release. Default: that of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), extend("pattern" = NAMESPACE))]
    pub namespace: Option<String>,
    /// Values of `ConfigMap`s and Secrets, merged in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = VALUES_FROM))]
    pub values_from: Vec<ValuesReference>,
    /// Values, merged last. A `null` removes a value of the chart.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "any_object")]
    pub values: Map<String, Value>,
}

/// Values of a `ConfigMap` or a Secret in the namespace of the `Distribution`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["kind", "name"]))]
pub struct ValuesReference {
    /// `ConfigMap` or `Secret`.
    #[serde(default)]
    #[schemars(extend("enum" = ["ConfigMap", "Secret"]))]
    pub kind: String,
    /// Its name.
    #[serde(default)]
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key. Default: `values.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub values_key: Option<String>,
    /// Where in the values, such as `image.tag`; absent: the key has a file of values. It takes
    /// precedence over all other values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 250))]
    pub target_path: Option<String>,
    /// Whether the value at `targetPath` stays a text, even if it is a number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub literal: bool,
    /// Whether the object or the key may be missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// A key of a `ConfigMap` in the namespace of the `Distribution`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["name", "key"]))]
pub struct ConfigMapKey {
    /// Its name.
    #[serde(default)]
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key: of `binaryData` for an archive.
    #[serde(default)]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// A Secret in the namespace of the `Distribution`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["name"]))]
pub struct NamedSecret {
    /// Its name.
    #[serde(default)]
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A folder with a kustomization, and what is changed of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(FOLDER_RULES)))]
pub struct FolderSource {
    /// An address such as `oci://registry.example.com/folders/web:1.0`, of an artifact whose layer
    /// is a gzipped tar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), extend("pattern" = OCI))]
    pub oci: Option<String>,
    /// A gzipped tar of the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapKey>,
    /// The Secret with `username` and `password` for the hosts in its annotation
    /// `fleetdex.io/allowed-hosts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<NamedSecret>,
    /// The folder of the kustomization within the archive; absent: its root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), extend("pattern" = PATH))]
    pub path: Option<String>,
    /// Images by other names, tags or digests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = CHANGES))]
    pub images: Vec<FolderImage>,
    /// The namespace of all objects; absent: as in the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), extend("pattern" = NAMESPACE))]
    pub namespace: Option<String>,
    /// Patches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = CHANGES))]
    pub patches: Vec<FolderPatch>,
}

/// `images` of a kustomization.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["name"]))]
pub struct FolderImage {
    /// The name in the folder.
    #[serde(default)]
    #[schemars(length(min = 1, max = 1024))]
    pub name: String,
    /// Another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub new_name: Option<String>,
    /// Another tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub new_tag: Option<String>,
    /// A digest in place of a tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub digest: Option<String>,
}

/// `patches` of a kustomization.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["patch"]))]
pub struct FolderPatch {
    /// A strategic merge patch, or a list of operations of RFC 6902.
    #[serde(default)]
    #[schemars(length(min = 1, max = TEXT_BYTES))]
    pub patch: String,
    /// The objects; absent: the one that a strategic merge patch names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<PatchTarget>,
    /// `allowNameChange` and `allowKindChange`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, bool>,
}

/// Objects of a kustomization. Names are regular expressions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchTarget {
    /// The group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub group: Option<String>,
    /// The version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub version: Option<String>,
    /// The kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub kind: Option<String>,
    /// The name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// The namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub namespace: Option<String>,
    /// A selector of labels, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub label_selector: Option<String>,
    /// A selector of annotations, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub annotation_selector: Option<String>,
}

/// Objects as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(MANIFEST_RULES)))]
pub struct ManifestSource {
    /// YAML or JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = TEXT_BYTES))]
    pub inline: Option<String>,
    /// A text of YAML or JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapKey>,
}
