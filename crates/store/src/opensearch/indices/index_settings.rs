//! The settings of indices that a registry may name.

/// Settings of the indices, as a registry may set them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexSettings {
    /// Shards of each new index. Those of an index cannot be changed.
    pub shards: u32,
    /// Replicas per shard, also of existing indices. Absent: one for new indices, and existing ones
    /// stay as they are.
    pub replicas: Option<u32>,
    /// How soon writes become visible to searches, in OpenSearch's notation, also in existing
    /// indices. Absent: one second in new indices, and existing ones stay as they are.
    pub refresh_interval: Option<String>,
    /// `indexing: Full`: every path can be searched.
    pub is_full: bool,
}

impl Default for IndexSettings {
    /// One shard holds tens of gigabytes, far more than one cluster's objects.
    fn default() -> Self {
        Self {
            shards: 1,
            replicas: None,
            refresh_interval: None,
            is_full: false,
        }
    }
}

impl IndexSettings {
    /// One replica survives the loss of a node.
    pub(crate) fn replicas_of_new(&self) -> u32 {
        self.replicas.unwrap_or(1)
    }

    /// The shards of one index, copies included.
    pub(crate) fn shards_of_index(&self) -> u64 {
        u64::from(self.shards) * (1 + u64::from(self.replicas_of_new()))
    }

    /// Explicit, because indices without one stop refreshing while they are not searched.
    pub(crate) fn refresh_interval_of_new(&self) -> &str {
        self.refresh_interval.as_deref().unwrap_or("1s")
    }
}
