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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Servers(u32);

    #[test]
    fn servers_are_taken_once_with_the_options_that_they_were_started_with() {
        keep("two members", Servers(1));
        assert_eq!(take::<_, Servers>(&"one member"), None);
        assert_eq!(take::<_, String>(&"two members"), None);
        assert_eq!(take(&"two members"), Some(Servers(1)));
        assert_eq!(take::<_, Servers>(&"two members"), None);
    }

    #[test]
    fn what_a_failed_test_has_used_is_not_kept() {
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
