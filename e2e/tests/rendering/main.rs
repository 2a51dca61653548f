//! Charts and folders, rendered by the real helm and kustomize: what `fleetdex render` prints, what
//! stays of random values, what hostile sources are refused with, and what is pulled from a real
//! registry.

mod charts;
mod fixture;
mod folders;
mod hostile;
mod registry;
