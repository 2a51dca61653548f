//! Keeps the serving certificate and what the control plane knows about it up to date.

use std::{path::PathBuf, sync::Arc, time::Duration};

use fleetdex_core::model::causes;
use fleetdex_telemetry::Readiness;
use kube::Client;
use rustls::{
    pki_types::{CertificateDer, pem::PemObject as _},
    sign::CertifiedKey,
};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    api_service::{self, RegistrationError, ServiceName},
    args::FrontArgs,
    certificate::{Authority, CertificateError, Content, Files, ServingCertificate, is_renewable},
    shared_authority::SharedAuthority,
    shared_secret::SecretError,
};

/// How often to look at files and at the control plane.
const INTERVAL: Duration = Duration::from_secs(30);
/// How soon to look again after a failure.
const RETRY: Duration = Duration::from_secs(5);
/// The check on `/readyz`.
const CHECK: &str = "serving certificate";

/// There is no certificate to serve with, or it could not be made known.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// Of the files or the authority.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Of the shared authority.
    #[error(transparent)]
    Authority(#[from] SecretError),
    /// Of the `APIService`.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// Neither files nor a Service.
    #[error(
        "nothing says with which certificate to serve; give --api-service, or --tls-cert-file and --tls-private-key-file"
    )]
    NoSource,
    /// TLS itself.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
}

/// By what the server of another replica is known: all serve with certificates of the same source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recognition {
    /// The authorities of its certificate, in DER.
    pub authorities: Vec<Vec<u8>>,
    /// The name that its certificate is for; without it, its address.
    pub name: Option<String>,
}

/// Where the certificate comes from, and what of it is in use.
enum Source {
    Files {
        files: Files,
        authority: Option<PathBuf>,
        used: Content,
    },
    Shared {
        authority: Box<SharedAuthority>,
        hosts: Vec<String>,
        used: Option<Authority>,
        leaf: Vec<u8>,
    },
}

/// Keeps a certificate up to date.
pub struct Keeper {
    client: Client,
    service: Option<(ServiceName, u16)>,
    certificate: Arc<ServingCertificate>,
    source: Source,
    readiness: Readiness,
    recognition: watch::Sender<Option<Recognition>>,
}

impl Keeper {
    /// Makes or reads the first certificate. While the control plane does not answer, one that nobody verifies has to do.
    pub async fn start(
        args: &FrontArgs,
        client: Client,
        readiness: Readiness,
    ) -> Result<Self, KeeperError> {
        let (first, source) = match (
            &args.tls_cert_file,
            &args.tls_private_key_file,
            &args.api_service,
        ) {
            (Some(certificate), Some(key), _) => {
                let files = Files {
                    certificate: certificate.clone(),
                    key: key.clone(),
                };
                let used = files.read().await?;
                (
                    files.certified(&used)?,
                    Source::Files {
                        files,
                        authority: args.tls_ca_file.clone(),
                        used,
                    },
                )
            }
            (_, _, Some(service)) => {
                let hosts = service.hosts();
                let authority = Box::new(SharedAuthority::new(
                    client.clone(),
                    &service.namespace,
                    &args.serving_secret,
                ));
                (
                    Authority::make(None)?.sign(&hosts)?,
                    Source::Shared {
                        authority,
                        hosts,
                        used: None,
                        leaf: Vec::new(),
                    },
                )
            }
            _ => return Err(KeeperError::NoSource),
        };
        let service = args
            .api_service
            .clone()
            .map(|service| (service, args.api_service_port));
        let certificate = ServingCertificate::new(first);
        let mut keeper = Self {
            client,
            service,
            certificate,
            source,
            readiness,
            recognition: watch::Sender::new(None),
        };
        keeper.look().await;
        Ok(keeper)
    }

    /// The certificate that is kept up to date.
    pub fn certificate(&self) -> Arc<ServingCertificate> {
        Arc::clone(&self.certificate)
    }

    /// By what the replicas know one another's servers; nothing as long as this one's certificate is not what it should be.
    pub fn recognition(&self) -> watch::Receiver<Option<Recognition>> {
        self.recognition.subscribe()
    }

    /// Looks again and again until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut pause = INTERVAL;
        while cancel.run_until_cancelled(sleep(pause)).await.is_some() {
            pause = match cancel.run_until_cancelled(self.look()).await {
                Some(true) => INTERVAL,
                _ => RETRY,
            };
        }
    }

    /// Whether everything is as it should be.
    async fn look(&mut self) -> bool {
        let looked = self.update().await;
        match &looked {
            Ok(()) => self.readiness.ready(CHECK),
            Err(error) => {
                let problem = causes(error);
                tracing::warn!(error = problem, "the serving certificate is not up to date");
                let nobody_verifies_it = matches!(&self.source, Source::Shared { used: None, .. });
                if nobody_verifies_it {
                    self.readiness.not_ready(CHECK, problem);
                } else {
                    self.readiness.degraded(CHECK, problem);
                }
            }
        }
        looked.is_ok()
    }

    async fn update(&mut self) -> Result<(), KeeperError> {
        let Self {
            client,
            service,
            certificate,
            source,
            recognition,
            ..
        } = self;
        let name = service
            .as_ref()
            .and_then(|(service, _)| service.hosts().into_iter().next());
        match source {
            Source::Files {
                files,
                authority,
                used,
            } => {
                let content = files.read().await?;
                if content != *used {
                    certificate.replace(files.certified(&content)?);
                    *used = content;
                    tracing::info!(
                        "serving with a new certificate from {}",
                        files.certificate.display()
                    );
                }
                let authority = match authority {
                    Some(path) => Some(read_text(path).await?),
                    None => None,
                };
                // Without an authority, one that has signed itself is known by what it is.
                let pem = authority
                    .as_deref()
                    .map_or_else(|| used.certificate_pem(), str::as_bytes);
                recognition.send_replace(Some(Recognition {
                    authorities: der(pem),
                    name,
                }));
                register(client, service.as_ref(), authority.as_deref()).await?;
            }
            Source::Shared {
                authority,
                hosts,
                used,
                leaf,
            } => {
                let current = authority.current().await?;
                recognition.send_replace(Some(Recognition {
                    authorities: der(current.certificates.as_bytes()),
                    name,
                }));
                // Before anything of it is shown: the control plane has to know it by then.
                register(client, service.as_ref(), Some(&current.certificates)).await?;
                if used.as_ref() != Some(&current) || is_renewable(leaf) {
                    let signed: CertifiedKey = current.sign(hosts)?;
                    *leaf = signed
                        .cert
                        .first()
                        .map(|der| der.to_vec())
                        .unwrap_or_default();
                    certificate.replace(signed);
                    *used = Some(current);
                    tracing::info!(hosts = hosts.join(","), "serving with a new certificate");
                }
            }
        }
        Ok(())
    }
}

fn der(pem: &[u8]) -> Vec<Vec<u8>> {
    CertificateDer::pem_slice_iter(pem)
        .filter_map(Result::ok)
        .map(|der| der.to_vec())
        .collect()
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
