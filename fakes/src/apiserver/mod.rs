//! An apiserver with its etcd: objects with a history of revisions, lists in pages, watches, and
//! faults.
//!
//! One [`Server`] is one cluster. It answers as a kube-apiserver 1.36 does in what Fleetdex asks of
//! it; `e2e/tests/queries/fakes_apiserver.rs` compares the two. Deliberately different:
//!
//! - Watches have to name a resourceVersion from which they start.
//! - Field selectors know `metadata.name` and `metadata.namespace` only.
//! - [`Server::compact`] takes effect at once, on continued lists and on the watch cache. A real
//!   apiserver serves both from its caches for some time after etcd was compacted.
//! - Bookmarks and events are ordered by one counter for all resources, and a bookmark names the
//!   newest revision of all of them.
//! - Nothing but names and versions is validated, and no field is defaulted.
//! - `SubjectAccessReview`s are answered where they are among the resources: every user may do
//!   everything, but for those that [`Server::set_denied`] names.
//! - Managed fields are kept of objects that a client with a `fieldManager` has written, without
//!   times. There are no schemas: of built-in kinds, lists of objects with names are merged by
//!   name, and other lists are atomic.

mod body;
mod churn;
mod discovery;
mod edit;
mod fault;
mod fields;
mod generation;
mod handle;
mod identity;
mod list;
mod managed;
mod merge;
mod name;
mod object;
mod observer;
mod options;
mod patch;
mod request;
mod resource;
mod respond;
mod reviews;
mod serve;
mod state;
mod status;
mod store;
mod stored;
mod view;
mod watch;
mod write;

#[cfg(test)]
mod apply_tests;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

pub use body::{Body, Broken};
pub use churn::{Churn, Totals};
pub use edit::Editor;
pub use fault::{Extent, Fault, FaultKind};
pub use name::Name;
pub use observer::ClientWrite;
pub use options::Options;
use parking_lot::{Mutex, MutexGuard};
pub use resource::usual as usual_resources;
use serde_json::Value;
pub use serve::serve;
use state::State;
pub use status::Status;
pub use stored::Stored;
use tokio::time::Instant;

/// A running server. A clone is the same server.
#[derive(Clone, Debug)]
pub struct Server {
    state: Arc<Mutex<State>>,
}

/// For tests: what people and controllers do to a cluster.
impl Server {
    /// A server with the namespaces that every cluster has, `kube-system` among them.
    pub fn new(options: Options) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new(options))),
        }
    }

    /// Creates an object, or replaces one of the same name; nothing is written if nothing changes.
    /// Namespace and name are in its metadata.
    pub fn apply(&self, resource: &str, object: Value) -> Result<Stored, Status> {
        self.lock().apply(&resource.into(), object)
    }

    /// Deletes an object, and says whether there was one.
    pub fn delete(
        &self,
        resource: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<bool, Status> {
        self.lock().delete(&resource.into(), namespace, name)
    }

    /// The objects that there are: all of them, or those of one namespace.
    pub fn objects(&self, resource: &str, namespace: Option<&str>) -> Result<Vec<Stored>, Status> {
        self.lock().objects(&resource.into(), namespace)
    }

    /// One object as a client reads it; nothing if there is none.
    pub fn object(
        &self,
        resource: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, Status> {
        self.lock().object(&resource.into(), namespace, name)
    }

    /// Changes an object, as an update of a client with a name does. Returns whether there was one.
    pub fn edit(
        &self,
        resource: &str,
        namespace: Option<&str>,
        name: &str,
        editor: Editor<'_>,
        change: impl FnOnce(&mut Value),
    ) -> Result<bool, Status> {
        let mut state = self.lock();
        state.edit(&resource.into(), namespace, name, editor, change)
    }

    /// Like [`Self::apply`], in the name of a client.
    pub fn apply_as(
        &self,
        resource: &str,
        object: Value,
        editor: Editor<'_>,
    ) -> Result<Stored, Status> {
        let writer = editor.writer();
        let mut state = self.lock();
        state.apply_as(&resource.into(), object, Some(&writer))
    }

    /// Calls `observer` for each write of a client that is done, while the server is locked: it
    /// must not use this server.
    pub fn observe(&self, observer: impl Fn(&ClientWrite) + Send + Sync + 'static) {
        self.lock().observer = Some(observer::Observer(Arc::new(observer)));
    }

    /// Whether `SubjectAccessReview`s say from now on that a user may do nothing.
    pub fn set_denied(&self, user: &str, is_denied: bool) {
        let denied = &mut self.lock().denied;
        if is_denied {
            denied.insert(user.to_owned());
        } else {
            denied.remove(user);
        }
    }

    /// Whether they say so now.
    pub fn is_denied(&self, user: &str) -> bool {
        self.lock().denied.contains(user)
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.lock().etcd.revision()
    }

    /// The revision up to which history is gone.
    pub fn compacted(&self) -> u64 {
        self.lock().etcd.compacted()
    }

    /// The UID of the namespace `kube-system`: the cluster's identity.
    pub fn identity(&self) -> String {
        self.lock().identity()
    }
}

/// For tests: what happens to a cluster.
impl Server {
    /// Lets something go wrong from now on.
    pub fn inject(&self, fault: Fault, extent: Extent) {
        let mut state = self.lock();
        state.faults.inject(fault, extent, Instant::now());
        state.etcd.notify_all();
    }

    /// Ends all faults, and late changes arrive. What hangs already hangs until it is given up.
    pub fn heal(&self) {
        self.lock().heal();
    }

    /// How often each kind of fault struck since the server was made.
    pub fn strikes(&self) -> BTreeMap<FaultKind, u64> {
        self.lock().faults.strikes()
    }

    /// Forgets all history up to a revision: continued lists and watches of older ones are
    /// answered 410.
    pub fn compact(&self, revision: u64) {
        self.lock().etcd.compact(revision);
    }

    /// The apiserver is killed and started again: watches break off, and none can go on from before
    /// now, as the watch cache is empty.
    pub fn restart(&self) {
        self.lock().restart();
    }

    /// etcd is restored from a backup of an older revision, which must not be compacted: everything
    /// is as it was then, and the counter of revisions goes on from there. Objects that are created
    /// again have new UIDs.
    pub fn restore(&self, revision: u64) -> Result<(), Status> {
        self.lock().restore(revision)
    }

    /// The cluster is deleted and another one is created behind the same address: no objects, new
    /// identity, revisions from the start.
    pub fn recreate(&self) {
        self.lock().recreate();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; if a test does, its message is the one to see.
        self.state.lock()
    }
}
