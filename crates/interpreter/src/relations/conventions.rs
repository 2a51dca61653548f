//! References of custom kinds in members whose name says what they refer to, wherever they are
//! below `spec`.
//!
//! Only names count that mean the same in every kind: those of Kubernetes' own types. Others are
//! not guessed at.

use fleetdex_core::model::TreeMembers;

use super::{
    found::Found,
    reference::{NamespaceRule, RUNS_AS, Referrer, Target, read},
};
use crate::{
    pod_template::is_custom,
    value::{Tree, at, list},
    walk::{self, Descend},
};

/// What is at a member of such a name.
#[derive(Clone, Copy)]
enum MemberForm {
    /// The name of the object.
    Name,
    /// A map with the object's `name`.
    Map,
    /// A list of maps with `name`.
    Maps,
    /// A map with the object's `claimName`.
    ClaimName,
}

/// Names of members, the form of what they have, the kind that they refer to, and the relation.
const CONVENTIONS: &[(&str, MemberForm, &str, &str)] = &[
    ("secretName", MemberForm::Name, "Secret", "uses"),
    ("secretRef", MemberForm::Map, "Secret", "uses"),
    ("secretKeyRef", MemberForm::Map, "Secret", "uses"),
    ("imagePullSecrets", MemberForm::Maps, "Secret", "uses"),
    ("configMapRef", MemberForm::Map, "ConfigMap", "uses"),
    ("configMapKeyRef", MemberForm::Map, "ConfigMap", "uses"),
    (
        "persistentVolumeClaim",
        MemberForm::ClaimName,
        "PersistentVolumeClaim",
        "mounts",
    ),
    (
        "serviceAccountName",
        MemberForm::Name,
        "ServiceAccount",
        RUNS_AS,
    ),
];
/// Names such as `privateKeySecretRef` count as `secretRef`.
const SECRET_SUFFIX: &str = "SecretRef";

/// Adds what members below the spec of an object of a custom kind refer to by convention.
pub(super) fn add(referrer: &Referrer<'_>, found: &mut Found<'_>) {
    if !is_custom(referrer.object) {
        return;
    }
    walk::maps(at(referrer.object, &["spec"]), &mut |value| {
        if found.is_full() {
            return Descend::No;
        }
        for (key, member) in value.as_object().into_iter().flat_map(TreeMembers::iter) {
            add_member(referrer, key, member, found);
        }
        Descend::Yes
    });
}

fn add_member(referrer: &Referrer<'_>, key: &str, value: Tree<'_>, found: &mut Found<'_>) {
    let by_suffix = key.ends_with(SECRET_SUFFIX).then_some("secretRef");
    let known = by_suffix.unwrap_or(key);
    let Some((_, form, kind, relation)) = CONVENTIONS.iter().find(|entry| entry.0 == known) else {
        return;
    };
    let target = Target {
        group: "",
        kind,
        namespace: NamespaceRule::GivenOrOwn,
        relation,
    };
    match form {
        MemberForm::Name if value.is_string() => found.add(read(referrer, value, &target)),
        MemberForm::Map if value.is_object() => found.add(read(referrer, value, &target)),
        MemberForm::Maps => list(value, &[])
            .iter()
            .filter(|item| item.is_object())
            .for_each(|item| found.add(read(referrer, item, &target))),
        MemberForm::ClaimName => found.add(read(referrer, at(value, &["claimName"]), &target)),
        MemberForm::Name | MemberForm::Map => {}
    }
}
