//! Notices that the credentials or the settings of a store have changed.

use std::time::Duration;

use super::OpenStore;

/// The interval between reads of a store's Secret. The chart grants `get` of single Secrets and no
/// watch; one small read in this time costs the control plane nothing, and new credentials are in
/// use within seconds.
const SETTINGS_INTERVAL: Duration = Duration::from_secs(2);
/// The timeout for reading a Secret from the control plane.
const SETTINGS_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits until the store has to be opened again, as its credentials or settings differ from those
/// that it was last opened with.
pub(super) async fn until_changed(opener: &dyn OpenStore) {
    loop {
        tokio::time::sleep(SETTINGS_INTERVAL).await;
        let changed = tokio::time::timeout(SETTINGS_TIMEOUT, opener.changed()).await;
        if changed == Ok(true) {
            return;
        }
    }
}
