//! Certificate authorities, server and client certificates, and keys, all made in memory.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, both as PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key (PKCS #8).
    pub key: String,
}

impl Authority {
    /// Makes an authority with that common name.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = named(name, None, &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().context("generating a CA key")?;
        let certificate = params
            .self_signed(&key)
            .context("signing a CA certificate")?;
        Ok(Self {
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        })
    }

    /// Its certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for servers on loopback, which also serves as a client certificate.
    pub fn server(&self, name: &str) -> Result<Identity> {
        self.server_at(name, &["localhost", "127.0.0.1", "kubernetes.default.svc"])
    }

    /// A certificate for servers of these host names and addresses.
    pub fn server_at(&self, name: &str, hosts: &[&str]) -> Result<Identity> {
        self.issue(named(name, None, hosts)?)
    }

    /// A client certificate: `name` is the user, its organization is the user's group.
    pub fn client(&self, name: &str, group: Option<&str>) -> Result<Identity> {
        self.issue(named(name, group, &[])?)
    }

    fn issue(&self, mut params: CertificateParams) -> Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if !params.subject_alt_names.is_empty() {
            params
                .extended_key_usages
                .push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().context("generating a key")?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .context("signing a certificate")?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

impl Identity {
    /// Writes `<name>.crt` and `<name>.key` into `folder` and returns their paths.
    pub fn write(&self, folder: &Path, name: &str) -> Result<(PathBuf, PathBuf)> {
        let certificate = folder.join(format!("{name}.crt"));
        let key = folder.join(format!("{name}.key"));
        write(&certificate, &self.certificate)?;
        write_private(&key, &self.key)?;
        Ok((certificate, key))
    }
}

/// A key pair for signing service account tokens: private and public part as PEM.
pub fn signing_key() -> Result<(String, String)> {
    let key = KeyPair::generate().context("generating a service account key")?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

/// Writes a world-readable file.
pub fn write(path: &Path, content: &str) -> Result<()> {
    fs::write(path, content).with_context(|| format!("writing {}", path.display()))
}

/// Writes a file with mode 0600.
pub fn write_private(path: &Path, content: &str) -> Result<()> {
    let open = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path);
    let written = open.and_then(|mut file| file.write_all(content.as_bytes()));
    written.with_context(|| format!("writing {}", path.display()))
}

fn named(name: &str, group: Option<&str>, hosts: &[&str]) -> Result<CertificateParams> {
    let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut params = CertificateParams::new(hosts).context("certificate host names")?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(organization) = group {
        params
            .distinguished_name
            .push(DnType::OrganizationName, organization);
    }
    Ok(params)
}
