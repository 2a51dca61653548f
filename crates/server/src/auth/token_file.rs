//! The token of a loopback server: created at start, stored in a file that only its owner can read,
//! removed at the end.

use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use sha2::{Digest, Sha256};

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;
/// Only the owner can read and write.
const FILE_MODE: u32 = 0o600;
/// Only the owner can enter.
const FOLDER_MODE: u32 = 0o700;

/// The token file cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The system refuses.
    #[error("cannot write the token file {}; choose another with --token-file", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder belongs to another user, who could replace the file.
    #[error("the folder {} belongs to another user; choose another place with --token-file", .folder.display())]
    ForeignFolder {
        /// The folder.
        folder: PathBuf,
    },
}

/// A token in its file. Dropping it removes the file, unless another server has replaced the token.
pub struct TokenFile {
    path: PathBuf,
    token: String,
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TokenFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl TokenFile {
    /// Creates a token and writes it. An old file is replaced atomically: readers see the old or
    /// the new token.
    pub fn create(path: &Path) -> Result<Self, TokenFileError> {
        let failed = |source| TokenFileError::Write {
            path: path.to_owned(),
            source,
        };
        let token = URL_SAFE_NO_PAD.encode(rand::random::<[u8; TOKEN_BYTES]>());
        let folder = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let folder = folder.unwrap_or_else(|| Path::new("."));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(folder)
            .map_err(failed)?;
        let temporary = folder.join(format!(".token-{:016x}", rand::random::<u64>()));
        let written = write(&temporary, path, folder, &token);
        if written.is_err() {
            // It was never created, or has been renamed already; the first error is returned.
            let _removed = fs::remove_file(&temporary);
        }
        match written {
            Ok(true) => Ok(Self {
                path: path.to_owned(),
                token,
            }),
            Ok(false) => {
                let _removed = fs::remove_file(&temporary);
                Err(TokenFileError::ForeignFolder {
                    folder: folder.to_owned(),
                })
            }
            Err(source) => Err(failed(source)),
        }
    }

    /// Verifies that requests carry the token.
    pub fn verifier(&self) -> TokenVerifier {
        TokenVerifier::new(&self.token)
    }

    /// The token.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        let is_ours = fs::read_to_string(&self.path).is_ok_and(|text| text == self.token);
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the token file");
        }
    }
}

/// Writes a temporary file and renames it; `false` if the folder belongs neither to root nor to the
/// process's user, who is the owner of the temporary file.
fn write(temporary: &Path, path: &Path, folder: &Path, token: &str) -> io::Result<bool> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(temporary)?;
    let owner = fs::metadata(folder)?.uid();
    if owner != 0 && owner != file.metadata()?.uid() {
        return Ok(false);
    }
    file.write_all(token.as_bytes())?;
    fs::rename(temporary, path)?;
    Ok(true)
}

/// Verifies a token. Stores and compares hashes, so that timing reveals nothing about the token.
#[derive(Clone, Debug)]
pub struct TokenVerifier([u8; 32]);

impl TokenVerifier {
    /// Accepts this token only.
    pub fn new(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Whether the value of an `Authorization` header carries the token: as a bearer token, or as
    /// the password of any user, because kubectl sends no token to a server without TLS, but the
    /// password of its URL.
    pub fn accepts(&self, authorization: Option<&str>) -> bool {
        let presented = authorization.and_then(presented).unwrap_or_default();
        let digest: [u8; 32] = Sha256::digest(presented).into();
        let pairs = self.0.iter().zip(digest);
        pairs.fold(0, |sum, (ours, theirs)| sum | (ours ^ theirs)) == 0
    }
}

fn presented(authorization: &str) -> Option<String> {
    let (scheme, credentials) = authorization.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(credentials.trim().to_owned());
    }
    let decoded = scheme
        .eq_ignore_ascii_case("basic")
        .then(|| STANDARD.decode(credentials.trim()).ok())??;
    let text = String::from_utf8(decoded).ok()?;
    text.split_once(':')
        .map(|(_user, password)| password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_private_and_is_removed_with_its_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/er/token");
        let token_file = TokenFile::create(&path).unwrap();
        let token = fs::read_to_string(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777,
            0o700
        );
        assert_eq!(URL_SAFE_NO_PAD.decode(&token).unwrap().len(), 32);
        assert!(
            token_file
                .verifier()
                .accepts(Some(&format!("Bearer {token}")))
        );
        drop(token_file);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn a_second_server_replaces_the_file_and_the_first_does_not_remove_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "left behind by a crash, readable for everyone").unwrap();
        let first = TokenFile::create(&path).unwrap();
        let second = TokenFile::create(&path).unwrap();
        drop(first);
        let token = fs::read_to_string(&path).unwrap();
        assert!(second.verifier().accepts(Some(&format!("bearer {token}"))));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_cannot_be_written_names_the_flag() {
        let folder = tempfile::tempdir().unwrap();
        let blocked = folder.path().join("file");
        fs::write(&blocked, "").unwrap();
        let error = TokenFile::create(&blocked.join("token")).unwrap_err();
        assert!(error.to_string().contains("--token-file"), "{error}");
        fs::create_dir(folder.path().join("token")).unwrap();
        assert!(TokenFile::create(&folder.path().join("token")).is_err());
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            2,
            "a temporary file was left behind"
        );
    }

    #[test]
    fn only_the_token_itself_is_accepted() {
        let verifier = TokenVerifier::new("secret");
        assert!(verifier.accepts(Some("Bearer secret")));
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert!(verifier.accepts(Some(&basic("anybody:secret"))));
        for refused in [
            basic("secret"),
            basic("secret:"),
            basic("a:b:secret"),
            "Basic !".to_owned(),
        ] {
            assert!(!verifier.accepts(Some(&refused)), "{refused:?}");
        }
        for refused in [
            None,
            Some(""),
            Some("secret"),
            Some("Bearer"),
            Some("Bearer "),
            Some("Basic secret"),
            Some("Bearer secre"),
        ] {
            assert!(!verifier.accepts(refused), "{refused:?}");
        }
    }
}
