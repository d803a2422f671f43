//! The ways in which servers end a listing.

/// How a server's listings come to their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// Every page that is not empty has a cursor; the end is an empty page without one. The reference PDS.
    #[default]
    EmptyPage,
    /// The last page has no cursor.
    NoCursor,
    /// Every page has a cursor. That of the last leads to its last entry again, and again.
    Repeats,
    /// A broken server: whatever the cursor, the first page.
    IgnoresCursors,
}

/// What goes with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// No cursor.
    Stop,
    /// The cursor of its last entry.
    Cursor,
    /// The last entry of all in place of it, and the cursor that was asked for.
    Again,
}

impl Ending {
    pub(super) fn of(self, is_empty: bool, more_follow: bool) -> Step {
        match self {
            Self::EmptyPage if is_empty => Step::Stop,
            Self::NoCursor if !more_follow => Step::Stop,
            Self::Repeats | Self::IgnoresCursors if is_empty => Step::Again,
            _ => Step::Cursor,
        }
    }
}
