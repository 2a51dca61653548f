use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::*;

const REFERENCE: SecretRef<'_> = SecretRef {
    namespace: "fleet",
    name: "member1",
};

fn secret(allowed: Option<&str>) -> Secret {
    let annotations = allowed
        .map(|hosts| BTreeMap::from([(ALLOWED_HOSTS_ANNOTATION.to_owned(), hosts.to_owned())]));
    Secret {
        metadata: ObjectMeta {
            annotations,
            ..ObjectMeta::default()
        },
        ..Secret::default()
    }
}

fn checked(
    hosts: &SecretHosts,
    allowed: Option<&str>,
    host: &str,
    port: u16,
) -> Result<(), NotAllowed> {
    hosts.check(
        REFERENCE,
        &secret(allowed),
        [SecretDestination::new(host, port)],
    )
}

fn is_allowed(allowed: &str, host: &str, port: u16) -> bool {
    checked(&SecretHosts::default(), Some(allowed), host, port).is_ok()
}

#[test]
fn a_secret_is_sent_only_to_hosts_in_its_annotation() {
    for (allowed, host, port) in [
        ("os.example.com", "OS.example.com.", 9200),
        ("a, b\nos.example.com:9200", "os.example.com", 9200),
        ("*.example.com", "a.b.example.com", 1),
        ("*.example.com:443", "a.example.com", 443),
        ("10.0.0.0/8", "10.1.2.3", 6443),
        ("fd00::/8", "[fd12::1]", 6443),
        ("fd12::1", "[fd12:0::1]", 6443),
        ("[fd12::1]:6443", "fd12::1", 6443),
        ("127.0.0.1", "[::ffff:127.0.0.1]", 1),
        ("0.0.0.0/0", "8.8.8.8", 1),
        ("*", "anything", 1),
    ] {
        assert!(is_allowed(allowed, host, port), "{allowed} {host}:{port}");
    }
    for (allowed, host, port) in [
        ("", "os.example.com", 9200),
        ("os.example.com", "os.example.com.attacker.net", 9200),
        ("os.example.com:9200", "os.example.com", 9201),
        ("*.example.com", "example.com", 1),
        ("*.example.com", "badexample.com", 1),
        ("*example.com", "badexample.com", 1),
        ("a*", "ab", 1),
        ("10.0.0.0/8", "11.0.0.1", 1),
        ("10.0.0.0/8", "10.attacker.net", 1),
        ("10.0.0.0/33", "10.0.0.1", 1),
        ("::/0", "10.0.0.1", 1),
    ] {
        assert!(!is_allowed(allowed, host, port), "{allowed} {host}:{port}");
    }
}

#[test]
fn every_destination_must_be_allowed() {
    let both = ["a", "b"].map(|host| SecretDestination::new(host, 9200));
    let hosts = SecretHosts::default();
    assert!(
        hosts
            .check(REFERENCE, &secret(Some("a,b")), both.clone())
            .is_ok()
    );
    let refused = hosts
        .check(REFERENCE, &secret(Some("a")), both)
        .unwrap_err();
    assert_eq!(
        refused
            .destinations
            .iter()
            .map(SecretDestination::to_string)
            .collect::<Vec<_>>(),
        ["b:9200"]
    );
}

#[test]
fn the_error_says_what_to_do() {
    let missing = checked(&SecretHosts::default(), None, "os.example.com", 9200).unwrap_err();
    insta::assert_snapshot!(missing, @"Secret fleet/member1 may not be sent to os.example.com:9200: its annotation fleetdex.io/allowed-hosts is missing; if the credentials belong there, run: kubectl -n fleet annotate secret member1 'fleetdex.io/allowed-hosts=os.example.com:9200'");
    let another = checked(&SecretHosts::default(), Some("a"), "os.example.com", 9200).unwrap_err();
    insta::assert_snapshot!(another, @"Secret fleet/member1 may not be sent to os.example.com:9200: its annotation fleetdex.io/allowed-hosts does not list that; if the credentials belong there, add os.example.com:9200 to it");
    let injected = checked(&SecretHosts::default(), None, "a';reboot;'", 9200).unwrap_err();
    assert!(!injected.to_string().contains("kubectl"), "{injected}");
}

#[test]
fn a_flag_allows_hosts_for_secrets_and_the_mode_turns_the_check_off() {
    let allowing = |text: &str| SecretHosts {
        allowances: vec![text.parse().unwrap()],
        ..SecretHosts::default()
    };
    assert!(checked(&allowing("fleet/*=10.0.0.0/8"), None, "10.0.0.1", 6443).is_ok());
    assert!(checked(&allowing("*/*=*"), None, "anything", 1).is_ok());
    assert!(
        checked(
            &allowing("fleet/member1=10.0.0.1"),
            Some("a"),
            "10.0.0.1",
            6443
        )
        .is_ok()
    );
    assert!(checked(&allowing("fleet/member2=10.0.0.1"), None, "10.0.0.1", 6443).is_err());
    assert!(checked(&allowing("other/*=*"), None, "10.0.0.1", 6443).is_err());
    assert!(checked(&SecretHosts::off(), None, "10.0.0.1", 6443).is_ok());
    for wrong in [
        "",
        "fleet",
        "fleet/a",
        "fleet/a=",
        "fleet=a",
        "/a=b",
        "fleet/a=*b",
        "fleet/a=10.0.0.0/99",
    ] {
        assert!(wrong.parse::<SecretAllowance>().is_err(), "{wrong}");
    }
}

#[test]
fn invalid_namespaces_and_names_of_secrets_are_refused() {
    let is_valid = |namespace, name| SecretRef { namespace, name }.is_valid();
    assert!(is_valid("fleet", "member1.example.com") && is_valid("a-b", "x"));
    for (namespace, name) in [
        ("fleet", "../pods/a"),
        ("fleet", "a?b"),
        ("fleet/x", "a"),
        ("", "a"),
        ("a", ""),
        ("a", "a..b"),
        ("a", "A"),
        ("a.b", "c"),
    ] {
        assert!(!is_valid(namespace, name), "{namespace} {name}");
    }
}
