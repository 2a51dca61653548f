//! Whether Karmada itself distributes here: two that do would undo each other's work.

use std::time::Duration;

use fleetdex_core::model::causes;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio::{sync::watch, time::sleep};
use tokio_util::task::AbortOnDropHandle;

/// The Leases of Karmada's controllers and scheduler.
const LEASES: [(&str, &str); 2] = [
    ("karmada-system", "karmada-controller-manager"),
    ("karmada-system", "karmada-scheduler"),
];
/// How often to look.
const INTERVAL: Duration = Duration::from_secs(30);
/// A Lease that was not renewed for so long has no holder; Karmada renews its Leases every few
/// seconds.
const EXPIRED: Duration = Duration::from_mins(1);
const TIMEOUT: Duration = Duration::from_secs(5);

/// Looks whether Karmada distributes, until it is dropped.
pub struct KarmadaWatch {
    /// Whether it does; before that is known, it does.
    pub distributes: watch::Receiver<bool>,
    _task: AbortOnDropHandle<()>,
}

/// Looks whether Karmada distributes on a control plane.
pub fn watch(control_plane: Client) -> KarmadaWatch {
    let (sender, distributes) = watch::channel(true);
    let karmada = Karmada { control_plane };
    KarmadaWatch {
        distributes,
        _task: AbortOnDropHandle::new(tokio::spawn(karmada.look(sender))),
    }
}

struct Karmada {
    control_plane: Client,
}

impl Karmada {
    async fn look(self, distributes: watch::Sender<bool>) {
        let mut reported = false;
        loop {
            // If that cannot be determined, the last answer holds.
            let mut pause = INTERVAL;
            match self.holder().await {
                Ok(Some(lease)) => {
                    if !std::mem::replace(&mut reported, true) {
                        tracing::warn!(
                            %lease,
                            "Karmada's own controllers run on this control plane, so --distribute has no \
                             effect: stop karmada-controller-manager and karmada-scheduler, or leave \
                             distribution to them"
                        );
                    }
                    distributes.send_replace(true);
                }
                Ok(None) => {
                    reported = false;
                    distributes.send_replace(false);
                }
                Err(()) => pause = TIMEOUT,
            }
            sleep(pause).await;
        }
    }

    /// The Lease of Karmada that is being renewed.
    async fn holder(&self) -> Result<Option<String>, ()> {
        for (namespace, name) in LEASES {
            let leases = Api::<Lease>::namespaced(self.control_plane.clone(), namespace);
            let lease = match tokio::time::timeout(TIMEOUT, leases.get_opt(name)).await {
                Ok(Ok(lease)) => lease,
                Ok(Err(error)) => {
                    tracing::warn!(%namespace, %name, error = %causes(&error), "cannot read whether Karmada distributes here");
                    return Err(());
                }
                Err(_) => return Err(()),
            };
            let renewed = lease.and_then(|lease| lease.spec?.renew_time);
            let is_held = renewed.is_some_and(|time| {
                let age = Timestamp::now().duration_since(time.0);
                age.unsigned_abs() < EXPIRED
            });
            if is_held {
                return Ok(Some(format!("{namespace}/{name}")));
            }
        }
        Ok(None)
    }
}
