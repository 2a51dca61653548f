use std::collections::BTreeMap;

use super::*;

const CERTIFICATE: &str = include_str!("../testdata/ca.pem");

fn reference() -> LocalSecretReference {
    LocalSecretReference {
        namespace: "fleet".into(),
        name: "member1".into(),
    }
}

fn read(data: &[(&str, &str)], insecure: bool) -> Result<Credentials, CredentialsError> {
    let data: BTreeMap<_, _> = data
        .iter()
        .map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec())))
        .collect();
    let endpoint = ApiServerEndpoint {
        url: "https://a".to_owned(),
        insecure,
        ..ApiServerEndpoint::default()
    };
    Credentials::from_secret(
        &endpoint,
        &reference(),
        &Secret {
            data: Some(data),
            ..Secret::default()
        },
    )
}

fn roots(credentials: &Credentials) -> usize {
    match &credentials.trust {
        ServerTrust::Roots(roots) => roots.len(),
        other => panic!("{other:?}"),
    }
}

fn name() -> SecretName {
    SecretName(reference())
}

#[test]
fn credentials_need_a_token_and_a_ca_bundle() {
    let credentials = read(&[("token", "abc\n"), ("caBundle", CERTIFICATE)], false).unwrap();
    assert_eq!(credentials.token.as_deref(), Some("abc"));
    assert_eq!(roots(&credentials), 1);
}

#[test]
fn an_insecure_member_needs_no_bundle_and_ignores_a_broken_one() {
    assert_eq!(
        read(&[("token", "abc"), ("caBundle", "?")], true)
            .unwrap()
            .trust,
        ServerTrust::Insecure
    );
    assert_eq!(
        read(&[("token", "abc")], true).unwrap().trust,
        ServerTrust::Insecure
    );
}

#[test]
fn every_missing_or_invalid_key_has_its_error() {
    let ca = ("caBundle", CERTIFICATE);
    assert_eq!(
        read(&[ca], false).unwrap_err(),
        CredentialsError::TokenMissing(name())
    );
    assert_eq!(
        read(&[("token", " \n"), ca], false).unwrap_err(),
        CredentialsError::TokenMissing(name())
    );
    assert_eq!(
        read(&[("token", "a\nb"), ca], false).unwrap_err(),
        CredentialsError::TokenInvalid(name())
    );
    assert_eq!(
        read(&[("token", "a")], false).unwrap_err(),
        CredentialsError::CaBundleMissing(name())
    );
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for text in ["not PEM", broken] {
        let error = read(&[("token", "a"), ("caBundle", text)], false).unwrap_err();
        assert_eq!(error, CredentialsError::CaBundleInvalid(name()));
    }
}

#[test]
fn a_broken_certificate_beside_a_good_one_is_left_out() {
    let bundle =
        format!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{CERTIFICATE}");
    let credentials = read(&[("token", "a"), ("caBundle", &bundle)], false).unwrap();
    assert_eq!(roots(&credentials), 1);
}

#[test]
fn a_changed_token_is_distinguished_from_any_other_change() {
    let before = read(&[("token", "abc"), ("caBundle", CERTIFICATE)], false).unwrap();
    let renewed = read(&[("token", "abd"), ("caBundle", CERTIFICATE)], false).unwrap();
    assert!(renewed.differs_in_token_only(&before) && !before.differs_in_token_only(&before));
    assert!(
        !read(&[("token", "abd")], true)
            .unwrap()
            .differs_in_token_only(&before)
    );
    assert!(
        !Credentials {
            token: None,
            ..before.clone()
        }
        .differs_in_token_only(&before)
    );
}

#[test]
fn debug_output_and_errors_show_no_secret() {
    let credentials = read(&[("token", "hunter2"), ("caBundle", CERTIFICATE)], false).unwrap();
    assert!(!format!("{credentials:?}").contains("hunter2"));
    let error = read(&[("token", "hunter2 hunter2")], true).unwrap_err();
    assert!(!format!("{error:?} {error}").contains("hunter2"));
}
