//! What a diagnosis says without the figures that change from look to look, so that it is said once. Pure.

use std::fmt::Write as _;

use crate::diagnose::{Diagnosis, Link};

/// Links that are compared; a cluster has at most seven members, and so 84 directions and ports.
const LINKS_MAX: usize = 84;

/// Two diagnoses with the same substance need to be said but once.
pub(super) fn substance(diagnosis: &Diagnosis) -> String {
    let mut links: Vec<String> = diagnosis.links.iter().take(LINKS_MAX).map(link).collect();
    links.sort_unstable();
    // Writing to a string cannot fail.
    let mut text = String::new();
    write!(text, "{:?} {:?} {:?} {}; ", diagnosis.outcome, diagnosis.cause, diagnosis.also, links.join(", ")).ok();
    let mut figure = false;
    for word in diagnosis.sentence.split_whitespace() {
        let is_figure = is_figure(word);
        if !(is_figure && figure) {
            text.push_str(if is_figure { "#" } else { word });
            text.push(' ');
        }
        figure = is_figure;
    }
    text
}

fn link(link: &Link) -> String {
    format!("{} {} {:?} {} {:?}", link.from, link.to, link.address, link.port, link.shows)
}

/// A number with a unit, perhaps: `31`, `4.5s,`, `(120ms)`, `80%`. Not a name or an address, which may hold digits too.
fn is_figure(word: &str) -> bool {
    let word = word.trim_matches(|character: char| !character.is_ascii_alphanumeric());
    let unit = word.trim_start_matches(|character: char| character.is_ascii_digit() || character == '.');
    let number = word.strip_suffix(unit).unwrap_or_default();
    let is_number = number.starts_with(|character: char| character.is_ascii_digit()) && number.matches('.').count() <= 1;
    is_number && unit.len() <= 3 && unit.chars().all(|character| character.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::diagnose::Cause;
    use crate::diagnose::evidence::Connect;

    fn saying(sentence: &str) -> Diagnosis {
        Diagnosis { sentence: sentence.to_owned(), ..Diagnosis::given_up(Duration::ZERO) }
    }

    #[test]
    fn figures_are_no_substance_and_names_are() {
        let one = "cp2 (192.0.2.2) answers on 2379 after 12ms, and has been silent for 59s.";
        let later = "cp2 (192.0.2.2) answers on 2379 after 0.9ms, and has been silent for 4m 05s.";
        assert_eq!(substance(&saying(one)), substance(&saying(later)));
        for other in ["cp3 (192.0.2.2)", "cp2 (192.0.2.3)"] {
            assert_ne!(substance(&saying(one)), substance(&saying(&one.replace("cp2 (192.0.2.2)", other))), "{other}");
        }
    }

    #[test]
    fn another_cause_or_link_is_news_whatever_the_sentence() {
        let plain = saying("x");
        assert_ne!(substance(&plain), substance(&Diagnosis { cause: Cause::SlowDisk, ..plain.clone() }));
        let link = |port, shows| Link { from: "cp1".to_owned(), to: "cp2".to_owned(), address: None, port, shows };
        let links = [link(2379, None), link(2380, None), link(2380, Some(Connect::TimedOut))];
        let with = |links: &[Link]| substance(&Diagnosis { links: links.to_vec(), ..plain.clone() });
        assert_ne!(with(&links[..1]), with(&links[..2]));
        assert_ne!(with(&links[1..2]), with(&links[2..]));
        assert_eq!(with(&[links[0].clone(), links[1].clone()]), with(&[links[1].clone(), links[0].clone()]));
    }
}
