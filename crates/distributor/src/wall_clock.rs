//! The time of day.

use jiff::Timestamp;

/// Says what time it is. Graces, tolerations and the times of conditions are counted by it.
pub type WallClock = fn() -> Timestamp;
