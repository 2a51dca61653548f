//! The certificate of the server, from files that may be replaced at any time.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use fleetdex_core::model::causes;
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

/// HTTP/1.1 as ALPN calls it. The callers of interpreters use no other version.
const HTTP_1: &[u8] = b"http/1.1";

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The certificate and its intermediates.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// A certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateFilesError {
    /// A file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Invalid PEM, or a key of another certificate.
    #[error("{} and {} hold no certificate with its key: {reason}", .files.certificate.display(), .files.key.display())]
    Unusable {
        /// The files.
        files: CertificateFiles,
        /// What is wrong.
        reason: String,
    },
}

#[derive(PartialEq, Eq)]
struct PemPair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// The TLS configuration that the files hold.
pub(crate) struct FileCertificate {
    pub(crate) files: CertificateFiles,
    pem: PemPair,
    /// The configuration for new connections.
    pub(crate) config: Arc<ServerConfig>,
}

impl FileCertificate {
    pub(crate) async fn read(files: CertificateFiles) -> Result<Self, CertificateFilesError> {
        let pem = read_pair(&files).await?;
        let config = config(&files, &pem)?;
        Ok(Self { files, pem, config })
    }

    /// Reads the files again; whether there is another certificate now. On an error the previous
    /// one stays.
    pub(crate) async fn reload(&mut self) -> Result<bool, CertificateFilesError> {
        let pem = read_pair(&self.files).await?;
        if pem == self.pem {
            return Ok(false);
        }
        self.config = config(&self.files, &pem)?;
        self.pem = pem;
        Ok(true)
    }
}

async fn read_pair(files: &CertificateFiles) -> Result<PemPair, CertificateFilesError> {
    Ok(PemPair {
        certificate: read(&files.certificate).await?,
        key: read(&files.key).await?,
    })
}

async fn read(path: &Path) -> Result<Vec<u8>, CertificateFilesError> {
    tokio::fs::read(path)
        .await
        .map_err(|source| CertificateFilesError::Read {
            path: path.to_owned(),
            source,
        })
}

fn config(
    files: &CertificateFiles,
    pem: &PemPair,
) -> Result<Arc<ServerConfig>, CertificateFilesError> {
    let unusable = |reason: String| CertificateFilesError::Unusable {
        files: files.clone(),
        reason,
    };
    let chain = CertificateDer::pem_slice_iter(&pem.certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable(error.to_string()))?;
    let key =
        PrivateKeyDer::from_pem_slice(&pem.key).map_err(|error| unusable(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| unusable(causes(&error)))?;
    config.alpn_protocols = vec![HTTP_1.to_vec()];
    Ok(Arc::new(config))
}
