//! Decides which annotations are stored with their values.
//!
//! An annotation may hold a copy of a value that must not be stored: `kubectl apply` and other
//! tools keep the applied object in one. Such a copy would show what `redact` removes, and all
//! values of a Secret.

use super::{Object, json_scanner::RawJson, well_known::LAST_APPLIED};

/// Annotations with a copy of their object, or of most of it, as a tool applied it: kapp, Banzai
/// Cloud's object matcher, Rancher, Kopf and KUDO.
const COPIES: &[&str] = &[
    "banzaicloud.com/last-applied",
    "kapp.k14s.io/original",
    "kapp.k14s.io/original-diff",
    "kapp.k14s.io/original-diff-full",
    "kopf.zalando.org/last-handled-configuration",
    "kudo.dev/last-applied-configuration",
    "objectset.rio.cattle.io/applied",
];

/// Annotations of Secrets whose values name other objects, certificates or how a tool works. They
/// never hold a value of the Secret, nor a hash of one, from which a short value could be guessed.
/// Any other annotation of a Secret may.
///
/// Sources: <https://kubernetes.io/docs/reference/labels-annotations-taints/>,
/// <https://cert-manager.io/docs/reference/annotations/>, and the documentation of Helm, Argo CD,
/// Flux, Karmada, Sealed Secrets, `OpenShift` and Rancher.
const SHOWN_OF_SECRETS: &[&str] = &[
    "app.kubernetes.io/managed-by",
    "argocd.argoproj.io/hook",
    "argocd.argoproj.io/hook-delete-policy",
    "argocd.argoproj.io/sync-options",
    "argocd.argoproj.io/sync-wave",
    "argocd.argoproj.io/tracking-id",
    "cert-manager.io/alt-names",
    "cert-manager.io/certificate-name",
    "cert-manager.io/cluster-issuer",
    "cert-manager.io/common-name",
    "cert-manager.io/email-sans",
    "cert-manager.io/ip-sans",
    "cert-manager.io/issuer",
    "cert-manager.io/issuer-group",
    "cert-manager.io/issuer-kind",
    "cert-manager.io/issuer-name",
    "cert-manager.io/subject-countries",
    "cert-manager.io/subject-localities",
    "cert-manager.io/subject-organizationalunits",
    "cert-manager.io/subject-organizations",
    "cert-manager.io/subject-postalcodes",
    "cert-manager.io/subject-provinces",
    "cert-manager.io/subject-serialnumber",
    "cert-manager.io/subject-streetaddresses",
    "cert-manager.io/uri-sans",
    "fleetdex.io/allowed-hosts",
    "helm.sh/hook",
    "helm.sh/hook-delete-policy",
    "helm.sh/hook-weight",
    "helm.sh/resource-policy",
    "kapp.k14s.io/change-group",
    "kapp.k14s.io/change-rule",
    "kapp.k14s.io/identity",
    "kubernetes.io/service-account.name",
    "kubernetes.io/service-account.uid",
    "kustomize.toolkit.fluxcd.io/prune",
    "kustomize.toolkit.fluxcd.io/reconcile",
    "meta.helm.sh/release-name",
    "meta.helm.sh/release-namespace",
    "objectset.rio.cattle.io/id",
    "objectset.rio.cattle.io/owner-gvk",
    "objectset.rio.cattle.io/owner-name",
    "objectset.rio.cattle.io/owner-namespace",
    "openshift.io/owning-component",
    "openshift.io/token-secret.name",
    "resourcetemplate.karmada.io/uid",
    "sealedsecrets.bitnami.com/managed",
    "work.karmada.io/name",
    "work.karmada.io/namespace",
];

/// The object with empty values for the annotations whose values are not stored, and the paths of
/// these annotations; `None` if there are none. An annotation that was empty before is not among
/// them.
pub(super) fn without_hidden_values<'a>(
    object: &Object<'a>,
    is_secret: bool,
) -> Option<(Object<'a>, Vec<String>)> {
    let has_value = |value: RawJson<'_>| !matches!(value.get(), "null" | "\"\"");
    let is_hidden = |key: &str, value: RawJson<'_>| {
        key != LAST_APPLIED && hides_value(key, is_secret) && has_value(value)
    };
    if !object
        .metadata
        .annotations
        .0
        .iter()
        .any(|(key, value)| is_hidden(&key.0, *value))
    {
        return None;
    }
    let mut stripped = object.clone();
    let mut paths = Vec::new();
    for (key, value) in &mut stripped.metadata.annotations.0 {
        if is_hidden(&key.0, *value) {
            *value = RawJson::NULL;
            paths.push(format!(
                "$.metadata.annotations['{}']",
                key.0.replace('\\', "\\\\").replace('\'', "\\'")
            ));
        }
    }
    Some((stripped, paths))
}

fn hides_value(key: &str, is_secret: bool) -> bool {
    if is_secret {
        !SHOWN_OF_SECRETS.contains(&key)
    } else {
        COPIES.contains(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_copy_of_a_secret_is_stored() {
        assert!(COPIES.iter().all(|key| !SHOWN_OF_SECRETS.contains(key)
            && hides_value(key, true)
            && hides_value(key, false)));
        assert!(SHOWN_OF_SECRETS.is_sorted() && COPIES.is_sorted());
    }
}
