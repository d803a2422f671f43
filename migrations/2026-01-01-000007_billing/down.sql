DROP INDEX crew_membership;
DROP TABLE crew_tier_sync;
DROP TABLE hold_tiers;
DROP TABLE billing_past_due;
DROP TABLE billing_subscriptions;
