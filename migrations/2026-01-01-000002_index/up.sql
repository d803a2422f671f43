-- The index of the network's records. Times are microseconds since the Unix epoch, UTC.

-- last_seen is moved by people only (login, push, pull), never by indexing.
CREATE TABLE users (
    did               TEXT    NOT NULL PRIMARY KEY,
    handle            TEXT    NOT NULL DEFAULT 'handle.invalid',
    pds               TEXT,
    active            BOOLEAN NOT NULL DEFAULT TRUE,
    status            TEXT,
    account_at        BIGINT  NOT NULL DEFAULT 0,
    first_seen        BIGINT  NOT NULL,
    last_seen         BIGINT,
    identity_due_at   BIGINT,
    identity_failures BIGINT  NOT NULL DEFAULT 0,
    identity_at       BIGINT
);
CREATE UNIQUE INDEX users_handle ON users (handle) WHERE handle <> 'handle.invalid';
CREATE INDEX users_identity_due ON users (identity_due_at) WHERE identity_due_at IS NOT NULL;

-- One row per record ever seen: the guard of its version, and its tombstone. Every table below that has a record's
-- key (its repository's DID and its rkey) is a pure function of the record's latest version.
CREATE TABLE records (
    did        TEXT   NOT NULL REFERENCES users (did) ON DELETE CASCADE,
    collection TEXT   NOT NULL,
    rkey       TEXT   NOT NULL,
    rev        TEXT   NOT NULL,
    cid        TEXT,
    state      TEXT   NOT NULL CHECK (state IN ('present', 'absent', 'unreadable')),
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (did, collection, rkey)
);

CREATE TABLE manifests (
    did               TEXT   NOT NULL REFERENCES users (did) ON DELETE CASCADE,
    rkey              TEXT   NOT NULL,
    repository        TEXT   NOT NULL,
    digest            TEXT   NOT NULL,
    media_type        TEXT   NOT NULL,
    schema_version    BIGINT NOT NULL,
    hold_did          TEXT,
    created_at        BIGINT NOT NULL,
    artifact_type     TEXT   NOT NULL DEFAULT 'container-image',
    config_digest     TEXT,
    config_size       BIGINT,
    config_media_type TEXT,
    subject_digest    TEXT,
    PRIMARY KEY (did, rkey)
);
CREATE INDEX manifests_repository ON manifests (did, repository, created_at);
-- Whether a hold hosts a repository is asked for every count; a hold may host very many.
CREATE INDEX manifests_hosted ON manifests (did, repository, hold_did);
CREATE INDEX manifests_created_at ON manifests (created_at);
CREATE INDEX manifests_digest ON manifests (digest);
CREATE INDEX manifests_hold ON manifests (hold_did);
CREATE INDEX manifests_artifact_type ON manifests (artifact_type);

CREATE TABLE layers (
    did         TEXT   NOT NULL,
    rkey        TEXT   NOT NULL,
    layer_index BIGINT NOT NULL,
    digest      TEXT   NOT NULL,
    size        BIGINT NOT NULL,
    media_type  TEXT   NOT NULL,
    PRIMARY KEY (did, rkey, layer_index),
    FOREIGN KEY (did, rkey) REFERENCES manifests (did, rkey) ON DELETE CASCADE
);
CREATE INDEX layers_digest ON layers (digest);

CREATE TABLE manifest_references (
    did             TEXT    NOT NULL,
    rkey            TEXT    NOT NULL,
    reference_index BIGINT  NOT NULL,
    digest          TEXT    NOT NULL,
    size            BIGINT  NOT NULL,
    media_type      TEXT    NOT NULL,
    os              TEXT,
    architecture    TEXT,
    variant         TEXT,
    os_version      TEXT,
    is_attestation  BOOLEAN NOT NULL,
    PRIMARY KEY (did, rkey, reference_index),
    FOREIGN KEY (did, rkey) REFERENCES manifests (did, rkey) ON DELETE CASCADE
);
CREATE INDEX manifest_references_digest ON manifest_references (digest);

CREATE TABLE manifest_annotations (
    did   TEXT NOT NULL,
    rkey  TEXT NOT NULL,
    key   TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (did, rkey, key),
    FOREIGN KEY (did, rkey) REFERENCES manifests (did, rkey) ON DELETE CASCADE
);

-- A repository is described by its most recent manifest that has annotations.
CREATE VIEW repository_annotations AS
SELECT m.did, m.repository, a.key, a.value, m.created_at AS updated_at
FROM manifests m
JOIN manifest_annotations a ON a.did = m.did AND a.rkey = m.rkey
WHERE NOT EXISTS (
    SELECT 1 FROM manifests n
    WHERE n.did = m.did AND n.repository = m.repository
      AND (n.created_at, n.digest, n.rkey) > (m.created_at, m.digest, m.rkey)
      AND EXISTS (SELECT 1 FROM manifest_annotations b WHERE b.did = n.did AND b.rkey = n.rkey)
);

CREATE TABLE tags (
    did        TEXT   NOT NULL REFERENCES users (did) ON DELETE CASCADE,
    rkey       TEXT   NOT NULL,
    repository TEXT   NOT NULL,
    tag        TEXT   NOT NULL,
    digest     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (did, rkey)
);
CREATE INDEX tags_repository ON tags (did, repository, tag);
CREATE INDEX tags_digest ON tags (digest);

CREATE TABLE stars (
    did        TEXT   NOT NULL REFERENCES users (did) ON DELETE CASCADE,
    rkey       TEXT   NOT NULL,
    owner_did  TEXT   NOT NULL,
    repository TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (did, rkey)
);
CREATE INDEX stars_repository ON stars (owner_did, repository);

CREATE TABLE repo_pages (
    did         TEXT   NOT NULL REFERENCES users (did) ON DELETE CASCADE,
    rkey        TEXT   NOT NULL,
    repository  TEXT   NOT NULL,
    description TEXT,
    avatar_cid  TEXT,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (did, rkey)
);
CREATE INDEX repo_pages_repository ON repo_pages (did, repository);

CREATE TABLE profiles (
    did                  TEXT    NOT NULL REFERENCES users (did) ON DELETE CASCADE,
    rkey                 TEXT    NOT NULL,
    default_hold_did     TEXT,
    auto_remove_untagged BOOLEAN NOT NULL,
    created_at           BIGINT  NOT NULL,
    updated_at           BIGINT,
    PRIMARY KEY (did, rkey)
);

-- A hold is known by its captain record, whose rkey is always `self`.
CREATE TABLE captains (
    hold_did       TEXT    NOT NULL PRIMARY KEY REFERENCES users (did) ON DELETE CASCADE,
    owner_did      TEXT    NOT NULL,
    public         BOOLEAN NOT NULL,
    allow_all_crew BOOLEAN NOT NULL,
    deployed_at    BIGINT,
    region         TEXT,
    provider       TEXT,
    successor_did  TEXT
);
CREATE INDEX captains_owner ON captains (owner_did);

-- permissions is a JSON array of strings.
CREATE TABLE crew (
    hold_did    TEXT   NOT NULL REFERENCES users (did) ON DELETE CASCADE,
    rkey        TEXT   NOT NULL,
    member_did  TEXT   NOT NULL,
    role        TEXT   NOT NULL,
    permissions TEXT   NOT NULL,
    added_at    BIGINT,
    tier        TEXT,
    PRIMARY KEY (hold_did, rkey)
);
CREATE INDEX crew_member ON crew (member_did);

-- What each author says about each repository; counted in repository_stats only while the author is a known hold
-- that hosts the repository.
CREATE TABLE hold_repository_stats (
    hold_did   TEXT   NOT NULL REFERENCES users (did) ON DELETE CASCADE,
    rkey       TEXT   NOT NULL,
    owner_did  TEXT   NOT NULL,
    repository TEXT   NOT NULL,
    pull_count BIGINT NOT NULL,
    push_count BIGINT NOT NULL,
    last_pull  BIGINT,
    last_push  BIGINT,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (hold_did, rkey)
);
CREATE INDEX hold_repository_stats_repository ON hold_repository_stats (owner_did, repository);

-- The sum over the counted rows, recomputed in the transaction that changes one of them. No foreign key: a row is also
-- the lock at which two writers of one repository meet, and its owner may not be known yet.
CREATE TABLE repository_stats (
    did        TEXT   NOT NULL,
    repository TEXT   NOT NULL,
    pull_count BIGINT NOT NULL,
    push_count BIGINT NOT NULL,
    last_pull  BIGINT,
    last_push  BIGINT,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (did, repository)
);

CREATE TABLE scans (
    hold_did        TEXT   NOT NULL REFERENCES users (did) ON DELETE CASCADE,
    rkey            TEXT   NOT NULL,
    manifest_digest TEXT   NOT NULL,
    repository      TEXT   NOT NULL,
    owner_did       TEXT   NOT NULL,
    critical        BIGINT NOT NULL,
    high            BIGINT NOT NULL,
    medium          BIGINT NOT NULL,
    low             BIGINT NOT NULL,
    total           BIGINT NOT NULL,
    scanner_version TEXT   NOT NULL,
    scanned_at      BIGINT NOT NULL,
    PRIMARY KEY (hold_did, rkey)
);
CREATE INDEX scans_manifest ON scans (manifest_digest);
CREATE INDEX scans_repository ON scans (owner_did, repository);

-- Up to where each server's stream is in the index. Time-based cursors belong to their server.
CREATE TABLE stream_cursor (
    wire     TEXT   NOT NULL,
    host     TEXT   NOT NULL,
    time_us  BIGINT NOT NULL,
    saved_at BIGINT NOT NULL,
    PRIMARY KEY (wire, host)
);
