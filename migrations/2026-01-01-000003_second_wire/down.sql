DROP TABLE backfill_request;
-- The version before knows the first wire alone.
DELETE FROM stream_cursor WHERE wire <> 'v1';
ALTER TABLE stream_cursor DROP COLUMN seq;
