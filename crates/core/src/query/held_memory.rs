//! Memory that is reserved for objects of a result.

use std::{any::Any, fmt, sync::Arc};

/// A reservation, returned when its last clone is dropped; or none.
#[derive(Clone, Default)]
pub struct HeldMemory(Option<Arc<dyn Any + Send + Sync>>);

impl HeldMemory {
    /// Holds a reservation.
    pub fn new(reservation: impl Any + Send + Sync) -> Self {
        Self(Some(Arc::new(reservation)))
    }
}

impl fmt::Debug for HeldMemory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("HeldMemory")
            .field(&self.0.is_some())
            .finish()
    }
}
