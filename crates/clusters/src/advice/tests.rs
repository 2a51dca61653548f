use fleetdex_crds::cluster::LocalSecretReference;

use super::*;
use crate::member::{ApiServerEndpoint, KubeconfigSecret};

const SERVER: &str = "https://10.0.0.1:6443";

fn endpoint() -> MemberAccess {
    MemberAccess::Endpoint(ApiServerEndpoint::default())
}

fn kubeconfig() -> MemberAccess {
    MemberAccess::KubeconfigSecret(KubeconfigSecret {
        secret: LocalSecretReference {
            namespace: "capi".to_owned(),
            name: "a-kubeconfig".to_owned(),
        },
        keys: &["value"],
    })
}

fn message(failure: TlsFailure, access: &MemberAccess) -> String {
    let request = "GET /readyz".to_owned();
    let fault = fault(&RequestError::Tls { request, failure }, SERVER, access);
    assert_eq!(fault.reason, "CertificateInvalid");
    let start =
        format!("{SERVER}: GET /readyz did not get through: the certificate of the API server ");
    fault.message.strip_prefix(&start).unwrap().to_owned()
}

#[test]
fn a_certificate_that_expired_is_renewed_and_not_trusted() {
    let not_after = "2026-01-02T03:04:05Z".parse().ok();
    for access in [endpoint(), kubeconfig()] {
        assert_eq!(
            message(TlsFailure::Expired { not_after }, &access),
            "expired at 2026-01-02T03:04:05Z. Renew it on the API server"
        );
    }
    let not_before = "2027-01-02T03:04:05Z".parse().ok();
    assert_eq!(
        message(TlsFailure::NotYetValid { not_before }, &endpoint()),
        "is not valid before 2027-01-02T03:04:05Z. \
         Check the clocks of this machine and of the one that issued it, or wait"
    );
}

#[test]
fn a_certificate_for_other_names_is_shown_with_them() {
    let failure = TlsFailure::OtherName {
        expected: Some("10.0.0.1".to_owned()),
        names: vec!["kubernetes".to_owned(), "10.96.0.1".to_owned()],
    };
    let problem =
        "is not valid for 10.0.0.1, only for kubernetes, 10.96.0.1. Use a name that it has in";
    assert_eq!(
        message(failure.clone(), &endpoint()),
        format!("{problem} spec.apiEndpoint, or issue one for this name")
    );
    assert_eq!(
        message(failure, &kubeconfig()),
        format!(
            "{problem} server in the kubeconfig in Secret capi/a-kubeconfig, \
             or set tls-server-name there to a name that it has, or issue one for this name"
        )
    );
}

#[test]
fn only_an_unknown_authority_is_to_be_trusted() {
    let failure = TlsFailure::UnknownAuthority { is_namesake: false };
    assert_eq!(
        message(failure, &endpoint()),
        "is signed by an authority that is not trusted here. \
         Put the PEM certificates of its CA into key \"caBundle\" of the Secret that spec.secretRef names"
    );
    let other = message(
        TlsFailure::Certificate("it is revoked".to_owned()),
        &endpoint(),
    );
    assert!(!other.contains("caBundle"), "{other}");
}
