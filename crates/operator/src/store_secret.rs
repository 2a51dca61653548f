//! What the Secret of a store holds: a login, a token or access keys, and the login at a proxy.
//!
//! Guarantee: a request carries one kind of credentials. A Secret with two of them is refused, as a
//! choice between them could use one that its owner has given up.

use fleetdex_crds::registry::SecretReference;
use fleetdex_store::opensearch::{Authentication, AwsKeys};
use fleetdex_sync::pipeline::Unavailable;
use k8s_openapi::{ByteString, api::core::v1::Secret};

/// The reason of a condition: the Secret holds no credentials that can be used.
pub(super) const INVALID_SECRET: &str = "InvalidSecret";

const USER: [&str; 2] = ["username", "userName"];
const PASSWORD: &str = "password";
const TOKEN: &str = "token";
const ACCESS_KEY_ID: &str = "accessKeyID";
const SECRET_ACCESS_KEY: &str = "secretAccessKey";
const SESSION_TOKEN: &str = "sessionToken";
const PROXY_USER: &str = "proxyUsername";
const PROXY_PASSWORD: &str = "proxyPassword";

/// A Secret that a registry names.
pub(super) struct StoreSecret {
    pub reference: SecretReference,
    pub secret: Secret,
}

impl StoreSecret {
    /// User and password, or a bearer token.
    pub fn login(&self) -> Result<Authentication, Unavailable> {
        let has_token = self.has(TOKEN);
        let has_login = USER.iter().any(|key| self.has(key)) || self.has(PASSWORD);
        match (has_token, has_login) {
            (true, true) => Err(self.invalid(
                "has a token as well as username or password, and a request carries only one of these: remove token, or username and password",
            )),
            (true, false) => self.word(TOKEN).map(Authentication::Bearer),
            (false, true) => Ok(Authentication::Basic {
                user: self.text(&USER)?,
                password: self.text(&[PASSWORD])?,
            }),
            (false, false) if self.has(ACCESS_KEY_ID) => Err(self.invalid(
                "has access keys of AWS, which need backendStore.openSearch.aws with a region",
            )),
            (false, false) => Err(self.invalid("has no key username or userName, and no token")),
        }
    }

    /// Access keys of AWS; `None` if the Secret has only what a proxy needs.
    pub fn aws_keys(&self) -> Result<Option<AwsKeys>, Unavailable> {
        let others = [USER[0], USER[1], PASSWORD, TOKEN];
        if let Some(other) = others.iter().find(|key| self.has(key)) {
            return Err(self.invalid(&format!(
                "has the key {other}, but requests are signed: remove it, or backendStore.openSearch.aws"
            )));
        }
        if self.is_only_for_proxy() {
            return Ok(None);
        }
        if !self.has(ACCESS_KEY_ID) && !self.has(SECRET_ACCESS_KEY) {
            return Err(self.invalid(
                "has no keys accessKeyID and secretAccessKey; remove secretRef to sign with the role of the Pod",
            ));
        }
        let session_token = self.has(SESSION_TOKEN).then(|| self.word(SESSION_TOKEN));
        Ok(Some(AwsKeys {
            access_key_id: self.word(ACCESS_KEY_ID)?,
            secret_access_key: self.word(SECRET_ACCESS_KEY)?,
            session_token: session_token.transpose()?,
        }))
    }

    /// User and password at the proxy, if there are any.
    pub fn proxy_login(&self) -> Result<Option<(String, String)>, Unavailable> {
        if !self.has(PROXY_USER) && !self.has(PROXY_PASSWORD) {
            return Ok(None);
        }
        Ok(Some((
            self.text(&[PROXY_USER])?,
            self.text(&[PROXY_PASSWORD])?,
        )))
    }

    /// Whether it has a login at a proxy, and no other credentials.
    pub fn is_only_for_proxy(&self) -> bool {
        let others = [
            USER[0],
            USER[1],
            PASSWORD,
            TOKEN,
            ACCESS_KEY_ID,
            SECRET_ACCESS_KEY,
            SESSION_TOKEN,
        ];
        self.has(PROXY_USER) && !others.iter().any(|key| self.has(key))
    }

    /// The value of the first of the keys that the Secret has, as text.
    pub fn text(&self, keys: &[&str]) -> Result<String, Unavailable> {
        let data = self.secret.data.as_ref();
        let value = keys
            .iter()
            .find_map(|key| data.and_then(|data| data.get(*key)));
        let keys = keys.join(" or ");
        let Some(ByteString(bytes)) = value else {
            return Err(self.invalid(&format!("has no key {keys}")));
        };
        String::from_utf8(bytes.clone())
            .map_err(|_| self.invalid(&format!("is not UTF-8 text at key {keys}")))
    }

