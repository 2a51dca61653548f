//! Renderings that are kept: the same inputs are rendered once, so that random values and
//! generated certificates stay.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::{digest::Sha256Digest, rendered::RenderedSet};

/// Renderings by the digest of their inputs, up to a number of bytes. Those that were used longest
/// ago go first.
#[derive(Debug)]
pub struct RenderCache {
    max_bytes: usize,
    kept: Mutex<KeptRenderings>,
}

#[derive(Debug, Default)]
struct KeptRenderings {
    renderings: BTreeMap<Sha256Digest, KeptRendering>,
    uses: u64,
}

#[derive(Clone, Debug, Default)]
struct KeptRendering {
    /// Empty while it is rendered for the first time, and after a failure.
    cell: Arc<OnceCell<Arc<RenderedSet>>>,
    bytes: usize,
    last_use: u64,
}

impl RenderCache {
    /// A cache of renderings of so many bytes together. The newest one is kept in any case.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            kept: Mutex::default(),
        }
    }

    /// Returns the rendering of these inputs, or renders them. Callers with the same inputs wait
    /// for one rendering. A failure is not kept.
    pub async fn get_or_render<E>(
        &self,
        inputs: &Sha256Digest,
        render: impl AsyncFnOnce() -> Result<RenderedSet, E>,
    ) -> Result<Arc<RenderedSet>, E> {
        let cell = self.cell(inputs);
        let rendered = cell
            .get_or_try_init(async || render().await.map(Arc::new))
            .await
            .cloned();
        self.settle(inputs, rendered.as_deref().ok());
        rendered
    }

    /// Keeps a rendering that was stored elsewhere, unless there is one.
    pub fn insert(&self, rendered: &Arc<RenderedSet>) {
        let inputs = rendered.inputs.clone();
        // Another rendering of the same inputs came first.
        drop(self.cell(&inputs).set(Arc::clone(rendered)));
        self.settle(&inputs, Some(rendered));
    }

    fn cell(&self, inputs: &Sha256Digest) -> Arc<OnceCell<Arc<RenderedSet>>> {
        let mut kept = self.kept.lock();
        kept.uses += 1;
        let uses = kept.uses;
        let one = kept.renderings.entry(inputs.clone()).or_default();
        one.last_use = uses;
        Arc::clone(&one.cell)
    }

    /// Counts a rendering, and removes others until there is room for it.
    fn settle(&self, inputs: &Sha256Digest, rendered: Option<&RenderedSet>) {
        let mut kept = self.kept.lock();
        match (rendered, kept.renderings.get_mut(inputs)) {
            (Some(rendered), Some(one)) => one.bytes = rendered.size(),
            (None, Some(one)) if one.cell.get().is_none() && Arc::strong_count(&one.cell) <= 2 => {
                kept.renderings.remove(inputs);
            }
            _ => {}
        }
        while kept.bytes() > self.max_bytes {
            let others = kept
                .renderings
                .iter()
                .filter(|(other, one)| *other != inputs && one.cell.get().is_some());
            let oldest = others.min_by_key(|(_, one)| one.last_use);
            let Some(oldest) = oldest.map(|(other, _)| other.clone()) else {
                break;
            };
            kept.renderings.remove(&oldest);
        }
    }
}

impl KeptRenderings {
    fn bytes(&self) -> usize {
        self.renderings.values().map(|one| one.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, convert::Infallible};

    use serde_json::json;

    use super::*;

    fn digest(name: &str) -> Sha256Digest {
        Sha256Digest::of(name.as_bytes())
    }

    fn set(name: &str, bytes: usize) -> RenderedSet {
        RenderedSet {
            inputs: digest(name),
            objects: vec![json!({"data": "x".repeat(bytes)})],
            ..RenderedSet::default()
        }
    }

    #[tokio::test]
    async fn the_same_inputs_are_rendered_once() {
        let (cache, count) = (RenderCache::new(1 << 20), Cell::new(0));
        let render = async || {
            tokio::task::yield_now().await;
            count.set(count.get() + 1);
            Ok::<_, Infallible>(set("a", count.get()))
        };
        let inputs = digest("a");
        let (one, other) = tokio::join!(
            cache.get_or_render(&inputs, render),
            cache.get_or_render(&inputs, render)
        );
        let again = cache.get_or_render(&inputs, render).await;
        assert!(one == other && one == again);
        assert_eq!(count.get(), 1);
    }

    #[tokio::test]
    async fn failures_are_not_kept() {
        let cache = RenderCache::new(1 << 20);
        let inputs = digest("a");
        let failed = cache.get_or_render(&inputs, async || Err("failed")).await;
        assert_eq!(failed, Err("failed"));
        assert!(cache.kept.lock().renderings.is_empty());
        let set = cache
            .get_or_render(&inputs, async || Ok::<_, &str>(set("a", 1)))
            .await;
        assert!(set.is_ok());
    }

    #[tokio::test]
    async fn those_that_were_used_longest_ago_go_first() {
        let cache = RenderCache::new(2 * set("a", 2_000).size());
        for name in ["a", "b", "a", "c"] {
            let render = async || Ok::<_, Infallible>(set(name, 2_000));
            cache.get_or_render(&digest(name), render).await.unwrap();
        }
        let kept = || -> Vec<bool> {
            let kept = cache.kept.lock();
            ["a", "b", "c"]
                .map(|name| kept.renderings.contains_key(&digest(name)))
                .into()
        };
        assert_eq!(kept(), [true, false, true]);
        cache.insert(&Arc::new(set("b", 100_000)));
        assert_eq!(kept(), [false, true, false]);
    }
}
