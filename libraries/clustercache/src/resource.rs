//! The kinds that can be cached.

use std::fmt;

use serde::de::DeserializeOwned;

/// A kind that can be cached: one with a Rust type, built in or custom.
pub trait CacheableResource:
    kube::Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> CacheableResource for K where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + fmt::Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}
