-- Runs after up.sql, in the same transaction, once each database's word for the present time is put in: a label expires
-- when it is read.

-- The labels that count now: of the labeler in effect, verified or not asked to be, not negated, not expired.
CREATE VIEW labels_in_effect AS
SELECT labels.src, uri, val, subject, did, name, cts, exp
FROM labels
JOIN labeler_cursor ON labeler_cursor.src = labels.src AND labeler_cursor.in_effect
WHERE (labels.verified OR NOT labeler_cursor.verify) AND NOT neg AND (exp IS NULL OR exp > {now_us});

-- What is taken down now, a row for each label and what it is about. subject says what: 'account' (all of did), or
-- 'repository' (did, repository), 'manifest' (did, digest) or 'tag' (did, tag_rkey); the columns of the others are null.
-- The casts give both halves the same types: only then does SQLite look a reader's did up in the index, and not read every
-- label for it.
-- A repository is what its page's key names; a name with a slash can be no key, so there it is what the page names, too.
CREATE VIEW taken_down AS
SELECT subject, did,
    CAST(CASE WHEN subject = 'repository' THEN name END AS TEXT) AS repository,
    CAST(CASE WHEN subject = 'manifest' THEN name END AS TEXT) AS digest,
    CAST(CASE WHEN subject = 'tag' THEN name END AS TEXT) AS tag_rkey,
    src, uri, cts, exp
FROM labels_in_effect
WHERE val = '!takedown' AND did IS NOT NULL
UNION ALL
SELECT subject, labels_in_effect.did, CAST(repo_pages.repository AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS TEXT), src, uri, cts, exp
FROM labels_in_effect
JOIN repo_pages ON repo_pages.did = labels_in_effect.did AND repo_pages.rkey = name
WHERE val = '!takedown' AND subject = 'repository' AND repo_pages.repository <> name;
