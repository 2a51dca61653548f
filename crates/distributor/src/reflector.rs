//! The objects of a collection, kept current.
//!
//! Guarantee: the objects are those of one complete list with all changes since; until there is
//! one, and after a failure that may hide a change, [`Reflected::is_complete`] is false. What a
//! server can make it hold is bounded: beyond that the view is not complete, and says so.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_clusters::watch::{
    Collection, FaultKind, ListPage, ListerWatcher, StreamFault, WatchEvent,
};
use fleetdex_core::model::Version;
use fleetdex_distribution::template_name::TemplateName;
use kube::Client;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use crate::copy_memory::CopyMemory;

/// Objects of a page.
const PAGE: u32 = 500;
/// The pause before the first repetition; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long others wait for the first list.
const FIRST_LIST: Duration = Duration::from_secs(20);

/// After this time a failure is shown.
pub const LASTING: Duration = Duration::from_secs(10);

/// What a reflector keeps of an object, and how many bytes that counts.
pub trait Reflect: Send + Sync + 'static {
    /// What is kept.
    type Kept: Clone + Send + Sync + 'static;

    /// What is kept of an object, and for how many bytes it counts; `None`: nothing. `before`: what
    /// was kept of it.
    fn keep(&self, object: Value, before: Option<&Self::Kept>) -> Option<(Self::Kept, usize)>;

    /// An object was added, changed or deleted.
    fn changed(&self, name: &TemplateName, before: Option<&Self::Kept>, now: Option<&Self::Kept>);

    /// A complete list has replaced everything, or the view is not complete any more.
    fn replaced(&self);
}

struct KeptObject<T> {
    kept: T,
    bytes: usize,
}

struct ReflectedObjects<T> {
    objects: BTreeMap<TemplateName, KeptObject<T>>,
    is_complete: bool,
    was_complete: bool,
    /// Since when it is not complete.
    incomplete_since: Instant,
    fault: Option<String>,
}

/// The objects that a reflector keeps. Dropping it ends the watch.
pub struct Reflected<R: Reflect> {
    contents: Arc<RwLock<ReflectedObjects<R::Kept>>>,
    since: Instant,
    _task: AbortOnDropHandle<()>,
}

struct ReflectorTask<R: Reflect> {
    source: ListerWatcher,
    /// Items of lists do not say it.
    api_version: String,
    kind: String,
    contents: Arc<RwLock<ReflectedObjects<R::Kept>>>,
    reflect: R,
    held: CopyMemory,
}

impl<R: Reflect> Reflected<R> {
    /// Reflects a collection. The client must not retry by itself.
    pub fn start(client: Client, collection: Collection, reflect: R, held: CopyMemory) -> Self {
        let contents = Arc::new(RwLock::new(ReflectedObjects {
            objects: BTreeMap::new(),
            is_complete: false,
            was_complete: false,
            incomplete_since: Instant::now(),
            fault: None,
        }));
        let gvk = &collection.resource.gvk;
        let task = ReflectorTask {
            api_version: gvk.api_version(),
            kind: gvk.kind.to_string(),
            source: ListerWatcher::new(client, collection),
            contents: Arc::clone(&contents),
            reflect,
            held,
        };
        Self {
            contents,
            since: Instant::now(),
            _task: AbortOnDropHandle::new(tokio::spawn(task.run())),
        }
    }

    /// Whether all objects are known.
    pub fn is_complete(&self) -> bool {
        self.contents.read().is_complete
    }

    /// Whether the first list may arrive any moment.
    pub fn is_awaited(&self) -> bool {
        let contents = self.contents.read();
        let has_failed = contents.fault.is_some();
        !contents.was_complete && !has_failed && self.since.elapsed() < FIRST_LIST
    }

    /// Why not all objects are known, if something has failed for some time: watches end, and what
    /// has failed once is usually read again within a second.
    pub fn fault(&self) -> Option<String> {
        let contents = self.contents.read();
        let is_lasting = contents.incomplete_since.elapsed() >= LASTING;
        contents
            .fault
            .clone()
            .filter(|_| is_lasting && !contents.is_complete)
    }

    /// One object.
    pub fn get(&self, name: &TemplateName) -> Option<R::Kept> {
        let contents = self.contents.read();
        contents.objects.get(name).map(|held| held.kept.clone())
    }

    /// How many objects there are.
    pub fn count(&self) -> usize {
        self.contents.read().objects.len()
    }

    /// The names of all objects.
    pub fn names(&self) -> Vec<TemplateName> {
        self.contents.read().objects.keys().cloned().collect()
    }

    /// All objects, with their names.
    pub fn named(&self) -> Vec<(TemplateName, R::Kept)> {
        let contents = self.contents.read();
        let objects = contents.objects.iter();
        objects
            .map(|(name, held)| (name.clone(), held.kept.clone()))
            .collect()
    }

    /// All objects.
    pub fn all(&self) -> Vec<R::Kept> {
        let contents = self.contents.read();
        let objects = contents.objects.values();
        objects.map(|held| held.kept.clone()).collect()
    }
}

