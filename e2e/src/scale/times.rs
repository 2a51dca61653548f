//! How long is waited.

use std::time::Duration;

/// How long a size may take to become complete.
pub const SYNC_DEADLINE: Duration = Duration::from_mins(20);
/// Time for temporary memory to be released.
pub const SETTLING: Duration = Duration::from_secs(15);
