#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../cost.rs"]
#[allow(dead_code, reason = "the corpus is written elsewhere")]
mod cost;

fuzz_target!(|bytes: &[u8]| cost::cost(bytes));
