//! What was read from objects of the control plane, kept while these do not change.

use std::collections::{BTreeMap, btree_map::Entry};

use fleetdex_distribution::template_name::TemplateName;

use crate::control_plane::ControlPlaneObject;

/// What was read from objects, by their names. An object that has not changed is the same value as
/// before.
pub struct Memo<T>(BTreeMap<TemplateName, Remembered<T>>);

struct Remembered<T> {
    object: ControlPlaneObject,
    read: T,
    is_used: bool,
}

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Memo<T> {
    /// What an object says, which `read` finds out if it is not known.
    pub fn get(
        &mut self,
        name: &TemplateName,
        object: &ControlPlaneObject,
        read: impl FnOnce(&ControlPlaneObject) -> T,
    ) -> &T {
        let known = match self.0.entry(name.clone()) {
            Entry::Occupied(known) => {
                let known = known.into_mut();
                if !known.object.is_same(object) {
                    *known = Remembered::new(object, read);
                }
                known
            }
            Entry::Vacant(vacant) => vacant.insert(Remembered::new(object, read)),
        };
        known.is_used = true;
        &known.read
    }

    /// Forgets what was not asked for since it was called last.
    pub fn forget_unused(&mut self) {
        self.0.retain(|_, known| std::mem::take(&mut known.is_used));
    }
}

impl<T> Remembered<T> {
    fn new(object: &ControlPlaneObject, read: impl FnOnce(&ControlPlaneObject) -> T) -> Self {
        Self {
            object: object.clone(),
            read: read(object),
            is_used: true,
        }
    }
}
