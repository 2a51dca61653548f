//! The headers that pass between a client and a member: those that are known to be harmless, and no
//! others.
//!
//! The impersonating client sets the user; no header that the caller sends may set it. A WebSocket
//! can carry a token as a sub-protocol, which is therefore removed.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Headers of a request that a member gets. `Accept` depends on whether the response is parsed
/// here.
const TO_MEMBER: [HeaderName; 1] = [header::CONTENT_TYPE];
/// Headers of an upgrade request that a member gets in addition.
const TO_MEMBER_OF_UPGRADE: [HeaderName; 5] = [
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_VERSION,
    header::SEC_WEBSOCKET_EXTENSIONS,
    HeaderName::from_static("x-stream-protocol-version"),
    header::UPGRADE,
];
/// Headers of a response that a client gets.
const TO_CLIENT: [HeaderName; 5] = [
    header::CONTENT_TYPE,
    header::RETRY_AFTER,
    header::WARNING,
    header::CACHE_CONTROL,
    HeaderName::from_static("audit-id"),
];
/// Headers of an upgrade response that a client gets in addition.
const TO_CLIENT_OF_UPGRADE: [HeaderName; 5] = [
    header::CONNECTION,
    header::UPGRADE,
    header::SEC_WEBSOCKET_ACCEPT,
    header::SEC_WEBSOCKET_PROTOCOL,
    HeaderName::from_static("x-stream-protocol-version"),
];
/// The prefix of the sub-protocol that carries a token.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Whether a request asks for an upgrade.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    let connection = headers.get_all(header::CONNECTION).iter();
    let connection = connection.filter_map(|value| value.to_str().ok());
    let mut tokens = connection.flat_map(|value| value.split(','));
    headers.contains_key(header::UPGRADE)
        && tokens.any(|token| token.trim().eq_ignore_ascii_case("upgrade"))
}

/// The header `Accept` of a request whose response is passed on.
pub fn accept(headers: &HeaderMap) -> HeaderValue {
    let accept = headers.get(header::ACCEPT).cloned();
    accept.unwrap_or(HeaderValue::from_static("*/*"))
}

/// The headers for a member.
pub fn to_member(headers: &HeaderMap, accept: &HeaderValue) -> HeaderMap {
    let mut passed = only(headers, &TO_MEMBER);
    passed.insert(header::ACCEPT, accept.clone());
    passed
}

/// The headers of an upgrade request for a member.
pub fn to_member_of_upgrade(headers: &HeaderMap) -> HeaderMap {
    let mut passed = only(headers, &TO_MEMBER_OF_UPGRADE);
    passed.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let offered = offered.filter_map(|value| value.to_str().ok());
    let protocols = offered.flat_map(|value| value.split(',')).map(str::trim);
    let harmless: Vec<&str> = protocols
        .filter(|protocol| !protocol.starts_with(TOKEN_PROTOCOL))
        .collect();
    if let Ok(value) = HeaderValue::try_from(harmless.join(", "))
        && !value.is_empty()
    {
        passed.insert(header::SEC_WEBSOCKET_PROTOCOL, value);
    }
    passed
}

/// The headers of a member's response for a client.
pub fn to_client(headers: &HeaderMap) -> HeaderMap {
    only(headers, &TO_CLIENT)
}

/// The headers of a member's upgrade response for a client.
pub fn to_client_of_upgrade(headers: &HeaderMap) -> HeaderMap {
    only(headers, &TO_CLIENT_OF_UPGRADE)
}

fn only(headers: &HeaderMap, allowed: &[HeaderName]) -> HeaderMap {
    let mut passed = HeaderMap::new();
    for name in allowed {
        for value in headers.get_all(name) {
            passed.append(name.clone(), value.clone());
        }
    }
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = lines.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        pairs.collect()
    }

    fn shown(headers: &HeaderMap) -> String {
        let line = |(name, value): (&HeaderName, &HeaderValue)| {
            format!("{name}: {}", value.to_str().unwrap())
        };
        headers.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn no_header_that_identifies_a_user_reaches_a_member() {
        let hostile = headers(&[
            ("authorization", "Bearer x"),
            ("cookie", "a=b"),
            ("host", "h"),
            ("impersonate-user", "root"),
            ("impersonate-group", "system:masters"),
            ("impersonate-extra-scopes", "all"),
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-a", "b"),
            ("x-forwarded-for", "1.2.3.4"),
            ("proxy-authorization", "Basic x"),
            ("accept", "text/html"),
            ("content-type", "application/json"),
            ("content-length", "9"),
            ("transfer-encoding", "chunked"),
        ]);
        insta::assert_snapshot!(shown(&to_member(&hostile, &HeaderValue::from_static("application/json"))), @r"
        content-type: application/json
        accept: application/json
        ");
    }

    #[test]
    fn a_token_in_a_websocket_protocol_does_not_reach_a_member() {
        let upgrade = headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-key", "k"),
            ("sec-websocket-version", "13"),
            (
                "sec-websocket-protocol",
                "base64url.bearer.authorization.k8s.io.c2VjcmV0, v5.channel.k8s.io",
            ),
            ("sec-websocket-protocol", "v4.channel.k8s.io"),
            ("authorization", "Bearer x"),
        ]);
        assert!(is_upgrade(&upgrade));
        insta::assert_snapshot!(shown(&to_member_of_upgrade(&upgrade)), @r"
        sec-websocket-key: k
        sec-websocket-version: 13
        upgrade: websocket
        connection: Upgrade
        sec-websocket-protocol: v5.channel.k8s.io, v4.channel.k8s.io
        ");
        assert!(!is_upgrade(&headers(&[
            ("connection", "keep-alive"),
            ("upgrade", "websocket")
        ])));
    }

    #[test]
    fn a_response_keeps_the_headers_that_clients_act_on() {
        let answer = headers(&[
            ("content-type", "application/json"),
            ("retry-after", "3"),
            ("warning", "299 - \"a\""),
            ("warning", "299 - \"b\""),
            ("www-authenticate", "Basic"),
            ("set-cookie", "a=b"),
            ("x-kubernetes-pf-flowschema-uid", "u"),
        ]);
        insta::assert_snapshot!(shown(&to_client(&answer)), @r#"
        content-type: application/json
        retry-after: 3
        warning: 299 - "a"
        warning: 299 - "b"
        "#);
    }
}
