-- Webhooks, and the outbox of their deliveries. Times are microseconds since the Unix epoch, by the database's clock.

-- triggers: bits; 1 scan:first, 2 scan:all, 4 scan:changed, 8 push. last_*: of the latest attempt. failing_since: of the
-- first of the attempts that have failed in a row. dropped: deliveries that were failed because too many were waiting.
CREATE TABLE webhooks (
    id              BIGINT NOT NULL PRIMARY KEY,
    user_did        TEXT   NOT NULL REFERENCES users (did) ON DELETE CASCADE,
    url             TEXT   NOT NULL,
    secret          TEXT,
    triggers        BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    disabled_at     BIGINT,
    disabled_reason TEXT,
    last_at         BIGINT,
    last_status     BIGINT,
    last_error      TEXT,
    failing_since   BIGINT,
    dropped         BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX webhooks_user ON webhooks (user_did);

-- A row per event and trigger bit, written in the event's own transaction. event: what happened, in JSON; payload: the
-- bytes that are sent, made of it when the delivery is first due, and the same from then on. repository, digest and tag:
-- what it is about. asked_at: when it was put in, or last asked for again; what it is given up by counts from then.
-- reason: why it is withheld.
CREATE TABLE webhook_deliveries (
    id              TEXT   NOT NULL PRIMARY KEY,
    webhook_id      BIGINT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    trigger         TEXT   NOT NULL,
    dedupe_key      TEXT   NOT NULL,
    repository      TEXT   NOT NULL,
    digest          TEXT   NOT NULL,
    tag             TEXT   NOT NULL,
    event           TEXT   NOT NULL,
    payload         TEXT,
    status          TEXT   NOT NULL CHECK (status IN ('pending', 'delivered', 'failed', 'withheld')),
    reason          TEXT,
    attempt         BIGINT NOT NULL DEFAULT 0,
    next_attempt_at BIGINT,
    give_up_at      BIGINT,
    response_code   BIGINT,
    last_error      TEXT,
    created_at      BIGINT NOT NULL,
    asked_at        BIGINT NOT NULL,
    finished_at     BIGINT,
    UNIQUE (webhook_id, dedupe_key)
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_attempt_at) WHERE status = 'pending';
-- Pushes that may still get their tag.
CREATE INDEX webhook_deliveries_open ON webhook_deliveries (webhook_id, digest)
    WHERE status = 'pending' AND payload IS NULL;
CREATE INDEX webhook_deliveries_finished ON webhook_deliveries (finished_at) WHERE finished_at IS NOT NULL;
