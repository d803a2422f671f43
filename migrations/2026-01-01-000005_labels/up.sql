-- Labels: what the labeler says of accounts and records. Times are microseconds since the Unix epoch, UTC.

-- The labelers that were ever followed, and up to where. One of them is in effect: the one that the settings named when
-- the labeler's lease last began. era: how often its sequence has begun anew; numbers of two eras do not compare.
-- verify: whether its labels count with a valid signature alone. key: what the latest ones were checked against.
CREATE TABLE labeler_cursor (
    src       TEXT    NOT NULL PRIMARY KEY,
    seq       BIGINT  NOT NULL DEFAULT 0,
    era       BIGINT  NOT NULL DEFAULT 0,
    in_effect BOOLEAN NOT NULL,
    verify    BOOLEAN NOT NULL,
    key       TEXT,
    saved_at  BIGINT  NOT NULL
);
CREATE UNIQUE INDEX labeler_cursor_in_effect ON labeler_cursor (in_effect) WHERE in_effect;

-- The latest word of each labeler on each subject and value; a negation stays as the tombstone of what it ended. cts is
-- the label's own time and orders them. era and seq: where it was in the stream, none if it was found by a query.
-- subject, did and name are derived from uri: an 'account', or the 'repository', 'manifest' (name is the digest) or 'tag'
-- (name is the record's key) of that account; null for what the registry knows nothing of. cid is kept, and narrows
-- nothing: a record that is rewritten stays taken down. ended_at: when a negation came, or when the label expires.
CREATE TABLE labels (
    src        TEXT    NOT NULL,
    uri        TEXT    NOT NULL,
    val        TEXT    NOT NULL,
    cid        TEXT,
    neg        BOOLEAN NOT NULL,
    cts        BIGINT  NOT NULL,
    exp        BIGINT,
    era        BIGINT,
    seq        BIGINT,
    verified   BOOLEAN NOT NULL,
    subject    TEXT CHECK (subject IN ('account', 'repository', 'manifest', 'tag')),
    did        TEXT,
    name       TEXT,
    changed_at BIGINT  NOT NULL,
    ended_at   BIGINT,
    PRIMARY KEY (src, uri, val)
);
CREATE INDEX labels_did ON labels (did, val) WHERE did IS NOT NULL;
CREATE INDEX labels_unverified ON labels (src) WHERE NOT verified;
CREATE INDEX labels_ended ON labels (ended_at) WHERE ended_at IS NOT NULL;
