//! Servers that no test currently uses.
//!
//! Starting a fleet takes longer than many tests. Servers therefore stay for the next test with
//! equal options, and are stopped before another fleet starts. So the running servers are those in
//! use, and at most those that one test has left.

use std::{
    any::Any,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Pairs of options and servers, which stop when they are dropped.
static IDLE: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());

/// Retains servers for another test. After a failed test they are stopped instead, as their state
/// is unknown.
pub fn keep<O: Send + 'static, T: Send + 'static>(options: O, servers: T) {
    if !std::thread::panicking() {
        idle().push(Box::new((options, servers)));
    }
}

/// Takes idle servers of this type that were started with equal options.
pub fn take<O: PartialEq + 'static, T: 'static>(options: &O) -> Option<T> {
    let mut idle = idle();
    let found = idle.iter().position(|idle| {
        idle.downcast_ref::<(O, T)>()
            .is_some_and(|(theirs, _)| theirs == options)
    })?;
    let (_, servers) = *idle.swap_remove(found).downcast::<(O, T)>().ok()?;
    Some(servers)
}

/// Stops all idle servers. Blocks until their processes have exited.
pub(super) fn stop_all() {
    // Dropped without the lock, for which a test that ends meanwhile would wait.
    let all = std::mem::take(&mut *idle());
    drop(all);
}

fn idle() -> MutexGuard<'static, Vec<Box<dyn Any + Send>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Servers(u32);

    #[test]
    fn idle_servers_are_reused_once_and_only_with_equal_options() {
        keep("two members", Servers(1));
        assert_eq!(take::<_, Servers>(&"one member"), None);
        assert_eq!(take::<_, String>(&"two members"), None);
        assert_eq!(take(&"two members"), Some(Servers(1)));
        assert_eq!(take::<_, Servers>(&"two members"), None);
    }

    #[test]
    fn servers_of_a_failed_test_are_not_reused() {
        struct Test;

        impl Drop for Test {
            fn drop(&mut self) {
                keep("of a failed test", Servers(2));
            }
        }

        let failing = std::thread::spawn(|| {
            let _test = Test;
            panic!("as a test does");
        });
        failing.join().unwrap_err();
        assert_eq!(take::<_, Servers>(&"of a failed test"), None);
    }
}
