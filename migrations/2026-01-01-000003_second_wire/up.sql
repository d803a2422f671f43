-- The second wire numbers its events: the number is the position, and the time beside it is what other hosts understand.
ALTER TABLE stream_cursor ADD COLUMN seq BIGINT;

-- What has to be read again from its repository, because the stream has left something out or says so. did is '*' for
-- every repository. Whoever has read it deletes the row as it was when the reading began (asked_at): a later wish stays.
CREATE TABLE backfill_request (
    did      TEXT   NOT NULL PRIMARY KEY,
    reason   TEXT   NOT NULL,
    asked_at BIGINT NOT NULL
);
