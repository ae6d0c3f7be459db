//! Colour where a terminal shows it, and text folded to a width.

use std::io::IsTerminal as _;

/// Width of a report: fits a terminal of 80 to 100 columns next to nothing else.
const WIDTH: usize = 98;
/// The least and the most that `COLUMNS` may ask for.
const WIDTHS: std::ops::RangeInclusive<usize> = 72..=140;

/// What a word means; the colour follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// Something was broken, or a bound was not kept.
    Bad,
    /// Something was put right, or a bound was kept.
    Good,
    /// What the watchdog thinks.
    Thought,
    /// What a person did.
    Deed,
    /// What can be skipped.
    Faint,
    /// Headings.
    Strong,
    /// The rest.
    Plain,
}

/// How to write to standard output.
#[derive(Debug, Clone, Copy)]
pub struct Paper {
    colour: bool,
    /// Columns.
    pub width: usize,
}

impl Paper {
    /// As standard output and the environment want it: `NO_COLOR` (any value) and `COLUMNS` are obeyed.
    #[must_use]
    pub fn of_stdout() -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let colour = std::io::stdout().is_terminal() && set("NO_COLOR").is_none() && set("TERM").as_deref() != Some("dumb");
        let width = set("COLUMNS").and_then(|columns| columns.parse().ok()).unwrap_or(WIDTH);
        Self { colour, width: width.clamp(*WIDTHS.start(), *WIDTHS.end()) }
    }

    /// Without colour.
    #[must_use]
    pub const fn plain() -> Self {
        Self { colour: false, width: WIDTH }
    }

    /// The text in its colour.
    #[must_use]
    pub fn ink(&self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Bad => "1;31",
            Ink::Good => "32",
            Ink::Thought => "36",
            Ink::Deed => "1;33",
            Ink::Faint => "2",
            Ink::Strong => "1",
            Ink::Plain => "",
        };
        if self.colour && !code.is_empty() && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Folds text at spaces into lines of at most `width` characters; a longer word stands alone on its line.
#[must_use]
pub fn fold(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_folded_at_spaces_and_long_words_are_kept_whole() {
        assert_eq!(fold("one two three", 7), ["one two", "three"]);
        assert_eq!(fold("a loooooooong b", 5), ["a", "loooooooong", "b"]);
        assert_eq!(fold("", 5), [""]);
    }
}
