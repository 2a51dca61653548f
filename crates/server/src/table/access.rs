//! API groups `rbac.authorization.k8s.io`, `certificates.k8s.io` and `admissionregistration.k8s.io`.

use super::{
    age::human_duration,
    column::{Cell, Column, NONE, UNSET, View, age, length, made, name, text, text_or},
    kind::Kind,
    text::{labels, selector_or_none},
};

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

const BINDING: &[Column] = &[
    name(),
    made("Role", &["roleRef"], |view| {
        let role = view.at("roleRef");
        format!(
            "{}/{}",
            role.member("kind").text(),
            role.member("name").text()
        )
        .into()
    }),
    age(),
    made("Users", &["subjects"], |view| subjects(view, "User")).wide(),
    made("Groups", &["subjects"], |view| subjects(view, "Group")).wide(),
    made("ServiceAccounts", &["subjects"], |view| {
        subjects(view, "ServiceAccount")
    })
    .wide(),
];

const WEBHOOKS: &[Column] = &[name(), length("Webhooks", "webhooks"), age()];
const PARAM_KIND: Column = made("ParamKind", &["spec.paramKind"], |view| {
    let kind = view.at("spec.paramKind");
    if !kind.is_given() {
        return UNSET.into();
    }
    format!(
        "{}/{}",
        kind.member("apiVersion").text(),
        kind.member("kind").text()
    )
    .into()
});
const POLICY_BINDING: &[Column] = &[
    name(),
    text("PolicyName", "spec.policyName"),
    made("ParamRef", &["spec.paramRef"], parameter),
    age(),
];

/// The kinds.
pub const KINDS: &[Kind] = &[
    Kind::new(RBAC, "RoleBinding", BINDING),
    Kind::new(RBAC, "ClusterRoleBinding", BINDING),
    Kind::new(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        &[
            name(),
            age(),
            text_or("SignerName", "spec.signerName", NONE),
            text("Requestor", "spec.username"),
            made("RequestedDuration", &["spec.expirationSeconds"], |view| {
                let seconds = view.at("spec.expirationSeconds");
                if seconds.is_given() {
                    human_duration(seconds.integer()).into()
                } else {
                    NONE.into()
                }
            }),
            made(
                "Condition",
                &["status.conditions.type", "status.certificate"],
                request_status,
            ),
        ],
    ),
    Kind::new(
        "certificates.k8s.io",
        "ClusterTrustBundle",
        &[name(), text_or("SignerName", "spec.signerName", NONE)],
    ),
    Kind::new(
        "certificates.k8s.io",
        "PodCertificateRequest",
        &[
            name(),
            text("PodName", "spec.podName"),
            text("ServiceAccountName", "spec.serviceAccountName"),
            text("NodeName", "spec.nodeName"),
            text("SignerName", "spec.signerName"),
            made("State", &["status.conditions.type"], |view| {
                let mut types = view
                    .at("status.conditions")
                    .items()
                    .iter()
                    .rev()
                    .map(|found| found.member("type").text());
                types
                    .find(|name| matches!(*name, "Issued" | "Denied" | "Failed"))
                    .unwrap_or("Pending")
                    .into()
            }),
            made(
                "UnverifiedUserAnnotations",
                &["spec.unverifiedUserAnnotations"],
                |view| labels(view.at("spec.unverifiedUserAnnotations")).into(),
            ),
        ],
    ),
    Kind::new(ADMISSION, "MutatingWebhookConfiguration", WEBHOOKS),
    Kind::new(ADMISSION, "ValidatingWebhookConfiguration", WEBHOOKS),
    Kind::new(
        ADMISSION,
        "ValidatingAdmissionPolicy",
        &[
            name(),
            length("Validations", "spec.validations"),
            PARAM_KIND,
            age(),
        ],
    ),
    Kind::new(
        ADMISSION,
        "MutatingAdmissionPolicy",
        &[
            name(),
            length("Mutations", "spec.mutations"),
            PARAM_KIND,
            age(),
        ],
    ),
    Kind::new(
        ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        POLICY_BINDING,
    ),
    Kind::new(ADMISSION, "MutatingAdmissionPolicyBinding", POLICY_BINDING),
];

fn subjects(view: &View<'_>, kind: &str) -> Cell {
    let subjects = view
        .at("subjects")
        .items()
        .iter()
        .filter(|subject| subject.member("kind").text() == kind);
    let shown = subjects.map(|subject| {
        let name = subject.member("name").text();
        if kind == "ServiceAccount" {
            format!("{}/{name}", subject.member("namespace").text())
        } else {
            name.to_owned()
        }
    });
    shown.collect::<Vec<_>>().join(", ").into()
}

fn request_status(view: &View<'_>) -> Cell {
    let conditions = view.at("status.conditions");
    let has = |name: &str| conditions.of_type(name).is_some();
    let mut status = ["Denied", "Approved"]
        .into_iter()
        .find(|name| has(name))
        .unwrap_or("Pending")
        .to_owned();
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !view.at("status.certificate").text().is_empty() {
        status.push_str(",Issued");
    }
    status.into()
}

fn parameter(view: &View<'_>) -> Cell {
    let reference = view.at("spec.paramRef");
    match (
        reference.member("name").text(),
        reference.member("namespace").text(),
    ) {
        // Kubernetes shows how Go prints the structure; this is the same selector as one can type it.
        ("", _) if reference.member("selector").is_given() => {
            selector_or_none(reference.member("selector"))
        }
        ("", _) => UNSET.into(),
        (name, "") => format!("*/{name}").into(),
        (name, namespace) => format!("{namespace}/{name}").into(),
    }
}
