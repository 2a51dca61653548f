#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks.rs"]
#[allow(dead_code, reason = "each target has one of the checks")]
mod checks;

fuzz_target!(|bytes: &[u8]| checks::json_scanner(bytes));
