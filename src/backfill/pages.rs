//! How a listing in pages comes to its end. Pure: pages go in.
//!
//! Servers end a listing in three ways: the last page has no cursor; a full page has one, and leads to an empty page
//! without; or the cursor never goes away, and leads to the same place again. The third way looks like a server that does
//! not heed cursors at all. What was not listed is deleted from the index, so a listing counts as whole only where the two
//! can be told apart.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// The longest cursor that is sent back. Real ones have up to some 100 bytes; it becomes part of an address.
const CURSOR_LEN_MAX: usize = 2_048;

/// Pages in a row that bring nothing new. One may be empty because all that stood on it is hidden; at 1, that would cut a
/// listing short and what follows would be deleted.
const BARREN_MAX: u32 = 2;

/// Bounds of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// A page with fewer entries than this was not cut off by any limit: the page size that servers use when none is asked for.
    pub full_from: usize,
    /// Pages that are asked for.
    pub pages_max: u32,
    /// Different entries.
    pub entries_max: usize,
}

/// What follows a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The page at [`Walk::cursor`].
    Next,
    /// Nothing: this was the end.
    End,
    /// Nothing, and it is not certain that this was all.
    Unclear,
    /// Nothing: the listing is longer than is read.
    TooLong,
}

/// A walk through the pages of one listing.
#[derive(Debug)]
pub struct Walk {
    bounds: Bounds,
    cursor: Option<String>,
    /// Hashes, so that a million entries take 16 MB: where two have the same, one counts as known, which does no harm.
    seen: HashSet<u64>,
    hasher: RandomState,
    pages: u32,
    barren: u32,
    on_page: usize,
    new_on_page: usize,
}

impl Walk {
    /// Begins at `cursor`; `None` = at the beginning.
    pub fn new(bounds: Bounds, cursor: Option<String>) -> Self {
        let (seen, hasher) = (HashSet::new(), RandomState::new());
        Self { bounds, cursor, seen, hasher, pages: 0, barren: 0, on_page: 0, new_on_page: 0 }
    }

    /// Where the page to ask for begins.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Takes note of an entry of the page; true if it was not there before.
    pub fn note(&mut self, entry: &str) -> bool {
        let is_new = self.seen.insert(self.hasher.hash_one(entry));
        self.on_page += 1;
        self.new_on_page += usize::from(is_new);
        is_new
    }

    /// Ends the page; `cursor` is what came with it.
    pub fn turn(&mut self, cursor: Option<String>) -> Turn {
        let (on_page, new_on_page) =
            (std::mem::take(&mut self.on_page), std::mem::take(&mut self.new_on_page));
        self.pages += 1;
        self.barren = if new_on_page == 0 { self.barren + 1 } else { 0 };
        let Some(cursor) = cursor.filter(|cursor| !cursor.is_empty()) else {
            return Turn::End;
        };
        let leads_nowhere = self.cursor.as_ref() == Some(&cursor) || self.barren == BARREN_MAX;
        match leads_nowhere {
            true if on_page < self.bounds.full_from => Turn::End,
            true => Turn::Unclear,
            false if cursor.len() > CURSOR_LEN_MAX => Turn::Unclear,
            false if self.pages >= self.bounds.pages_max || self.seen.len() > self.bounds.entries_max => {
                Turn::TooLong
            }
            false => {
                self.cursor = Some(cursor);
                Turn::Next
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { full_from: 3, pages_max: 6, entries_max: 12 };

    type Pages<'a> = &'a [(&'a [&'a str], Option<&'a str>)];

    /// The turns after each page, and how many entries were new in all.
    fn walked(pages: Pages<'_>) -> (Vec<Turn>, usize) {
        let mut walk = Walk::new(BOUNDS, None);
        let mut new = 0;
        let turn = |(entries, cursor): &(&[&str], Option<&str>)| {
            new += entries.iter().filter(|entry| walk.note(entry)).count();
            walk.turn(cursor.map(str::to_owned))
        };
        (pages.iter().map(turn).collect(), new)
    }

    #[test]
    fn a_listing_ends_where_the_last_page_has_no_cursor() {
        use Turn::{End, Next};
        assert_eq!(walked(&[(&["a", "b", "c"], Some("c")), (&["d"], None)]), (vec![Next, End], 4));
        assert_eq!(walked(&[(&[], None)]), (vec![End], 0));
        assert_eq!(walked(&[(&["a"], Some(""))]), (vec![End], 1));
    }

    #[test]
    fn a_listing_ends_with_an_empty_page_without_a_cursor() {
        use Turn::{End, Next};
        assert_eq!(walked(&[(&["a", "b", "c"], Some("c")), (&[], None)]), (vec![Next, End], 3));
    }

    #[test]
    fn a_listing_ends_where_the_cursor_leads_to_the_same_place() {
        use Turn::{End, Next};
        let first: (&[&str], _) = (&["a", "b", "c"], Some("c"));
        // The cursor of the request comes back, with nothing or with its own entry.
        assert_eq!(walked(&[first, (&[], Some("c"))]), (vec![Next, End], 3));
        assert_eq!(walked(&[first, (&["c"], Some("c"))]), (vec![Next, End], 3));
        // The last page comes again and again, or pages go round.
        let last: (&[&str], _) = (&["d"], Some("d"));
        assert_eq!(walked(&[first, last, last]), (vec![Next, Next, End], 4));
        let round: Pages<'_> =
            &[(&["a"], Some("1")), (&["b"], Some("2")), (&["a"], Some("3")), (&["b"], Some("4"))];
        assert_eq!(walked(round), (vec![Next, Next, Next, End], 2));
    }

    #[test]
    fn one_empty_page_with_a_cursor_of_its_own_is_no_end() {
        use Turn::{End, Next};
        assert_eq!(
            walked(&[(&["a", "b", "c"], Some("1")), (&[], Some("2")), (&["d"], None)]),
            (vec![Next, Next, End], 4)
        );
        assert_eq!(walked(&[(&[], Some("1")), (&[], Some("2"))]), (vec![Next, End], 0));
    }

    #[test]
    fn a_server_that_does_not_heed_cursors_has_not_listed_everything() {
        use Turn::{Next, Unclear};
        let always: (&[&str], _) = (&["a", "b", "c"], Some("c"));
        assert_eq!(walked(&[always, always]), (vec![Next, Unclear], 3));
        let turning: Pages<'_> = &[always, (&["a", "b", "c"], Some("d")), (&["a", "b", "c"], Some("e"))];
        assert_eq!(walked(turning), (vec![Next, Next, Unclear], 3));
        let long = "x".repeat(CURSOR_LEN_MAX + 1);
        assert_eq!(walked(&[(&["a"], Some(&long))]), (vec![Unclear], 1));
    }

    #[test]
    fn pages_and_entries_have_a_bound() {
        let mut walk = Walk::new(BOUNDS, Some("x".to_owned()));
        assert_eq!(walk.cursor(), Some("x"));
        for page in 1..=6 {
            walk.note(&format!("entry {page}"));
            let expected = if page == 6 { Turn::TooLong } else { Turn::Next };
            assert_eq!(walk.turn(Some(format!("page {page}"))), expected);
        }
        let mut walk = Walk::new(BOUNDS, None);
        (0..12).for_each(|i| assert!(walk.note(&i.to_string())));
        assert_eq!(walk.turn(Some("1".to_owned())), Turn::Next);
        walk.note("12");
        assert_eq!(walk.turn(Some("2".to_owned())), Turn::TooLong);
        assert_eq!(walk.cursor(), Some("1"));
    }
}
