//! The digest of what is rendered: the same inputs are rendered once.

use serde_json::{Value, json};

use crate::{
    digest::Sha256Digest,
    source::{Capabilities, RenderSource},
};

/// Changes whenever the same inputs give other objects by code of this crate.
const FORMAT: u32 = 1;

/// The digest of everything that a rendering depends on. `renderer`: the program and its
/// version.
pub(crate) fn digest_of(
    source: &RenderSource,
    capabilities: &Capabilities,
    renderer: &str,
) -> Sha256Digest {
    let mut inputs = json!({
        "format": FORMAT,
        "renderer": renderer,
        "capabilities": capabilities,
        "source": described(source),
    });
    inputs.sort_all_objects();
    Sha256Digest::of(inputs.to_string().as_bytes())
}

fn described(source: &RenderSource) -> Value {
    match source {
        RenderSource::Helm(helm) => json!({
            "chart": helm.chart.digest(),
            "release": helm.release_name,
            "namespace": helm.namespace,
            "values": helm.values,
        }),
        RenderSource::Kustomize(kustomize) => json!({
            "folder": kustomize.folder.digest(),
            "path": kustomize.path,
            "overlay": kustomize.overlay,
        }),
        RenderSource::Manifests(text) => json!({"manifests": text}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{archive::Archive, source::HelmSource};

    fn helm(values: &Value) -> RenderSource {
        RenderSource::Helm(HelmSource {
            chart: Archive::new(&b"chart"[..]).unwrap(),
            release_name: "web".to_owned(),
            namespace: "shop".to_owned(),
            values: values.as_object().unwrap().clone(),
        })
    }

    fn of(values: &Value, version: &str, apis: &[&str], renderer: &str) -> Sha256Digest {
        let capabilities = Capabilities::new(version, apis.iter().map(ToString::to_string));
        digest_of(&helm(values), &capabilities, renderer)
    }

    #[test]
    fn digests_are_the_same_in_whatever_order_inputs_are_given() {
        let first = of(
            &json!({"a": {"c": 1, "b": 2}}),
            "1.34.0",
            &["b/v1", "a/v1"],
            "helm 4",
        );
        let other = of(
            &json!({"a": {"b": 2, "c": 1}}),
            "1.34.0",
            &["a/v1", "b/v1", "a/v1"],
            "helm 4",
        );
        assert_eq!(first, other);
        // A digest that changes renders everything again, with other random values.
        assert_eq!(
            first.as_str(),
            "sha256:7be8737829542b786fbc65012091c6d6eae041d581f8f7e6a3ed1834add234df"
        );
    }

    #[test]
    fn digests_differ_with_each_input() {
        let values = || json!({"a": 1});
        let all = [
            of(&values(), "1.34.0", &[], "helm 4"),
            of(&json!({"a": 2}), "1.34.0", &[], "helm 4"),
            of(&json!({"a": null}), "1.34.0", &[], "helm 4"),
            of(&values(), "1.35.0", &[], "helm 4"),
            of(&values(), "1.34.0", &["a/v1"], "helm 4"),
            of(&values(), "1.34.0", &[], "helm 5"),
            digest_of(
                &RenderSource::Manifests(String::new()),
                &Capabilities::default(),
                "",
            ),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
