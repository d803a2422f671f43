DROP VIEW taken_down;
DROP VIEW labels_in_effect;
DROP TABLE labels;
DROP TABLE labeler_cursor;
