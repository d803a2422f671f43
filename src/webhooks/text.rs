//! Text of strangers, made fit to stand in somebody else's message. Pure.

/// On one line, and without characters that are not seen but change what is.
pub(super) fn clean(text: &str) -> String {
    let seen = text.chars().filter(|c| !is_unseen(*c)).map(|c| if c.is_control() { ' ' } else { c });
    let seen: String = seen.collect();
    seen.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Direction marks, joiners and the like: they reverse or hide what follows.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The pieces in a row, cut with an ellipsis where they would be longer than `len_max`; no piece is cut in two. Lengths are
/// in UTF-16 units, which are never fewer than characters: whichever of the two the other side counts, it fits.
pub(super) fn joined<P: AsRef<str>>(pieces: impl Iterator<Item = P>, len_max: usize) -> String {
    let (mut text, mut len, mut end_if_cut) = (String::new(), 0, 0);
    for piece in pieces {
        let piece = piece.as_ref();
        len += piece.chars().map(char::len_utf16).sum::<usize>();
        if len > len_max {
            text.truncate(end_if_cut);
            text.push('…');
            return text;
        }
        text.push_str(piece);
        if len < len_max {
            end_if_cut = text.len();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_characters_and_line_ends_go() {
        assert_eq!(clean(" a\r\n\tb\0\u{202e}c\u{200b}\u{feff} d "), "a b c d");
        assert_eq!(clean("Grüße 🐳 日本"), "Grüße 🐳 日本");
        assert_eq!(clean("\u{202e}\n"), "");
    }

    #[test]
    fn what_is_too_long_is_cut_between_pieces_and_says_so() {
        let joined = |text: &[&str], len_max| joined(text.iter(), len_max);
        assert_eq!(joined(&["ab", "cd"], 4), "abcd");
        assert_eq!(joined(&["ab", "cd", "e"], 4), "ab…");
        assert_eq!(joined(&["a", "b", "c", "d", "e"], 4), "abc…");
        assert_eq!(joined(&["🐳", "🐳", "🐳"], 5), "🐳🐳…");
        assert_eq!(joined(&["abcdef"], 3), "…");
        assert_eq!(joined(&[], 3), "");
    }
}
