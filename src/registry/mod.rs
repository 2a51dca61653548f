//! Registries: which units go to which stores.
