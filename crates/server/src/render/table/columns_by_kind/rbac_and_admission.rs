//! API groups `rbac.authorization.k8s.io`, `certificates.k8s.io` and
//! `admissionregistration.k8s.io`.

use crate::render::table::{
    age::human_duration,
    column::{
        Cell, Column, KindColumns, NONE, RowContext, UNSET, age, computed, length, name, shown,
        text, text_or,
    },
    json_node::JsonNode,
    text::{labels, pair, selector_or_none},
};

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

const BINDING: &[Column] = &[
    name(),
    shown("Role", "roleRef", |node| pair(node, "kind", "name")),
    age(),
    shown("Users", "subjects", |node| subjects(node, "User")).wide(),
    shown("Groups", "subjects", |node| subjects(node, "Group")).wide(),
    shown("ServiceAccounts", "subjects", |node| {
        subjects(node, "ServiceAccount")
    })
    .wide(),
];

const WEBHOOKS: &[Column] = &[name(), length("Webhooks", "webhooks"), age()];
const PARAM_KIND: Column = shown("ParamKind", "spec.paramKind", |node| match node {
    JsonNode::Null => UNSET.into(),
    kind => pair(kind, "apiVersion", "kind"),
});
const POLICY_BINDING: &[Column] = &[
    name(),
    text("PolicyName", "spec.policyName"),
    shown("ParamRef", "spec.paramRef", parameter),
    age(),
];

/// The kinds.
pub const KINDS: &[KindColumns] = &[
    KindColumns::new(RBAC, "RoleBinding").with(BINDING),
    KindColumns::new(RBAC, "ClusterRoleBinding").with(BINDING),
    KindColumns::new("certificates.k8s.io", "CertificateSigningRequest").with(&[
        name(),
        age(),
        text_or("SignerName", "spec.signerName", NONE),
        text("Requestor", "spec.username"),
        shown(
            "RequestedDuration",
            "spec.expirationSeconds",
            |node| match node {
                JsonNode::Null => NONE.into(),
                seconds => human_duration(seconds.integer()).into(),
            },
        ),
        computed(
            "Condition",
            &["status.conditions.type", "status.certificate"],
            request_status,
        ),
    ]),
    KindColumns::new("certificates.k8s.io", "ClusterTrustBundle")
        .with(&[name(), text_or("SignerName", "spec.signerName", NONE)]),
    KindColumns::new("certificates.k8s.io", "PodCertificateRequest").with(&[
        name(),
        text("PodName", "spec.podName"),
        text("ServiceAccountName", "spec.serviceAccountName"),
        text("NodeName", "spec.nodeName"),
        text("SignerName", "spec.signerName"),
        computed("State", &["status.conditions.type"], |view| {
            let conditions = view.at("status.conditions").items().iter().rev();
            let mut types = conditions.map(|found| found.member("type").text());
            let outcome = types.find(|name| matches!(*name, "Issued" | "Denied" | "Failed"));
            outcome.unwrap_or("Pending").into()
        }),
        shown(
            "UnverifiedUserAnnotations",
            "spec.unverifiedUserAnnotations",
            labels,
        ),
    ]),
    KindColumns::new(ADMISSION, "MutatingWebhookConfiguration").with(WEBHOOKS),
    KindColumns::new(ADMISSION, "ValidatingWebhookConfiguration").with(WEBHOOKS),
    KindColumns::new(ADMISSION, "ValidatingAdmissionPolicy").with(&[
        name(),
        length("Validations", "spec.validations"),
        PARAM_KIND,
        age(),
    ]),
    KindColumns::new(ADMISSION, "MutatingAdmissionPolicy").with(&[
        name(),
        length("Mutations", "spec.mutations"),
        PARAM_KIND,
        age(),
    ]),
    KindColumns::new(ADMISSION, "ValidatingAdmissionPolicyBinding").with(POLICY_BINDING),
    KindColumns::new(ADMISSION, "MutatingAdmissionPolicyBinding").with(POLICY_BINDING),
];

fn subjects(subjects: &JsonNode<'_>, kind: &str) -> Cell {
    let subjects = subjects.items().iter();
    let subjects = subjects.filter(|subject| subject.member("kind").text() == kind);
    let shown = subjects.map(|subject| {
        let text = |name| subject.member(name).text();
        match kind {
            "ServiceAccount" => format!("{}/{}", text("namespace"), text("name")),
            _ => text("name").to_owned(),
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

fn parameter(reference: &JsonNode<'_>) -> Cell {
    let text = |name| reference.member(name).text();
    match (text("name"), text("namespace")) {
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
