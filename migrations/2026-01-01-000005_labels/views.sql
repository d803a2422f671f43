-- Runs after up.sql, in the same transaction, once each database's word for the present time is put in: a label expires
-- when it is read.

-- The labels that count now: of the labeler in effect, verified or not asked to be, not negated, not expired.
CREATE VIEW labels_in_effect AS
SELECT l.src, l.uri, l.val, l.subject, l.did, l.name, l.cts, l.exp
FROM labels l
JOIN labeler_cursor c ON c.src = l.src AND c.in_effect
WHERE (l.verified OR NOT c.verify) AND NOT l.neg AND (l.exp IS NULL OR l.exp > {now_us});

-- What is taken down now, a row for each label and what it is about. subject says what: 'account' (all of did), or
-- 'repository' (did, repository), 'manifest' (did, digest) or 'tag' (did, tag_rkey); the columns of the others are null.
-- A repository is what its page's key names; a name with a slash can be no key, so there it is what the page names, too.
CREATE VIEW taken_down AS
SELECT l.subject, l.did,
    CASE WHEN l.subject = 'repository' THEN l.name END AS repository,
    CASE WHEN l.subject = 'manifest' THEN l.name END AS digest,
    CASE WHEN l.subject = 'tag' THEN l.name END AS tag_rkey,
    l.src, l.uri, l.cts, l.exp
FROM labels_in_effect l
WHERE l.val = '!takedown' AND l.did IS NOT NULL
UNION ALL
SELECT l.subject, l.did, p.repository, NULL, NULL, l.src, l.uri, l.cts, l.exp
FROM labels_in_effect l
JOIN repo_pages p ON p.did = l.did AND p.rkey = l.name
WHERE l.val = '!takedown' AND l.subject = 'repository' AND l.did IS NOT NULL AND p.repository <> l.name;
