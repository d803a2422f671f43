//! The collections that the index is made of.

/// A wanted collection. The order is that of a repair: what others refer to comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the record of its name")]
pub enum Collection {
    Captain,
    Crew,
    Profile,
    Page,
    Manifest,
    Tag,
    Star,
    Stats,
    Scan,
}

impl Collection {
    /// Every wanted collection, in order.
    pub const ALL: [Self; 9] = [
        Self::Captain,
        Self::Crew,
        Self::Profile,
        Self::Page,
        Self::Manifest,
        Self::Tag,
        Self::Star,
        Self::Stats,
        Self::Scan,
    ];

    /// The name of the collection on the network.
    pub fn nsid(self) -> &'static str {
        match self {
            Self::Captain => "io.atcr.hold.captain",
            Self::Crew => "io.atcr.hold.crew",
            Self::Profile => "io.atcr.sailor.profile",
            Self::Page => "io.atcr.repo.page",
            Self::Manifest => "io.atcr.manifest",
            Self::Tag => "io.atcr.tag",
            Self::Star => "io.atcr.sailor.star",
            Self::Stats => "io.atcr.hold.stats",
            Self::Scan => "io.atcr.hold.scan",
        }
    }

    /// The wanted collection of that name.
    pub fn from_nsid(nsid: &str) -> Option<Self> {
        // Nearly every event of the network is refused by this one comparison.
        if !nsid.starts_with("io.atcr.") {
            return None;
        }
        Self::ALL.into_iter().find(|collection| collection.nsid() == nsid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atproto::Nsid;

    #[test]
    fn every_collection_is_found_by_its_name_and_others_are_not() {
        for collection in Collection::ALL {
            assert_eq!(Collection::from_nsid(collection.nsid()), Some(collection));
            assert!(Nsid::parse(collection.nsid()).is_ok());
        }
        for other in
            ["", "io.atcr.", "io.atcr.hold", "io.atcr.hold.layer", "app.bsky.feed.like", "IO.ATCR.TAG"]
        {
            assert_eq!(Collection::from_nsid(other), None);
        }
    }
}