    /// A value without the white space around it, such as the line break of a file.
    fn word(&self, key: &str) -> Result<String, Unavailable> {
        let text = self.text(&[key])?;
        match text.trim() {
            "" => Err(self.invalid(&format!("is empty at key {key}"))),
            word => Ok(word.to_owned()),
        }
    }

    fn has(&self, key: &str) -> bool {
        let data = self.secret.data.as_ref();
        data.is_some_and(|data| data.contains_key(key))
    }

    fn invalid(&self, problem: &str) -> Unavailable {
        let SecretReference { namespace, name } = &self.reference;
        Unavailable {
            reason: INVALID_SECRET,
            message: format!("Secret {namespace}/{name}: {problem}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(keys: &[(&str, &str)], read: impl Fn(&StoreSecret) -> T) -> T {
        let reference = SecretReference {
            namespace: "search".to_owned(),
            name: "s".to_owned(),
        };
        let data = keys
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
            .collect();
        read(&StoreSecret {
            reference,
            secret: Secret {
                data: Some(data),
                ..Secret::default()
            },
        })
    }

    fn login(keys: &[(&str, &str)]) -> Result<Authentication, String> {
        with(keys, StoreSecret::login).map_err(|unavailable| {
            assert_eq!(unavailable.reason, "InvalidSecret");
            unavailable.message
        })
    }

    fn aws_keys(keys: &[(&str, &str)]) -> Result<Option<AwsKeys>, String> {
        with(keys, StoreSecret::aws_keys).map_err(|unavailable| unavailable.message)
    }

    #[test]
    fn a_login_is_user_and_password_or_a_token() {
        for user in ["username", "userName"] {
            let basic = login(&[(user, "u"), ("password", "p ")]).unwrap();
            let expected = Authentication::Basic {
                user: "u".to_owned(),
                password: "p ".to_owned(),
            };
            assert!(basic == expected);
        }
        let bearer = login(&[("token", "t\n"), ("proxyUsername", "u")]).unwrap();
        assert!(bearer == Authentication::Bearer("t".to_owned()));
    }

    #[test]
    fn a_secret_without_one_kind_of_credentials_is_refused() {
        let both = "has a token as well as username or password";
        for (keys, problem) in [
            (&["token", "username", "password"][..], both),
            (&["token", "userName"], both),
            (&["token", "password"], both),
            (&["username"], "has no key password"),
            (&["password"], "has no key username or userName"),
            (&["user"], "has no key username or userName, and no token"),
            (&["proxyUsername"], "and no token"),
            (
                &["accessKeyID", "secretAccessKey"],
                "need backendStore.openSearch.aws",
            ),
        ] {
            let keys: Vec<(&str, &str)> = keys.iter().map(|key| (*key, "hunter2")).collect();
            let error = login(&keys).err().unwrap();
            assert!(error.starts_with("Secret search/s: "), "{error}");
            assert!(
                error.contains(problem) && !error.contains("hunter2"),
                "{error}"
            );
        }
        let empty = login(&[("token", " ")]).err().unwrap();
        assert!(empty.contains("is empty at key token"), "{empty}");
    }

    #[test]
    fn access_keys_are_complete_or_left_to_the_role_of_the_pod() {
        let keys = [
            ("accessKeyID", "id\n"),
            ("secretAccessKey", "key"),
            ("sessionToken", "session"),
        ];
        let read = aws_keys(&keys).unwrap().unwrap();
        let expected = AwsKeys {
            access_key_id: "id".to_owned(),
            secret_access_key: "key".to_owned(),
            session_token: Some("session".to_owned()),
        };
        assert_eq!(read, expected);
        assert_eq!(aws_keys(&keys[..2]).unwrap().unwrap().session_token, None);
        let proxy = [("proxyUsername", "u"), ("proxyPassword", "p")];
        assert_eq!(aws_keys(&proxy).unwrap(), None);
        for (keys, problem) in [
            (&["accessKeyID"][..], "has no key secretAccessKey"),
            (&["secretAccessKey"], "has no key accessKeyID"),
            (
                &["accessKeyId", "secretAccesskey"],
                "has no keys accessKeyID and",
            ),
            (&["sessionToken"], "has no keys accessKeyID and"),
            (&["accessKeyID", "token"], "has the key token"),
            (&["username", "password"], "has the key username"),
            (&[], "remove secretRef"),
        ] {
            let keys: Vec<(&str, &str)> = keys.iter().map(|key| (*key, "v")).collect();
            let error = aws_keys(&keys).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_proxy_has_user_and_password_or_neither() {
        let read = |keys: &[(&str, &str)]| with(keys, StoreSecret::proxy_login);
        assert_eq!(read(&[("username", "u")]).unwrap(), None);
        let both = [("proxyUsername", "u"), ("proxyPassword", "p")];
        let expected = ("u".to_owned(), "p".to_owned());
        assert_eq!(read(&both).unwrap(), Some(expected));
        for half in &both {
            assert!(read(&[*half]).is_err(), "{half:?}");
        }
    }
}
