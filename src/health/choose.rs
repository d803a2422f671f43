//! Which holds are looked after. Pure.

use std::collections::HashSet;

use crate::atproto::Did;
use crate::store::KnownHolds;

/// Holds that are looked after. Ten at once and ten seconds for each make at most a round of 17 minutes of them, if none
/// answers; at double, such a round would outlast the answers of the one before. A registry has tens of them.
pub(super) const HOLDS_MAX: usize = 1_000;

/// What was chosen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Each once; the registry's own first, as they are asked in this order.
    pub(super) holds: Vec<Did>,
    /// How many others there are.
    pub(super) left_out: usize,
}

/// The registry's own holds, then those that have a captain, then those that only manifests name, as anybody can make up
/// names in thousands; `max` at most.
pub(super) fn choose(of_registry: &[Did], known: &KnownHolds, max: usize) -> Chosen {
    let mut seen = HashSet::new();
    let all = of_registry.iter().chain(&known.captained).chain(&known.named);
    let mut holds: Vec<Did> = all.filter(|did| seen.insert(*did)).cloned().collect();
    let left_out = holds.len().saturating_sub(max);
    holds.truncate(max);
    Chosen { holds, left_out }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn dids(texts: &[&str]) -> Vec<Did> {
        texts.iter().map(|text| Did::parse(text).unwrap()).collect()
    }

    #[test]
    fn the_registrys_own_come_first_and_each_hold_once() {
        let known = KnownHolds {
            captained: dids(&["did:web:b.example", "did:web:own.example"]),
            named: dids(&["did:web:a.example", "did:web:b.example"]),
        };
        let own = dids(&["did:web:own.example"]);
        let all = dids(&["did:web:own.example", "did:web:b.example", "did:web:a.example"]);
        assert_eq!(choose(&own, &known, 3), Chosen { holds: all.clone(), left_out: 0 });
        assert_eq!(choose(&own, &known, 2), Chosen { holds: all[..2].to_vec(), left_out: 1 });
        assert_eq!(choose(&[], &KnownHolds::default(), 2), Chosen { holds: Vec::new(), left_out: 0 });
    }
}
