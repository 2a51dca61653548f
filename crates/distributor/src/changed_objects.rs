//! Which objects of the control plane have changed since a plan looked at them.

use std::collections::BTreeSet;

use fleetdex_distribution::template_name::TemplateName;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// More names than these are not kept.
const MOST: usize = 4_096;

/// The names of objects that have changed.
#[derive(Default)]
pub struct ChangedObjects {
    /// `None`: there are too many.
    names: Mutex<Option<BTreeSet<TemplateName>>>,
    has_changed: Notify,
}

impl ChangedObjects {
    /// Notes a change.
    pub fn add(&self, name: &TemplateName) {
        let mut names = self.names.lock();
        if let Some(known) = names.as_mut() {
            known.insert(name.clone());
        }
        if names.as_ref().is_some_and(|known| known.len() > MOST) {
            *names = None;
        }
        drop(names);
        self.has_changed.notify_one();
    }

    /// Waits for a change.
    pub async fn changed(&self) {
        self.has_changed.notified().await;
    }

    /// What has changed since this was called last; `None`: anything may have, because it was too
    /// much or because this is called for the first time.
    pub fn take(&self) -> Option<BTreeSet<TemplateName>> {
        self.names.lock().replace(BTreeSet::new())
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_distribution::template_name::NameParts;

    use super::*;

    #[tokio::test]
    async fn changes_are_noted_until_they_are_too_many() {
        let name = |number: usize| {
            TemplateName::from(NameParts {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
                namespace: "shop".to_owned(),
                name: number.to_string(),
            })
        };
        let changes = ChangedObjects::default();
        assert_eq!(changes.take(), None);
        changes.add(&name(1));
        changes.add(&name(1));
        changes.changed().await;
        assert_eq!(changes.take(), Some([name(1)].into()));
        assert_eq!(changes.take(), Some(BTreeSet::new()));
        for number in 0..=MOST {
            changes.add(&name(number));
        }
        changes.changed().await;
        assert_eq!(changes.take(), None);
        assert_eq!(changes.take(), Some(BTreeSet::new()));
    }
}
