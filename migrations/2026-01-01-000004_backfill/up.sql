-- Backfills: which repositories are read, and how far that is. Times are microseconds since the Unix epoch, by the
-- database's clock.

-- One row per run. A run belongs to nobody: whoever has the lease goes on with it, until it is a day old.
-- records: read; changed: not what was known; missed: of those, what the stream should have brought.
CREATE TABLE backfill_run (
    id         BIGINT  NOT NULL PRIMARY KEY,
    reason     TEXT    NOT NULL,
    forced     BOOLEAN NOT NULL,
    started_at BIGINT  NOT NULL,
    ended_at   BIGINT,
    given_up   BOOLEAN NOT NULL DEFAULT FALSE,
    records    BIGINT  NOT NULL DEFAULT 0,
    changed    BIGINT  NOT NULL DEFAULT 0,
    missed     BIGINT  NOT NULL DEFAULT 0,
    requests   BIGINT  NOT NULL DEFAULT 0
);

-- What the latest run finds repositories in: a relay's list of a collection, or our own index (collection is empty).
-- cursor is the place from which to go on.
CREATE TABLE backfill_list (
    source     TEXT   NOT NULL,
    collection TEXT   NOT NULL,
    place      BIGINT NOT NULL,
    run        BIGINT NOT NULL,
    state      TEXT   NOT NULL CHECK (state IN ('waiting', 'read', 'failed')),
    cursor     TEXT,
    next_at    BIGINT,
    failures   BIGINT NOT NULL DEFAULT 0,
    last_error TEXT,
    PRIMARY KEY (source, collection)
);

-- Every repository that a run has found. No foreign key: most have no account in the index, as relays list what is long
-- gone. next_at: when it has to be read next, if it has to. rev: at which the index last saw it whole. gone_at: when its
-- own PDS first said that the account is deleted.
CREATE TABLE backfill_repo (
    did        TEXT    NOT NULL PRIMARY KEY,
    run        BIGINT  NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('waiting', 'read', 'gone', 'failed')),
    forced     BOOLEAN NOT NULL DEFAULT FALSE,
    next_at    BIGINT,
    rev        TEXT,
    listed_at  BIGINT,
    failures   BIGINT  NOT NULL DEFAULT 0,
    last_error TEXT,
    gone_at    BIGINT,
    found_at   BIGINT  NOT NULL
);
CREATE INDEX backfill_repo_next ON backfill_repo (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX backfill_repo_run ON backfill_repo (run, state);
