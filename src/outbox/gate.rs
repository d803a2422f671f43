//! What a tier may have. A lapsed subscriber's webhooks are masked, not erased: what is above the tier is withheld.

use crate::settings::Tier;

use super::Trigger;

/// What everybody has where no tiers are set.
const FREE: Gate = Gate { webhooks_max: 1, all_triggers: false };

/// What one tier may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Webhooks at most.
    pub webhooks_max: u32,
    /// Whether they may have the paid triggers.
    pub all_triggers: bool,
}

impl Gate {
    /// Whether a user's webhook number `place`, by age, from 0, may have deliveries of `trigger`. A test is free.
    pub fn lets_through(&self, trigger: Trigger, place: u32) -> bool {
        place < self.webhooks_max && (self.all_triggers || !trigger.is_paid())
    }
}

/// What each tier may have, in rank order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tiers(Vec<Gate>);

impl Tiers {
    /// Those of the settings; the first is for everybody who pays nothing.
    pub fn of(tiers: &[Tier]) -> Self {
        let gate = |tier: &Tier| Gate { webhooks_max: tier.max_webhooks, all_triggers: tier.all_triggers };
        Self(tiers.iter().map(gate).collect())
    }

    /// What a user of this rank may have. No rank: no subscription. A rank that is no more is the highest one left.
    pub fn gate(&self, rank: Option<u32>) -> Gate {
        let rank = rank.and_then(|rank| usize::try_from(rank).ok()).unwrap_or(0);
        self.0.get(rank).or(self.0.last()).copied().unwrap_or(FREE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tiers_everybody_has_one_webhook_and_the_free_triggers() {
        let gate = Tiers::default().gate(Some(3));
        assert_eq!(gate, FREE);
        assert!(gate.lets_through(Trigger::Push, 0) && gate.lets_through(Trigger::ScanFirst, 0));
        assert!(gate.lets_through(Trigger::Test, 0) && !gate.lets_through(Trigger::Push, 1));
        assert!(!gate.lets_through(Trigger::ScanAll, 0) && !gate.lets_through(Trigger::ScanChanged, 0));
    }

    #[test]
    fn a_rank_is_a_place_in_the_list_of_tiers() {
        let [free, paid] = [FREE, Gate { webhooks_max: 5, all_triggers: true }];
        let tiers = Tiers(vec![free, paid]);
        assert_eq!([None, Some(0)].map(|rank| tiers.gate(rank)), [free; 2]);
        assert_eq!([1, 2, u32::MAX].map(|rank| tiers.gate(Some(rank))), [paid; 3]);
        assert!(paid.lets_through(Trigger::ScanChanged, 4));
    }
}
