//! The inputs that the fuzzer kept, tried again: each reached code of the parser that no other one did.

#[path = "../fuzz/check.rs"]
mod check;

use std::fs;
use std::path::Path;

#[test]
fn what_the_fuzzer_kept_gives_the_same_rounds_however_it_is_cut() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/kept");
    let (mut inputs, mut bytes, mut rounds) = (0, 0, 0);
    for entry in fs::read_dir(&kept).unwrap() {
        let input = fs::read(entry.unwrap().path()).unwrap();
        inputs += 1;
        bytes += input.len();
        rounds += check::check(&input).len();
    }
    assert!(inputs > 100 && rounds > inputs / 10, "{inputs} inputs with {rounds} rounds: this is not what was kept");
    assert!(bytes < 500 * 1024, "{bytes} bytes: `make fuzz-keep` keeps fewer");
}
