//! Rotates the serving certificate, and keeps the `APIService` up to date with it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use fleetdex_core::model::causes;
use fleetdex_telemetry::metrics::{CertificateInUse, CertificateUse};
use kube::Client;
use rustls::{
    pki_types::{CertificateDer, pem::PemObject as _},
    sign::CertifiedKey,
};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    api_service::{self, RegistrationError, ServiceName},
    args::SecureServingArgs,
    certificate::{
        CertificateAuthority, CertificateError, KeyPairFiles, KeyPairPem, ServingCertificate,
        is_renewable,
    },
    shared_authority::SharedAuthority,
    shared_secret::SecretError,
};
use crate::telemetry::Telemetry;

/// Interval between checks of the files and the control plane.
const INTERVAL: Duration = Duration::from_secs(30);
/// Pause after a failed check.
const CERTIFICATE_RETRY: Duration = Duration::from_secs(5);
/// The check on `/readyz`.
const CHECK: &str = "serving certificate";

/// The serving certificate cannot be created, read or registered.
#[derive(Debug, thiserror::Error)]
pub enum CertificateRotationError {
    /// The certificate cannot be read or signed.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The shared certificate authority cannot be read or written.
    #[error(transparent)]
    CertificateAuthority(#[from] SecretError),
    /// The `APIService` cannot be written.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// Neither files nor a Service are configured.
    #[error(
        "no serving certificate is configured; give --api-service, or --tls-cert-file and --tls-private-key-file"
    )]
    NoSource,
    /// rustls refuses the configuration.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
}

/// How to verify the server of another replica: the certificates of all replicas have one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTrust {
    /// The certificate authorities, in DER.
    pub authorities: Vec<Vec<u8>>,
    /// The name to verify; `None`: the replica's address.
    pub name: Option<String>,
}

/// Where the certificate comes from, and what is in use.
enum CertificateSource {
    Files {
        files: KeyPairFiles,
        authority: Option<PathBuf>,
        /// Whether another program writes the `caBundle`.
        leaves_ca_bundle: bool,
        current: KeyPairPem,
    },
    Shared {
        authority: Box<SharedAuthority>,
        hosts: Vec<String>,
        current: Option<CertificateAuthority>,
        leaf: Vec<u8>,
    },
}

/// Rotates the serving certificate.
pub struct CertificateRotation {
    client: Client,
    service: Option<(ServiceName, u16)>,
    pub(super) certificate: Arc<ServingCertificate>,
    source: CertificateSource,
    telemetry: Telemetry,
    in_use: Option<CertificateInUse>,
    /// How to verify other replicas; `None` until the certificate's source has been read.
    pub(super) peer_trust: watch::Sender<Option<PeerTrust>>,
}

impl CertificateRotation {
    /// Creates or reads the first certificate. While the control plane does not respond, the server
    /// uses one that no client can verify.
    pub async fn start(
        args: &SecureServingArgs,
        client: Client,
        telemetry: Telemetry,
    ) -> Result<Self, CertificateRotationError> {
        let (first, source) = CertificateSource::open(args, &client).await?;
        let service = args.api_service.clone();
        let service = service.map(|service| (service, args.api_service_port));
        let certificate = ServingCertificate::new(first);
        let mut rotation = Self {
            client,
            service,
            certificate,
            source,
            telemetry,
            in_use: None,
            peer_trust: watch::Sender::new(None),
        };
        rotation.check().await;
        Ok(rotation)
    }

    /// Checks the certificate periodically until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut pause = INTERVAL;
        while cancel.run_until_cancelled(sleep(pause)).await.is_some() {
            pause = match cancel.run_until_cancelled(self.check()).await {
                Some(true) => INTERVAL,
                _ => CERTIFICATE_RETRY,
            };
        }
    }

    /// Updates the certificate and reports readiness; `false` if that failed.
    async fn check(&mut self) -> bool {
        let updated = self.update().await;
        let Telemetry {
            metrics, readiness, ..
        } = &self.telemetry;
        self.in_use = self
            .certificate
            .not_after()
            .map(|not_after| metrics.certificate_in_use(CertificateUse::Serving, "", not_after));
        match &updated {
            Ok(()) => readiness.ready(CHECK),
            Err(error) => {
                let problem = causes(error);
                tracing::warn!(error = problem, "cannot update the serving certificate");
                match &self.source {
                    // No client can verify the certificate.
                    CertificateSource::Shared { current: None, .. } => {
                        readiness.not_ready(CHECK, problem);
                    }
                    _ => readiness.degraded(CHECK, problem),
                }
            }
        }
        updated.is_ok()
    }

    async fn update(&mut self) -> Result<(), CertificateRotationError> {
        let service = self.service.as_ref();
        let name = service.and_then(|(service, _)| service.hosts().into_iter().next());
        let trust = |pem: &[u8]| PeerTrust {
            authorities: der(pem),
            name,
        };
        match &mut self.source {
            CertificateSource::Files {
                files,
                authority,
                leaves_ca_bundle,
                current,
            } => {
                let key_pair = files.read().await?;
                if key_pair != *current {
                    self.certificate.replace(files.certified(&key_pair)?);
                    *current = key_pair;
                    tracing::info!(
                        "serving with a new certificate from {}",
                        files.certificate.display()
                    );
                }
                let authority = match authority {
                    Some(path) => Some(read_text(path).await?),
                    None => None,
                };
                // Without an authority, a self-signed certificate is its own.
                let own = || current.certificate.as_slice();
                let pem = authority.as_deref().map_or_else(own, str::as_bytes);
                self.peer_trust.send_replace(Some(trust(pem)));
                let ca_bundle = authority.as_deref().filter(|_| !*leaves_ca_bundle);
                register(&self.client, service, ca_bundle).await?;
            }
            CertificateSource::Shared {
                authority,
                hosts,
                current,
                leaf,
            } => {
                let shared = authority.current().await?;
                let trusted = trust(shared.certificates.as_bytes());
                self.peer_trust.send_replace(Some(trusted));
                // The control plane must know the authority before it meets its certificates.
                register(&self.client, service, Some(&shared.certificates)).await?;
                if current.as_ref() != Some(&shared) || is_renewable(leaf) {
                    let signed: CertifiedKey = shared.sign(hosts)?;
                    let first = signed.cert.first();
                    *leaf = first.map(|der| der.to_vec()).unwrap_or_default();
                    self.certificate.replace(signed);
                    *current = Some(shared);
                    tracing::info!(hosts = hosts.join(","), "serving with a new certificate");
                }
            }
        }
        Ok(())
    }
}

