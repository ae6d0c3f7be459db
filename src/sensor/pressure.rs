//! How long tasks wait for a CPU, a disk or memory: the kernel's pressure stall information (Documentation/accounting/psi.rst).
//!
//! One file for the whole machine, whatever the version of the cgroups. For the machine the kernel gives `full` as zero, so `some` it
//! is. A kernel before 4.20, or with `psi=0`, has none: that is no fault, and the daemon's own punctuality has to do. Never blocks
//! on a disk.

/// Percentage of the last 10 s in which some task waited for a CPU, rounded down.
#[must_use]
pub fn cpu() -> Option<u32> {
    read("/proc/pressure/cpu")
}

/// The same for a disk.
#[must_use]
pub fn io() -> Option<u32> {
    read("/proc/pressure/io")
}

/// The same for memory that has to be taken from elsewhere first.
#[must_use]
pub fn memory() -> Option<u32> {
    read("/proc/pressure/memory")
}

fn read(file: &str) -> Option<u32> {
    some_avg10(&std::fs::read_to_string(file).ok()?)
}

/// `some avg10=64.45 avg60=46.28 avg300=54.69 total=6638677511`
fn some_avg10(text: &str) -> Option<u32> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let value = line.split_whitespace().find_map(|field| field.strip_prefix("avg10="))?;
    value.split('.').next()?.parse().ok().filter(|percent| *percent <= 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_the_last_ten_seconds_is_read_with_and_without_a_line_for_full() {
        let some = "some avg10=64.45 avg60=46.28 avg300=54.69 total=6638677511\n";
        assert_eq!(some_avg10(some), Some(64));
        assert_eq!(some_avg10(&format!("{some}full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")), Some(64));
        assert_eq!(some_avg10("some avg10=100.00 avg60=0.00 avg300=0.00 total=1\n"), Some(100));
    }

    #[test]
    fn what_is_not_understood_is_not_known() {
        for text in ["", "some", "some avg10=", "some avg10=x", "full avg10=9.00", "some avg10=101.00"] {
            assert_eq!(some_avg10(text), None, "{text:?}");
        }
    }
}
