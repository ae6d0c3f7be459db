//! Searches for a log that panics the heartbeat parser, makes it hold too much, or whose rounds depend on how it is cut.
#![no_main]

#[path = "../check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    check::check(input);
});
