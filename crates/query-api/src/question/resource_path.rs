//! Resource paths of Kubernetes' API.

use fleetdex_core::model::Namespace;

use crate::error::QuestionError;

/// A resource path as API servers have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// API group; empty for the core group.
    pub group: String,
    /// Version in the group.
    pub version: String,
    /// Plural.
    pub plural: String,
    /// The namespace, if the path names one.
    pub namespace: Option<Namespace>,
    /// The object, if the path names one.
    pub name: Option<String>,
}

impl ResourcePath {
    /// Reads `api/v1/…` or `apis/<group>/<version>/…`; `path` is the whole path, for messages.
    pub(super) fn parse(path: &str, segments: &[&str]) -> Result<Self, QuestionError> {
        let no_resource = || {
            let example = "api/v1/pods or apis/apps/v1/namespaces/default/deployments";
            QuestionError::NotFound(format!(
                "path {path:?} names no resource; it must end with a path such as {example}"
            ))
        };
        let (group, version, rest) = match segments {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Err(no_resource()),
        };
        let (namespace, in_namespace) = match rest {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize", ..] => (None, rest),
            ["namespaces", namespace, inside @ ..] if !inside.is_empty() => {
                (Some(*namespace), inside)
            }
            _ => (None, rest),
        };
        let (plural, name) = match in_namespace {
            [] => return Err(no_resource()),
            [verb @ ("watch" | "proxy"), ..] => {
                return Err(QuestionError::not_yet(&format!("path segment {verb:?}")));
            }
            [plural] => (*plural, None),
            [plural, name] => (*plural, Some((*name).to_owned())),
            [_, _, subresource, ..] => {
                let problem = format!(
                    "path {path:?}: subresource {subresource:?} is not in the index, only objects are"
                );
                return Err(QuestionError::NotFound(problem));
            }
        };
        // As in an API server: no object can have such a name.
        for segment in namespace.into_iter().chain(name.as_deref()) {
            if matches!(segment, "." | "..") || segment.contains(['/', '%']) {
                return Err(QuestionError::path(format!(
                    "{segment:?} is not a valid name: it is '.' or '..', or has a '/' or a '%'"
                )));
            }
        }
        let parsed_namespace = namespace.map(str::parse).transpose();
        Ok(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            namespace: parsed_namespace.map_err(QuestionError::path)?,
            name,
        })
    }
}
