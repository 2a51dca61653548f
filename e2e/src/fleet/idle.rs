//! Servers that no test uses at the moment.
//!
//! Starting a fleet takes longer than many a scenario. What a test has used therefore stays for the next one that asks for the same
//! options, until another fleet has to start: idle servers are stopped before that. So no more servers run than tests use at
//! a time, and those that one of them left.

use std::{
    any::Any,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Pairs of options and servers, which stop when they are dropped.
static IDLE: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());

/// Keeps servers for another test. After a test that failed they are stopped instead: nobody knows what it left.
pub fn keep<O: Send + 'static, T: Send + 'static>(options: O, servers: T) {
    if !std::thread::panicking() {
        idle().push(Box::new((options, servers)));
    }
}

/// Takes servers of this type that were started with these options.
pub fn take<O: PartialEq + 'static, T: 'static>(options: &O) -> Option<T> {
    let mut idle = idle();
    let found = idle.iter().position(|idle| {
        idle.downcast_ref::<(O, T)>()
            .is_some_and(|(theirs, _)| theirs == options)
    })?;
    let (_, servers) = *idle.swap_remove(found).downcast::<(O, T)>().ok()?;
    Some(servers)
}

/// Stops all of them. It blocks until their processes are gone.
pub(super) fn stop_all() {
    // Not under the lock: a test that ends meanwhile would wait for it.
    let all = std::mem::take(&mut *idle());
    drop(all);
}

fn idle() -> MutexGuard<'static, Vec<Box<dyn Any + Send>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}
