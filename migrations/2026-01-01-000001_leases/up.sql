-- Named leases. Times are microseconds since the Unix epoch by the database's clock; no decision rests on them.

-- One row per incarnation. A row that a lease names is never deleted.
CREATE TABLE lease_instance (
    incarnation   TEXT    NOT NULL PRIMARY KEY,
    process       TEXT    NOT NULL,
    label         TEXT    NOT NULL,
    host          TEXT    NOT NULL,
    pid           BIGINT  NOT NULL,
    admin_address TEXT,
    -- What proves to others that the process lives: an advisory lock's key, or a lock file's identity.
    beacon_key    BIGINT,
    beacon_device BIGINT,
    beacon_inode  BIGINT,
    -- The server's timeline when it registered: its session does not outlive a promotion.
    timeline      BIGINT  NOT NULL DEFAULT 0,
    stop_bound_us BIGINT  NOT NULL,
    ttl_us        BIGINT  NOT NULL,
    state         TEXT    NOT NULL DEFAULT 'up' CHECK (state IN ('up', 'draining', 'dead')),
    renew_seq     BIGINT  NOT NULL DEFAULT 0,
    registered_at BIGINT  NOT NULL,
    renewed_at    BIGINT  NOT NULL,
    dead_at       BIGINT,
    dead_reason   TEXT,
    CHECK ((state = 'dead') = (dead_at IS NOT NULL AND dead_reason IS NOT NULL))
);
CREATE INDEX lease_instance_alive ON lease_instance (incarnation) WHERE state <> 'dead';

-- One row per name, never deleted: it carries the epoch and the wait that is still owed.
CREATE TABLE lease (
    name             TEXT   NOT NULL PRIMARY KEY,
    epoch            BIGINT NOT NULL DEFAULT 0,
    holder           TEXT   REFERENCES lease_instance (incarnation),
    since            BIGINT,
    -- How it came free, for the length of hand-overs: the dead holder that it was taken from, if it was, and the latest
    -- release.
    previous         TEXT,
    freed_at         BIGINT,
    -- A duration: who claims waits so long on its own clock before it starts, and then clears it.
    owed_us          BIGINT NOT NULL DEFAULT 0
);

-- Operators' wishes, apart from the fenced row so that they never wait for it.
CREATE TABLE lease_wish (
    name           TEXT    NOT NULL PRIMARY KEY,
    desired_holder TEXT,
    paused         BOOLEAN NOT NULL DEFAULT FALSE
);

-- A process that gave a lease up for failures stays away for a while, whatever its incarnation is by then.
CREATE TABLE lease_cooldown (
    name     TEXT   NOT NULL,
    process  TEXT   NOT NULL,
    until    BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    PRIMARY KEY (name, process)
);

-- History, append-only. The id is random, because no one kind of counter exists in both databases.
CREATE TABLE lease_event (
    id          TEXT   NOT NULL PRIMARY KEY,
    at          BIGINT NOT NULL,
    name        TEXT   NOT NULL,
    epoch       BIGINT NOT NULL,
    incarnation TEXT   NOT NULL,
    what        TEXT   NOT NULL
);
CREATE UNIQUE INDEX lease_event_acquired ON lease_event (name, epoch) WHERE what = 'acquired';
CREATE INDEX lease_event_at ON lease_event (at);
