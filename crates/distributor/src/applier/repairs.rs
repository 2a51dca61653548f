//! How often objects were written although nothing asked for it on the control plane.
//!
//! A controller or webhook of the member that always changes a field back would cost a write for
//! each of its own.

use std::{collections::BTreeMap, time::Duration};

use fleetdex_distribution::template_name::TemplateName;
use tokio::time::Instant;

/// So many writes within [`WINDOW`] are usual: the first one, and some repairs.
const FREE: u32 = 6;
/// The time in which writes count.
const WINDOW: Duration = Duration::from_mins(15);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// The pause after the first write that is one too many; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// The writes of one object.
struct ObjectRepairs {
    count: u32,
    last: Instant,
}

/// How often objects were written.
#[derive(Default)]
pub struct Repairs(BTreeMap<TemplateName, ObjectRepairs>);

impl Repairs {
    /// An object was written.
    pub fn written(&mut self, name: &TemplateName) {
        let now = Instant::now();
        let repairs = self.0.entry(name.clone()).or_insert(ObjectRepairs {
            count: 0,
            last: now,
        });
        if repairs.last.elapsed() >= WINDOW {
            repairs.count = 0;
        }
        repairs.count = repairs.count.saturating_add(1);
        repairs.last = now;
    }

    /// The control plane asks for another object.
    pub fn forget(&mut self, name: &TemplateName) {
        self.0.remove(name);
    }

    /// Until when an object is not written; `None`: it may be.
    pub fn paused_until(&self, name: &TemplateName) -> Option<Instant> {
        let repairs = self.0.get(name)?;
        let more = repairs.count.checked_sub(FREE)?;
        let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(more));
        let until = repairs.last + pause.min(LONGEST_PAUSE);
        (until > Instant::now()).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep_until};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_always_changed_back_is_written_ever_more_rarely() {
        let name = TemplateName::default();
        let mut repairs = Repairs::default();
        for _ in 0..5 {
            repairs.written(&name);
            assert_eq!(repairs.paused_until(&name), None);
        }
        let mut pauses = Vec::new();
        for _ in 0..9 {
            repairs.written(&name);
            let until = repairs.paused_until(&name).unwrap();
            pauses.push((until - Instant::now()).as_secs());
            sleep_until(until).await;
            assert_eq!(repairs.paused_until(&name), None);
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        advance(WINDOW).await;
        repairs.written(&name);
        assert_eq!(repairs.paused_until(&name), None);
    }
}
