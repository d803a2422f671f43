-- Billing: who pays for which tier, and what the managed holds know of it. Times are microseconds since the Unix epoch.
-- No foreign keys to users: who pays need not be in the index, and a deleted account still pays until it cancels.

-- What a user pays for; one row for everybody who ever had a subscription, of all of theirs the one that counts.
-- tier_rank: 0 for who pays nothing. planned_rank: the tier_rank that crew_tier_sync was last told of.
CREATE TABLE billing_subscriptions (
    user_did           TEXT   NOT NULL PRIMARY KEY,
    customer_id        TEXT   NOT NULL,
    subscription_id    TEXT   NOT NULL,
    status             TEXT   NOT NULL,
    tier_rank          BIGINT NOT NULL CHECK (tier_rank >= 0),
    current_period_end BIGINT,
    planned_rank       BIGINT,
    updated_at         BIGINT NOT NULL
);
CREATE INDEX billing_subscriptions_unplanned ON billing_subscriptions (user_did)
    WHERE planned_rank IS NULL OR planned_rank <> tier_rank;

-- Since when a subscription's payment is late, by our own sight of it: Stripe does not tell.
CREATE TABLE billing_past_due (
    subscription_id TEXT   NOT NULL PRIMARY KEY,
    since           BIGINT NOT NULL
);

-- The tiers of a managed hold, as it listed them last.
CREATE TABLE hold_tiers (
    hold_did        TEXT    NOT NULL,
    rank            BIGINT  NOT NULL CHECK (rank >= 0),
    name            TEXT    NOT NULL,
    quota_bytes     BIGINT,
    quota_formatted TEXT,
    scan_on_push    BOOLEAN NOT NULL,
    fetched_at      BIGINT  NOT NULL,
    PRIMARY KEY (hold_did, rank)
);

-- What a managed hold is to know of a user, and what it does know. Ranks are the hold's own: never above its last.
-- next_attempt: when it has to be told; null: it knows, or it waits for a crew record (awaits_crew). crew_rev: the
-- revision of the user's crew record there, as known before the last attempt.
CREATE TABLE crew_tier_sync (
    user_did     TEXT    NOT NULL,
    hold_did     TEXT    NOT NULL,
    desired_rank BIGINT  NOT NULL CHECK (desired_rank >= 0),
    applied_rank BIGINT,
    tier_name    TEXT,
    awaits_crew  BOOLEAN NOT NULL DEFAULT FALSE,
    crew_rev     TEXT,
    failures     BIGINT  NOT NULL DEFAULT 0,
    last_attempt BIGINT,
    next_attempt BIGINT,
    error        TEXT,
    PRIMARY KEY (user_did, hold_did)
);
CREATE INDEX crew_tier_sync_next ON crew_tier_sync (hold_did, next_attempt) WHERE next_attempt IS NOT NULL;
-- Whether a user is of a hold's crew is asked for each of them.
CREATE INDEX crew_membership ON crew (member_did, hold_did);
CREATE INDEX crew_tier_sync_awaiting ON crew_tier_sync (hold_did, user_did) WHERE awaits_crew;
