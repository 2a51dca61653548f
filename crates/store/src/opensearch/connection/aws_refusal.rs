//! What AWS answers to requests that it refuses before OpenSearch sees them.

use serde::Deserialize;

use crate::error::CLOCK_SKEW;

/// `{"message": …}` or `{"Message": …}`.
#[derive(Deserialize)]
struct AwsRefusal {
    #[serde(alias = "Message")]
    message: String,
}

/// Parts of AWS's messages, and what they mean. The messages themselves are not repeated: any
/// server could send them.
/// Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html>
const MEANINGS: [(&str, &str); 8] = [
    ("Signature expired", CLOCK_SKEW),
    ("Signature not yet current", CLOCK_SKEW),
    (
        "signature we calculated does not match",
        "AWS calculates another signature: correct the secret access key, or remove a proxy that changes requests",
    ),
    (
        "security token included in the request is expired",
        "the session token has expired: renew the access keys",
    ),
    (
        "security token included in the request is invalid",
        "AWS does not know the access key, or the session token does not belong to it",
    ),
    (
        "Credential should be scoped",
        "the domain is in another region or of another service: correct aws.region or aws.service",
    ),
    (
        "User: anonymous is not authorized",
        "the domain takes signed requests only: set backendStore.openSearch.aws",
    ),
    (
        "is not authorized to perform",
        "no policy of AWS allows it: allow es:ESHttp* to this role, in the access policy of the domain or in a policy of the role",
    ),
];

/// What a refusal of AWS means; `None` if the body is none.
pub fn aws_refusal(body: &[u8]) -> Option<&'static str> {
    let AwsRefusal { message } = serde_json::from_slice(body).ok()?;
    MEANINGS
        .iter()
        .find(|(part, _)| message.contains(part))
        .map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_aws_have_a_meaning_and_are_not_repeated() {
        for (message, part) in [
            (
                "Signature expired: 20250830T123600Z is now earlier than 20250830T130000Z",
                "clock",
            ),
            (
                "Signature not yet current: 20250830T133600Z is still later than 20250830T130000Z",
                "clock",
            ),
            (
                "The request signature we calculated does not match the signature you provided. Check your key",
                "secret access key",
            ),
            (
                "The security token included in the request is expired",
                "session token has expired",
            ),
            (
                "The security token included in the request is invalid.",
                "access key",
            ),
            (
                "Credential should be scoped to a valid region. ",
                "aws.region",
            ),
            (
                "User: anonymous is not authorized to perform: es:ESHttpGet",
                "backendStore.openSearch.aws",
            ),
            (
                "User: arn:aws:sts::123456789012:assumed-role/hunter2/fleetdex is not authorized to perform: es:ESHttpGet on resource: hunter2",
                "es:ESHttp*",
            ),
        ] {
            for key in ["message", "Message"] {
                let body = serde_json::json!({ key: message }).to_string();
                let meaning = aws_refusal(body.as_bytes()).unwrap();
                assert!(meaning.contains(part), "{message}: {meaning}");
                assert!(!meaning.contains("hunter2"), "{meaning}");
            }
        }
        for other in ["", "{}", r#"{"message":"hunter2"}"#, r#"{"message":1}"#] {
            assert_eq!(aws_refusal(other.as_bytes()), None, "{other}");
        }
    }
}