impl<R: Reflect> ReflectorTask<R> {
    async fn run(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            let fault = match self.list().await {
                Ok(version) => self.watch(version).await,
                Err(fault) => fault,
            };
            if begun.elapsed() >= LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
            self.failed(&fault);
            // Reflectors that failed together do not return together.
            sleep(pause.mul_f64(1.0 + fastrand::f64())).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn failed(&self, fault: &StreamFault) {
        let is_expected = fault.kind == FaultKind::Expired;
        let mut contents = self.contents.write();
        if std::mem::replace(&mut contents.is_complete, false) {
            contents.incomplete_since = Instant::now();
        }
        if !is_expected {
            contents.fault = Some(fault.to_string());
        }
        drop(contents);
        self.reflect.replaced();
    }

    async fn list(&self) -> Result<Version, StreamFault> {
        let mut listed: BTreeMap<TemplateName, KeptObject<R::Kept>> = BTreeMap::new();
        let mut taken = self.held.taking();
        let mut token: Option<String> = None;
        loop {
            let body = self.source.list(token.as_deref(), Some(PAGE)).await?;
            let page = ListPage::parse(&body).and_then(|page| page.within(Some(PAGE)));
            let page = page.map_err(|error| garbled(&error))?;
            for item in &page.items {
                let object = self.object(item)?;
                let name = TemplateName::of(&object);
                if let Some((kept, bytes)) = self.keep(&name, object) {
                    if !taken.takes(bytes) {
                        // The old list is in the way of the new one.
                        self.forget();
                        taken.take(bytes)?;
                    }
                    if let Some(twice) = listed.insert(name, KeptObject { kept, bytes }) {
                        taken.give_back(twice.bytes);
                    }
                }
            }
            if let Some(next) = page.continue_token {
                token = Some(next);
                continue;
            }
            taken.keep();
            let mut contents = self.contents.write();
            let before = std::mem::replace(&mut contents.objects, listed);
            contents.is_complete = true;
            contents.was_complete = true;
            contents.fault = None;
            drop(contents);
            let freed: usize = before.values().map(|held| held.bytes).sum();
            self.held.give_back(freed);
            self.reflect.replaced();
            return Ok(page.version);
        }
    }

    /// Forgets what it has, and what is not current any more.
    fn forget(&self) {
        let before = std::mem::take(&mut self.contents.write().objects);
        let freed = before.values().map(|held| held.bytes).sum();
        self.held.give_back(freed);
    }

    fn keep(&self, name: &TemplateName, object: Value) -> Option<(R::Kept, usize)> {
        let contents = self.contents.read();
        let before = contents.objects.get(name);
        self.reflect.keep(object, before.map(|held| &held.kept))
    }

    fn object(&self, text: &str) -> Result<Value, StreamFault> {
        let mut object: Value = serde_json::from_str(text).map_err(|error| garbled(&error))?;
        let Some(members) = object.as_object_mut() else {
            return Err(StreamFault {
                kind: FaultKind::Garbled,
                message: "an item is no object".to_owned(),
            });
        };
        members.insert("apiVersion".to_owned(), self.api_version.as_str().into());
        members.insert("kind".to_owned(), self.kind.as_str().into());
        Ok(object)
    }

    /// Watches until something fails.
    async fn watch(&self, mut version: Version) -> StreamFault {
        loop {
            // A server that was restored from a backup would be silent until it has come so far.
            match self.source.current_version().await {
                Ok(current) if current < version => return went_back(),
                Ok(_) => {}
                Err(fault) => return fault,
            }
            let mut lines = match self.source.watch(version).await {
                Ok(lines) => lines,
                Err(fault) => return fault,
            };
            loop {
                match lines.next().await {
                    Ok(None) => break,
                    Ok(Some(line)) => match self.handle(&line) {
                        Ok(reached) => version = reached.unwrap_or(version),
                        Err(fault) => return fault,
                    },
                    Err(fault) => return fault,
                }
            }
        }
    }

    fn handle(&self, line: &[u8]) -> Result<Option<Version>, StreamFault> {
        let event = WatchEvent::parse(line).map_err(|error| garbled(&error))?;
        let (text, is_deleted) = match event {
            WatchEvent::Bookmark(version) => return Ok(Some(version)),
            WatchEvent::Error(fault) => return Err(fault),
            WatchEvent::Added(text) | WatchEvent::Modified(text) => (text, false),
            WatchEvent::Deleted(text) => (text, true),
        };
        let object = self.object(text)?;
        let version = object["metadata"]["resourceVersion"].as_str();
        let version = version.and_then(|version| version.parse().ok());
        let name = TemplateName::of(&object);
        let kept = if is_deleted {
            None
        } else {
            self.keep(&name, object)
        };
        let mut taken = self.held.taking();
        if let Some((_, bytes)) = &kept {
            taken.take(*bytes)?;
        }
        taken.keep();
        let now = kept.as_ref().map(|(kept, _)| kept.clone());
        let mut contents = self.contents.write();
        let before = match kept {
            Some((kept, bytes)) => contents
                .objects
                .insert(name.clone(), KeptObject { kept, bytes }),
            None => contents.objects.remove(&name),
        };
        drop(contents);
        let before = before.map(|before| {
            self.held.give_back(before.bytes);
            before.kept
        });
        if before.is_none() && now.is_none() {
            // Of an object that is not kept.
            return Ok(version);
        }
        self.reflect.changed(&name, before.as_ref(), now.as_ref());
        Ok(version)
    }
}

impl<R: Reflect> Drop for ReflectorTask<R> {
    fn drop(&mut self) {
        let contents = self.contents.read();
        let bytes = contents.objects.values().map(|held| held.bytes).sum();
        self.held.give_back(bytes);
    }
}

fn went_back() -> StreamFault {
    StreamFault {
        kind: FaultKind::Expired,
        message: "the server has an older version than before".to_owned(),
    }
}

fn garbled(error: &dyn std::error::Error) -> StreamFault {
    StreamFault {
        kind: FaultKind::Garbled,
        message: fleetdex_core::model::causes(error),
    }
}
