//! When objects are looked at again.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fleetdex_distribution::template_name::TemplateName;
use tokio::time::Instant;

/// The pause after the first failure; it doubles up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(500);
/// The longest pause.
const LONGEST: Duration = Duration::from_mins(2);

/// When objects are looked at again.
#[derive(Default)]
pub struct Retries {
    failures: BTreeMap<TemplateName, u32>,
    due: BTreeSet<(Instant, TemplateName)>,
    times: BTreeMap<TemplateName, Instant>,
}

impl Retries {
    /// An object failed once more.
    pub fn failed(&mut self, name: &TemplateName) {
        let failures = self.failures.entry(name.clone()).or_default();
        let pause = FIRST.saturating_mul(2_u32.saturating_pow(*failures));
        *failures = failures.saturating_add(1);
        let pause = pause.min(LONGEST).mul_f64(1.0 + fastrand::f64() / 4.0);
        self.at(name, Instant::now() + pause);
    }

    /// Whether the last attempt has failed.
    pub fn has_failed(&self, name: &TemplateName) -> bool {
        self.failures.contains_key(name)
    }

    /// An object is looked at again at a time.
    pub fn at(&mut self, name: &TemplateName, time: Instant) {
        if let Some(before) = self.times.insert(name.clone(), time) {
            self.due.remove(&(before, name.clone()));
        }
        self.due.insert((time, name.clone()));
    }

    /// An object is as it shall be.
    pub fn forget(&mut self, name: &TemplateName) {
        self.failures.remove(name);
        if let Some(before) = self.times.remove(name) {
            self.due.remove(&(before, name.clone()));
        }
    }

    /// The objects whose time has come.
    pub fn take_due(&mut self) -> Vec<TemplateName> {
        let now = Instant::now();
        let mut found = Vec::new();
        while let Some((time, _)) = self.due.first()
            && *time <= now
            && let Some((_, name)) = self.due.pop_first()
        {
            self.times.remove(&name);
            found.push(name);
        }
        found
    }

    /// When the next time comes.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(time, _)| *time)
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_distribution::template_name::NameParts;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_end_with_a_success() {
        let name = TemplateName::from(NameParts {
            name: "web".to_owned(),
            ..NameParts::default()
        });
        let mut retries = Retries::default();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            retries.failed(&name);
            let next = retries.next().unwrap();
            pauses.push(next - Instant::now());
            assert_eq!(retries.take_due(), Vec::<TemplateName>::new());
            tokio::time::sleep_until(next).await;
            assert_eq!(retries.take_due(), std::slice::from_ref(&name));
        }
        assert!(pauses[0] >= FIRST && pauses[0] < 2 * FIRST, "{pauses:?}");
        assert!(pauses[11] >= LONGEST && pauses[11] < 2 * LONGEST);
        retries.failed(&name);
        retries.forget(&name);
        assert_eq!(retries.next(), None);
        retries.failed(&name);
        assert!(retries.next().unwrap() - Instant::now() < 2 * FIRST);
    }
}
