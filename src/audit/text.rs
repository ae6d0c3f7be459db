//! Bounded text and spans of time as people read them.
//!
//! Invariant: nothing that another process wrote (a log line, an error of etcd, a file name) reaches
//! the journal or the control socket at more than a known length, or with control characters that
//! could forge a line on a terminal. Pure.

use std::time::Duration;

/// Longest sentence in a journal field, in bytes. Long enough for an error chain with two paths.
pub const SENTENCE_BYTES_MAX: usize = 300;

/// Most items of a list in a journal field; a longer one says how many were left out.
pub const ITEMS_MAX: usize = 8;

/// Whether a character does something to the text around it: a control character, one that ends a line or a paragraph, or one that
/// turns what follows from right to left (UAX #9), so that a terminal shows another sentence than was written.
fn moves_text(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text without control characters and their like, cut at a character boundary to `bytes_max` with an ellipsis.
#[must_use]
pub fn clip(text: &str, bytes_max: usize) -> String {
    const ELLIPSIS: char = '…';
    let mut clipped = String::with_capacity(text.len().min(bytes_max));
    for character in text.trim_end().chars() {
        let character = if moves_text(character) { ' ' } else { character };
        if clipped.len() + character.len_utf8() > bytes_max {
            while clipped.len() + ELLIPSIS.len_utf8() > bytes_max {
                if clipped.pop().is_none() {
                    return clipped;
                }
            }
            clipped.push(ELLIPSIS);
            break;
        }
        clipped.push(character);
    }
    clipped
}

/// One sentence, as long as a journal field may be.
#[must_use]
pub fn sentence(text: &str) -> String {
    clip(text, SENTENCE_BYTES_MAX)
}

/// A list as clipped sentences; what exceeds [`ITEMS_MAX`] is counted, not dropped in silence.
#[must_use]
pub fn sentences<T: AsRef<str>>(items: &[T]) -> Vec<String> {
    let mut kept: Vec<String> = items.iter().take(ITEMS_MAX).map(|item| sentence(item.as_ref())).collect();
    if items.len() > ITEMS_MAX {
        kept.push(format!("and {} more", items.len() - ITEMS_MAX));
    }
    kept
}

/// A span of time at the precision that a person needs: `42ms`, `7.2s`, `31s`, `4m 05s`, `3h 12m`, `2d 4h`.
#[must_use]
pub fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..=9 => format!("{}.{}s", seconds, duration.subsec_millis() / 100),
        10..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Whole milliseconds; an age of half a billion years is not told apart from a longer one.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_span_is_as_precise_as_a_person_needs() {
        for (milliseconds, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (7_249, "7.2s"),
            (31_900, "31s"),
            (245_000, "4m 05s"),
            (11_520_000, "3h 12m"),
            (187_200_000, "2d 4h"),
        ] {
            assert_eq!(span(Duration::from_millis(milliseconds)), text);
        }
    }

    #[test]
    fn a_long_list_says_how_much_was_left_out() {
        let items: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        assert_eq!(sentences(&items).last().map(String::as_str), Some("and 12 more"));
    }

    #[test]
    fn what_turns_the_text_around_it_is_taken_out_as_a_control_character_is() {
        // As written, a terminal that knows bidirectional text shows "loop healthy" here.
        assert_eq!(clip("loop \u{202e}yhtlaeh\u{202c}", 100), "loop  yhtlaeh ");
        assert_eq!(clip("a\u{2028}b\u{2029}c\u{2066}d\u{200f}e\u{61c}f", 100), "a b c d e f");
        assert_eq!(clip("größer, 漢字, שלום", 100), "größer, 漢字, שלום");
    }

    proptest! {
        #[test]
        fn clipped_text_keeps_its_bound_and_forges_no_line(text in ".*", bytes_max in 0_usize..64) {
            let clipped = clip(&text, bytes_max);
            prop_assert!(clipped.len() <= bytes_max);
            prop_assert!(!clipped.chars().any(moves_text));
        }

        #[test]
        fn text_within_the_bound_is_unchanged(text in "[a-z ]{0,20}[a-z]") {
            prop_assert_eq!(clip(&text, 32), text);
        }
    }
}
