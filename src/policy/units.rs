//! Durations as a policy writes them: `5s`, `1500ms`, `2m`, `1m30s`.
//!
//! A bare number is refused, because whoever writes `cooldown: 2` may mean minutes. Fractions are
//! refused too: `1.5s` has one spelling too many, `1500ms` says the same.

use std::time::Duration;

/// Why a text is no duration. Each carries a hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// A number alone.
    #[error("has no unit")]
    NoUnit,
    /// A unit that is not one of ours.
    #[error("has an unknown unit {0}")]
    UnknownUnit(String),
    /// A dot in it.
    #[error("has a fraction")]
    Fraction,
    /// A sign in front.
    #[error("has a sign")]
    Signed,
    /// No duration at all.
    #[error("is not a duration")]
    NotADuration,
    /// More than fits.
    #[error("is too long")]
    TooLong,
}

/// The units in milliseconds, longest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Reads a duration: whole numbers with unit, the larger unit first, without spaces.
///
/// # Errors
/// Says what is wrong with the text; the caller knows what is allowed.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    if text.starts_with(['-', '+']) {
        return Err(DurationError::Signed);
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(DurationError::NotADuration);
    }
    let mut rest = text;
    let mut total = 0_u64;
    let mut smallest = u64::MAX;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or(DurationError::NoUnit)?;
        let (number, tail) = rest.split_at(digits);
        if number.is_empty() {
            return Err(DurationError::NotADuration);
        }
        if tail.starts_with(['.', ',']) {
            return Err(DurationError::Fraction);
        }
        let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, next) = tail.split_at(end);
        let (_, length) =
            UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(|| DurationError::UnknownUnit(super::fault::quoted(unit)))?;
        if *length >= smallest {
            return Err(DurationError::NotADuration);
        }
        smallest = *length;
        let number: u64 = number.parse().map_err(|_| DurationError::TooLong)?;
        total = number.checked_mul(*length).and_then(|part| total.checked_add(part)).ok_or(DurationError::TooLong)?;
        rest = next;
    }
    Ok(Duration::from_millis(total))
}

/// What a text with another spelling of the unit, a space or a fraction was probably meant to be: `2 min`, `0.25s`. For hints alone.
#[must_use]
pub fn meant(text: &str) -> Option<Duration> {
    let squeezed: String = text.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase();
    let (number, unit) = squeezed.split_at_checked(squeezed.find(|c: char| c.is_ascii_alphabetic())?)?;
    let millis_each: u32 = match unit {
        "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => 1000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
        "h" | "hr" | "hour" | "hours" => 3_600_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // Three digits at most: finer than a millisecond is not meant, and the sum cannot overflow.
    let digits = |part: &str| if part.is_empty() { Some(0) } else { part.parse::<u32>().ok().filter(|_| part.len() <= 6) };
    let scale = 10_u32.pow(u32::try_from(fraction.len()).ok().filter(|len| *len <= 3)?);
    let parts = digits(whole)?.checked_mul(scale)?.checked_add(digits(fraction)?)?.checked_mul(millis_each)?;
    (parts.is_multiple_of(scale) && !number.is_empty()).then(|| Duration::from_millis(u64::from(parts / scale)))
}

/// Writes a duration in its shortest exact form: `2m`, `90s`, `1500ms`. [`parse`] reads it back.
#[must_use]
pub fn format(duration: Duration) -> String {
    let millis = duration.as_millis();
    if duration.is_zero() {
        return "0s".to_owned();
    }
    for (name, length) in UNITS.into_iter().filter(|(name, _)| *name != "d") {
        let length = u128::from(length);
        // 90s reads better than 1m30s, so the largest unit that divides it wins.
        if millis.is_multiple_of(length) {
            return format!("{}{name}", millis / length);
        }
    }
    format!("{millis}ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_with_a_unit_are_read() {
        for (text, millis) in [("5s", 5000), ("1500ms", 1500), ("2m", 120_000), ("1m30s", 90_000), ("1h", 3_600_000), ("0s", 0)] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_its_own_reason() {
        for (text, error) in [
            ("5", DurationError::NoUnit),
            ("1m30", DurationError::NoUnit),
            ("1.5s", DurationError::Fraction),
            ("-5s", DurationError::Signed),
            ("5 s", DurationError::UnknownUnit("` s`".to_owned())),
            ("5sec", DurationError::UnknownUnit("`sec`".to_owned())),
            ("5S", DurationError::UnknownUnit("`S`".to_owned())),
            ("30s1m", DurationError::NotADuration),
            ("1s1s", DurationError::NotADuration),
            ("", DurationError::NotADuration),
            ("s", DurationError::NotADuration),
            ("99999999999999999999s", DurationError::TooLong),
            ("9999999999999999999d", DurationError::TooLong),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn the_usual_other_spellings_are_understood_for_a_hint() {
        for (text, millis) in
            [("2 min", Some(120_000)), ("0.25s", Some(250)), ("5 S", Some(5000)), ("1.5h", Some(5_400_000)), (".5s", Some(500))]
        {
            assert_eq!(meant(text), millis.map(Duration::from_millis), "{text}");
        }
        for text in ["ten", "s", "1.2.3s", "0.0001s", "99999999s", "-5s", "5", "5 parsecs", "\u{e9}s"] {
            assert_eq!(meant(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for millis in [0, 1, 250, 1000, 1500, 59_999, 60_000, 90_000, 3_600_000, 90_000_000] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse(&format(duration)), Ok(duration), "{}", format(duration));
        }
    }
}
