//! What fits into the 80 columns that every terminal has. Pure.

/// No line of a table is longer; what does not fit is cut, with a sign that it is.
pub(super) const COLUMNS: usize = 80;

/// Digits of an incarnation that tell instances apart for people.
const DIGITS: usize = 6;

/// A label with the beginning of the incarnation, since labels may be the same. The label is cut to fit.
pub(super) fn named(label: &str, incarnation: &str, len_max: usize) -> String {
    let short: String = incarnation.chars().take(DIGITS).collect();
    format!("{} {short}", cut(&label.escape_debug().to_string(), len_max.saturating_sub(DIGITS + 1)))
}

/// A line that fits and draws nothing on the terminal.
pub(super) fn fitted(line: &str) -> String {
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    cut(line.trim_end(), COLUMNS)
}

/// A text of at most so many characters.
pub(super) fn cut(text: &str, len_max: usize) -> String {
    if text.chars().count() <= len_max {
        return text.to_owned();
    }
    text.chars().take(len_max.saturating_sub(1)).chain(['…']).collect()
}
