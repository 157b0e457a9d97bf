"""The statement that takes submissions: one for all callers of a moment, and one transaction by itself."""

from __future__ import annotations

# $1..$15 one array each, a column of the submissions in the order in which they came; a job id of NULL asks
# whether the call would be let in, and adds nothing. $16..$18 the keys with the tokens of their shared budget
# that are held here, and those wanted from it. $19 tokens a second, $20 tokens at most, $21 the window in
# seconds. Checked in the order of domain.md 3.1; the signature was checked before.
ENTER = """
WITH given AS MATERIALIZED (
    SELECT u.*
    FROM unnest($1::text[], $2::text[], $3::int8[], $4::uuid[], $5::uuid[], $6::text[], $7::bytea[],
        $8::text[], $9::text[], $10::text[], $11::text[], $12::bytea[], $13::int4[], $14::bytea[],
        $15::text[])
        WITH ORDINALITY AS u(key_id, nonce, signed_at, job_id, task_id, request_id, request_digest,
            kind, title, source, source_url, gallery, image_count, task_order, trace_parent, n)
), budgets AS MATERIALIZED (
    SELECT * FROM unnest($16::text[], $17::int4[], $18::int4[]) AS u(key_id, held, wanted)
), locked AS MATERIALIZED (
    -- in the order of the keys: two servers that want from several never wait for each other
    SELECT k.key_id, least($20::float8,
        k.budget + greatest(extract(epoch FROM now() - k.budget_at), 0) * $19::float8) AS available
    FROM ingest.spider_keys k
    WHERE k.key_id IN (SELECT b.key_id FROM budgets b WHERE b.wanted > 0)
    ORDER BY k.key_id FOR UPDATE
), granted AS MATERIALIZED (
    SELECT l.key_id, least(b.wanted, floor(l.available))::int4 AS tokens, l.available
    FROM locked l JOIN budgets b USING (key_id)
), spent AS (
    UPDATE ingest.spider_keys k
    -- a moment that lies ahead was written while the clock was wrong: left there, nothing would be refilled
    SET budget = g.available - g.tokens,
        budget_at = CASE WHEN k.budget_at > now() + interval '1 second' THEN now()
            ELSE greatest(k.budget_at, now()) END
    FROM granted g
    WHERE k.key_id = g.key_id AND (g.tokens > 0 OR k.budget_at > now() + interval '1 second')
), judged AS MATERIALIZED (
    SELECT g.*, k.spider_id, coalesce(t.tokens, 0) AS tokens, coalesce(t.available, 0) AS available,
        CASE
            WHEN k.spider_id IS NULL THEN 'unknown_key'
            WHEN row_number() OVER (PARTITION BY g.key_id ORDER BY g.n) > b.held + coalesce(t.tokens, 0)
                THEN 'limited'
            WHEN abs(g.signed_at - floor(extract(epoch FROM now()))) > $21::int4 THEN 'skewed'
            WHEN g.job_id IS NULL THEN 'let_in'
            ELSE 'fresh'
        END AS verdict
    FROM given g
    JOIN budgets b USING (key_id)
    LEFT JOIN granted t USING (key_id)
    LEFT JOIN ingest.spider_keys k ON k.key_id = g.key_id AND k.revoked_at IS NULL
), ranked AS MATERIALIZED (
    SELECT j.*, row_number() OVER (PARTITION BY j.spider_id, j.nonce ORDER BY j.n) AS turn
    FROM judged j WHERE j.verdict = 'fresh'
), noted AS (
    INSERT INTO ingest.nonces (spider_id, nonce, signed_at)
    SELECT r.spider_id, r.nonce, to_timestamp(r.signed_at) FROM ranked r WHERE r.turn = 1
    ORDER BY r.spider_id, r.nonce
    ON CONFLICT DO NOTHING
    RETURNING spider_id, nonce
), entered AS MATERIALIZED (
    SELECT r.* FROM ranked r JOIN noted USING (spider_id, nonce) WHERE r.turn = 1
), made AS (
    -- no conflict target: the job's own ids are new, so that only its request id can be known
    INSERT INTO ingest.jobs (id, spider_id, request_id, request_digest, kind, title, source, source_url,
        gallery, image_count, task_id)
    SELECT e.job_id, e.spider_id, e.request_id, e.request_digest, e.kind, e.title, e.source, e.source_url,
        e.gallery, e.image_count, e.task_id
    FROM entered e ORDER BY e.spider_id, e.request_id, e.n
    ON CONFLICT DO NOTHING
    RETURNING id
), ordered AS (
    INSERT INTO ingest.outbox (subject, kind, body, trace_parent)
    SELECT 'ingest_job:' || e.job_id, 'create_task', e.task_order, e.trace_parent
    FROM entered e JOIN made m ON m.id = e.job_id ORDER BY e.n
)
SELECT j.spider_id, j.tokens, j.available, extract(epoch FROM now())::float8 AS now,
    CASE WHEN j.verdict <> 'fresh' THEN j.verdict
        WHEN e.n IS NULL THEN 'replayed'
        WHEN m.id IS NULL THEN 'known'
        ELSE 'accepted' END AS verdict
FROM judged j LEFT JOIN entered e ON e.n = j.n LEFT JOIN made m ON m.id = e.job_id
ORDER BY j.n
"""

# $1 spiders, $2 request ids: the jobs that were made under them.
KNOWN = """
SELECT g.n, j.id, j.request_digest
FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS g(spider_id, request_id, n)
JOIN ingest.jobs j ON j.spider_id = g.spider_id AND j.request_id = g.request_id AND j.request_id <> ''
"""
