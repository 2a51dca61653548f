//! API groups `rbac.authorization.k8s.io`, `certificates.k8s.io` and
//! `admissionregistration.k8s.io`.

use crate::render::table::{
    age::human_duration,
    column::{Cell, Column, NONE, RowContext, UNSET, age, computed, length, name, text, text_or},
    kind_columns::KindColumns,
    text::{labels, selector_or_none},
};

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

const BINDING: &[Column] = &[
    name(),
    computed("Role", &["roleRef"], |view| {
        let role = view.at("roleRef");
        format!(
            "{}/{}",
            role.member("kind").text(),
            role.member("name").text()
        )
        .into()
    }),
    age(),
    computed("Users", &["subjects"], |view| subjects(view, "User")).wide(),
    computed("Groups", &["subjects"], |view| subjects(view, "Group")).wide(),
    computed("ServiceAccounts", &["subjects"], |view| {
        subjects(view, "ServiceAccount")
    })
    .wide(),
];

const WEBHOOKS: &[Column] = &[name(), length("Webhooks", "webhooks"), age()];
const PARAM_KIND: Column = computed("ParamKind", &["spec.paramKind"], |view| {
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
    computed("ParamRef", &["spec.paramRef"], parameter),
    age(),
];

/// The kinds.
pub const KINDS: &[KindColumns] = &[
    KindColumns::new(RBAC, "RoleBinding", BINDING),
    KindColumns::new(RBAC, "ClusterRoleBinding", BINDING),
    KindColumns::new(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        &[
            name(),
            age(),
            text_or("SignerName", "spec.signerName", NONE),
            text("Requestor", "spec.username"),
            computed("RequestedDuration", &["spec.expirationSeconds"], |view| {
                let seconds = view.at("spec.expirationSeconds");
                if seconds.is_given() {
                    human_duration(seconds.integer()).into()
                } else {
                    NONE.into()
                }
            }),
            computed(
                "Condition",
                &["status.conditions.type", "status.certificate"],
                request_status,
            ),
        ],
    ),
    KindColumns::new(
        "certificates.k8s.io",
        "ClusterTrustBundle",
        &[name(), text_or("SignerName", "spec.signerName", NONE)],
    ),
    KindColumns::new(
        "certificates.k8s.io",
        "PodCertificateRequest",
        &[
            name(),
            text("PodName", "spec.podName"),
            text("ServiceAccountName", "spec.serviceAccountName"),
            text("NodeName", "spec.nodeName"),
            text("SignerName", "spec.signerName"),
            computed("State", &["status.conditions.type"], |view| {
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
            computed(
                "UnverifiedUserAnnotations",
                &["spec.unverifiedUserAnnotations"],
                |view| labels(view.at("spec.unverifiedUserAnnotations")).into(),
            ),
        ],
    ),
    KindColumns::new(ADMISSION, "MutatingWebhookConfiguration", WEBHOOKS),
    KindColumns::new(ADMISSION, "ValidatingWebhookConfiguration", WEBHOOKS),
    KindColumns::new(
        ADMISSION,
        "ValidatingAdmissionPolicy",
        &[
            name(),
            length("Validations", "spec.validations"),
            PARAM_KIND,
            age(),
        ],
    ),
    KindColumns::new(
        ADMISSION,
        "MutatingAdmissionPolicy",
        &[
            name(),
            length("Mutations", "spec.mutations"),
            PARAM_KIND,
            age(),
        ],
    ),
    KindColumns::new(
        ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        POLICY_BINDING,
    ),
    KindColumns::new(ADMISSION, "MutatingAdmissionPolicyBinding", POLICY_BINDING),
];

fn subjects(view: &RowContext<'_>, kind: &str) -> Cell {
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

fn request_status(view: &RowContext<'_>) -> Cell {
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

fn parameter(view: &RowContext<'_>) -> Cell {
    let reference = view.at("spec.paramRef");
    match (
        reference.member("name").text(),
        reference.member("namespace").text(),
    ) {
        // Kubernetes shows how Go prints the structure; this is the same selector as one can type
        // it.
        ("", _) if reference.member("selector").is_given() => {
            selector_or_none(reference.member("selector"))
        }
        ("", _) => UNSET.into(),
        (name, "") => format!("*/{name}").into(),
        (name, namespace) => format!("{namespace}/{name}").into(),
    }
}
