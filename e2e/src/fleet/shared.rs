//! One fleet for several tests at a time.

use std::{
    ops::Deref,
    sync::{Arc, Weak},
};

use anyhow::Result;
use tokio::sync::Mutex;

use super::{Fleet, Options, idle};

static SHARED: Mutex<Vec<Weak<SharedFleet>>> = Mutex::const_new(Vec::new());

/// A fleet that several tests use. When the last of them drops it, it is [kept](idle::keep) for
/// another one.
#[derive(Debug)]
pub struct SharedFleet {
    options: Options,
    fleet: Arc<Fleet>,
}

impl Fleet {
    /// The fleet that tests of this program with equal options share; the first caller starts it.
    ///
    /// Use [`unique`](super::unique) names, and do not stop servers that other tests use: a test
    /// that does starts its own fleet.
    pub async fn shared(options: Options) -> Result<Arc<SharedFleet>> {
        let mut shared = SHARED.lock().await;
        shared.retain(|fleet| fleet.strong_count() > 0);
        let mut in_use = shared.iter().filter_map(Weak::upgrade);
        if let Some(fleet) = in_use.find(|fleet| fleet.options == options) {
            return Ok(fleet);
        }
        let fleet = match idle::take(&options) {
            Some(fleet) => fleet,
            None => Arc::new(Self::start(options.clone()).await?),
        };
        let fleet = Arc::new(SharedFleet { options, fleet });
        shared.push(Arc::downgrade(&fleet));
        Ok(fleet)
    }
}

impl Deref for SharedFleet {
    type Target = Fleet;

    fn deref(&self) -> &Fleet {
        &self.fleet
    }
}

impl Drop for SharedFleet {
    fn drop(&mut self) {
        idle::keep(self.options.clone(), Arc::clone(&self.fleet));
    }
}