impl CertificateSource {
    /// The source that the arguments name, with its first certificate.
    async fn open(
        args: &SecureServingArgs,
        client: &Client,
    ) -> Result<(CertifiedKey, Self), CertificateRotationError> {
        if let (Some(certificate), Some(key)) = (&args.tls_cert_file, &args.tls_private_key_file) {
            let files = KeyPairFiles {
                certificate: certificate.clone(),
                key: key.clone(),
            };
            let current = files.read().await?;
            let first = files.certified(&current)?;
            let source = Self::Files {
                files,
                authority: args.tls_ca_file.clone(),
                leaves_ca_bundle: args.leave_ca_bundle,
                current,
            };
            return Ok((first, source));
        }
        let service = args.api_service.as_ref();
        let service = service.ok_or(CertificateRotationError::NoSource)?;
        let hosts = service.hosts();
        let (namespace, secret) = (&service.namespace, &args.serving_secret);
        let authority = SharedAuthority::new(client.clone(), namespace, secret);
        let first = CertificateAuthority::create(None)?.sign(&hosts)?;
        let source = Self::Shared {
            authority: Box::new(authority),
            hosts,
            current: None,
            leaf: Vec::new(),
        };
        Ok((first, source))
    }
}

fn der(pem: &[u8]) -> Vec<Vec<u8>> {
    let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    certificates.map(|der| der.to_vec()).collect()
}

async fn register(
    client: &Client,
    service: Option<&(ServiceName, u16)>,
    authority: Option<&str>,
) -> Result<(), RegistrationError> {
    match service {
        Some((service, port)) => api_service::register(client, service, *port, authority).await,
        None => Ok(()),
    }
}

async fn read_text(path: &PathBuf) -> Result<String, CertificateError> {
    tokio::fs::read_to_string(path)
        .await
        .map_err(|source| CertificateError::Read {
            path: path.clone(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use clap::Parser;
    use fleetdex_telemetry::{Readiness, Traces};
    use http::{Request, Response};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::Value;
    use tower::service_fn;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: SecureServingArgs,
    }

    /// A control plane that accepts everything, and the bodies that it was sent.
    fn accepting() -> (Arc<Mutex<Vec<Value>>>, Client) {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let bodies = Arc::clone(&sent);
        let service = service_fn(move |request: Request<Body>| {
            let bodies = Arc::clone(&bodies);
            async move {
                let bytes = request.into_body().collect().await.unwrap().to_bytes();
                bodies.lock().push(serde_json::from_slice(&bytes).unwrap());
                Ok::<_, Infallible>(Response::new(Body::from(bytes.to_vec())))
            }
        });
        (sent, Client::new(service, "default"))
    }

    #[tokio::test]
    async fn the_authority_of_a_file_is_registered_unless_another_program_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let issued =
            rcgen::generate_simple_self_signed(["fleetdex.search.svc".to_owned()]).unwrap();
        let write = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let certificate = write("tls.crt", issued.cert.pem());
        let key = write("tls.key", issued.signing_key.serialize_pem());
        for (more_flags, is_registered) in [(&[][..], true), (&["--leave-ca-bundle"], false)] {
            let flags = [
                "fleetdex",
                "--api-service=search/fleetdex",
                &format!("--tls-cert-file={certificate}"),
                &format!("--tls-private-key-file={key}"),
                &format!("--tls-ca-file={certificate}"),
            ];
            let args = Command::parse_from([&flags[..], more_flags].concat()).args;
            let (sent, client) = accepting();
            let telemetry = Telemetry {
                metrics: Arc::default(),
                readiness: Readiness::new(),
                traces: Traces::default(),
            };
            let rotation = CertificateRotation::start(&args, client, telemetry)
                .await
                .unwrap();
            let registered = sent.lock().last().cloned().unwrap();
            assert_eq!(
                registered["spec"]["caBundle"].is_string(),
                is_registered,
                "{registered}"
            );
            // Replicas verify each other in either case.
            let trust = rotation.peer_trust.subscribe().borrow().clone().unwrap();
            assert_eq!(trust.authorities.len(), 1);
        }
    }
}
