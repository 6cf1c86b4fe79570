-- Statements of one match, in order, in one transaction. Attempts are read once; all that follows is as large as jobs.

-- name: ours_by_job
CREATE TEMPORARY TABLE match_job ON COMMIT DROP AS
SELECT job_id, completed_at, provider_project AS project, outcome <> 'succeeded' AS is_failed,
       min(batch_id) AS batch_id, min(attempt_number) AS attempt_number, count(*) AS row_count,
       min("row") AS first_row, max("row") AS last_row,
       sum(input_tokens)::bigint AS input_tokens, sum(cached_input_tokens)::bigint AS cached_input_tokens,
       sum(cache_write_5m_tokens)::bigint AS cache_write_5m_tokens,
       sum(cache_write_1h_tokens)::bigint AS cache_write_1h_tokens, sum(output_tokens)::bigint AS output_tokens,
       sum(cost_pico_usd) AS cost_pico_usd
FROM attempt_fact
WHERE completed_at >= %(since)s AND completed_at < %(until)s
  AND provider = %(provider)s AND provider_account = %(account)s
GROUP BY job_id, completed_at, provider_project, outcome <> 'succeeded'

-- name: ours_by_class
-- What tokens times the job's own rates leave of its cost stands in the class "other": nothing of it is lost.
CREATE TEMPORARY TABLE match_part ON COMMIT DROP AS
SELECT job.job_id, job.is_failed, (job.completed_at AT TIME ZONE %(zone)s)::date AS day,
       CASE WHEN %(has_model)s THEN coalesce(terms.model_snapshot, '') ELSE '' END AS model,
       coalesce(terms.tier, 'batch') AS tier,
       CASE WHEN %(has_class)s THEN part.token_class ELSE 'other' END AS token_class,
       CASE WHEN %(has_project)s THEN job.project ELSE '' END AS project,
       part.tokens, part.pico_usd, job.batch_id, job.attempt_number, job.row_count, job.first_row, job.last_row
FROM match_job job LEFT JOIN billing_collectedjobfact terms ON terms.job_id = job.job_id
CROSS JOIN LATERAL (
    SELECT job.input_tokens * terms.input_rate_micro_usd_per_mtok::numeric AS input,
           job.cached_input_tokens * terms.cached_input_rate_micro_usd_per_mtok::numeric AS cached,
           job.cache_write_5m_tokens * terms.cache_write_5m_rate_micro_usd_per_mtok::numeric AS write_5m,
           job.cache_write_1h_tokens * terms.cache_write_1h_rate_micro_usd_per_mtok::numeric AS write_1h,
           job.output_tokens * terms.output_rate_micro_usd_per_mtok::numeric AS output
) rated
CROSS JOIN LATERAL (VALUES
    ('input_uncached', job.input_tokens, rated.input),
    ('input_cache_read', job.cached_input_tokens, rated.cached),
    ('input_cache_write_5m', job.cache_write_5m_tokens, rated.write_5m),
    ('input_cache_write_1h', job.cache_write_1h_tokens, rated.write_1h),
    ('output', job.output_tokens, rated.output),
    ('other', 0::bigint,
     job.cost_pico_usd - coalesce(rated.input + rated.cached + rated.write_5m + rated.write_1h + rated.output, 0))
) part (token_class, tokens, pico_usd)
WHERE terms.is_test IS NOT TRUE AND (part.tokens > 0 AND terms.job_id IS NOT NULL OR part.pico_usd <> 0)

-- name: line_places
-- A provider that says no tier means ours; names of models are those of the catalog where it knows them.
CREATE TEMPORARY TABLE match_line ON COMMIT DROP AS
SELECT line.id, line.file_id, (line.window_start AT TIME ZONE %(zone)s)::date AS day,
       CASE WHEN %(has_model)s THEN coalesce(known.snapshot, line.model_name) ELSE '' END AS model,
       CASE WHEN line.tier = '' THEN 'batch' ELSE line.tier END AS tier,
       CASE WHEN %(has_class)s THEN line.token_class ELSE 'other' END AS token_class,
       CASE WHEN %(has_project)s THEN line.project ELSE '' END AS project,
       line.quantity, line.amount_pico_usd, line.is_long_context, line.raw_row_hash,
       CASE WHEN line.currency <> 'USD' THEN 'currency' WHEN line.format_note <> '' THEN 'format' ELSE '' END AS noted
FROM billing_invoiceline line
LEFT JOIN unnest(%(names)s::text[], %(snapshots)s::text[]) AS known (name, snapshot) ON known.name = line.model_name
WHERE line.file_id = ANY(%(files)s) AND line.charge_kind = 'usage'
  AND (line.window_start AT TIME ZONE %(zone)s)::date >= %(period)s
  AND (line.window_start AT TIME ZONE %(zone)s)::date < (%(period)s::date + interval '1 month')

-- name: line_month
-- Lines of more than a day: both sides are compared by the whole month.
UPDATE match_line SET day = %(period)s

-- name: our_month
UPDATE match_part SET day = %(period)s WHERE date_trunc('month', day) = %(period)s::date

-- name: buckets
INSERT INTO billing_bucket (
    invoice_id, day, model, tier, token_class, project, invoiced_line_count, invoiced_quantity, invoiced_pico_usd,
    ours_job_count, ours_quantity, ours_pico_usd, failed_quantity, failed_pico_usd, state)
SELECT %(invoice)s, day, model, tier, token_class, project, coalesce(billed.line_count, 0),
       CASE WHEN billed.line_count IS NULL THEN NULL ELSE coalesce(billed.quantity, used.quantity) END,
       coalesce(billed.pico_usd, 0), coalesce(ours.job_count, 0), coalesce(ours.tokens, 0), coalesce(ours.pico_usd, 0),
       coalesce(ours.failed_tokens, 0), coalesce(ours.failed_pico_usd, 0),
       CASE WHEN coalesce(billed.pico_usd, 0) = coalesce(ours.pico_usd, 0) THEN 'exact' ELSE 'break' END
FROM (
    SELECT day, model, tier, token_class, project, count(*) AS line_count, sum(amount_pico_usd) AS pico_usd,
           CASE WHEN count(quantity) = count(*) THEN sum(quantity)::bigint END AS quantity
    FROM match_line WHERE file_id = %(money_file)s AND noted = '' GROUP BY 1, 2, 3, 4, 5
) billed
FULL JOIN (
    SELECT day, model, tier, token_class, project, count(DISTINCT job_id) AS job_count, sum(tokens)::bigint AS tokens,
           sum(pico_usd) AS pico_usd, sum(tokens) FILTER (WHERE is_failed)::bigint AS failed_tokens,
           sum(pico_usd) FILTER (WHERE is_failed) AS failed_pico_usd
    FROM match_part GROUP BY 1, 2, 3, 4, 5
) ours USING (day, model, tier, token_class, project)
LEFT JOIN (
    SELECT day, model, tier, token_class, project, sum(quantity)::bigint AS quantity
    FROM match_line WHERE file_id = %(usage_file)s AND noted = '' GROUP BY 1, 2, 3, 4, 5
) used USING (day, model, tier, token_class, project)
WHERE billed.line_count IS NOT NULL OR ours.job_count IS NOT NULL

-- name: differing
-- The places that differ, with what the rules ask of the lines and jobs behind them.
SELECT bucket.day, bucket.model, bucket.tier, bucket.token_class, bucket.project, bucket.invoiced_line_count,
       bucket.invoiced_quantity, bucket.invoiced_pico_usd, bucket.ours_job_count, bucket.ours_quantity,
       bucket.ours_pico_usd, bucket.failed_pico_usd, coalesce(lines.long_quantity, 0), coalesce(copies.pico_usd, 0),
       coalesce(job_copies.pico_usd, 0), coalesce(lines.has_such, FALSE), coalesce(jobs.has_such, FALSE),
       coalesce(noted.noted, '')
FROM billing_bucket bucket
LEFT JOIN (
    SELECT bucket.id, sum(line.quantity) FILTER (WHERE line.is_long_context)::bigint AS long_quantity,
           count(*) > 1 AND bool_or(line.amount_pico_usd = bucket.invoiced_pico_usd - bucket.ours_pico_usd) AS has_such
    FROM billing_bucket bucket JOIN match_line line USING (day, model, tier, token_class, project)
    WHERE bucket.invoice_id = %(invoice)s AND bucket.state = 'break' AND line.file_id = %(money_file)s AND line.noted = ''
    GROUP BY bucket.id
) lines ON lines.id = bucket.id
LEFT JOIN (
    SELECT day, model, tier, token_class, project, sum(pico_usd) AS pico_usd FROM (
        SELECT day, model, tier, token_class, project, (count(*) - 1) * min(amount_pico_usd) AS pico_usd
        FROM match_line WHERE file_id = %(money_file)s AND noted = '' GROUP BY 1, 2, 3, 4, 5, raw_row_hash HAVING count(*) > 1
    ) copy GROUP BY 1, 2, 3, 4, 5
) copies USING (day, model, tier, token_class, project)
LEFT JOIN (
    SELECT day, model, tier, token_class, project, sum(pico_usd) AS pico_usd FROM (
        SELECT day, model, tier, token_class, project, (count(DISTINCT job_id) - 1) * min(pico_usd) AS pico_usd
        FROM match_part
        GROUP BY 1, 2, 3, 4, 5, batch_id, attempt_number, is_failed, row_count, first_row, last_row, tokens
        HAVING count(DISTINCT job_id) > 1
    ) copy GROUP BY 1, 2, 3, 4, 5
) job_copies USING (day, model, tier, token_class, project)
LEFT JOIN (
    SELECT bucket.id, count(*) > 1 AND bool_or(part.pico_usd = bucket.ours_pico_usd - bucket.invoiced_pico_usd)
           AS has_such
    FROM billing_bucket bucket JOIN match_part part USING (day, model, tier, token_class, project)
    WHERE bucket.invoice_id = %(invoice)s AND bucket.state = 'break' AND bucket.invoiced_line_count > 0
    GROUP BY bucket.id
) jobs ON jobs.id = bucket.id
LEFT JOIN (
    SELECT day, model, tier, token_class, project, min(noted) AS noted FROM match_line
    WHERE file_id = %(money_file)s AND noted <> '' GROUP BY 1, 2, 3, 4, 5
) noted USING (day, model, tier, token_class, project)
WHERE bucket.invoice_id = %(invoice)s AND bucket.state = 'break'

-- name: other_lines
-- What is no usage in USD, of this month, with a meaning we know: each day and cause is a break of its own.
SELECT day, charge_kind, currency, format_note, is_outside, count(*), sum(amount_pico_usd) FROM (
    SELECT (window_start AT TIME ZONE %(zone)s)::date AS day, charge_kind, currency, format_note, amount_pico_usd,
           date_trunc('month', window_start AT TIME ZONE %(zone)s) <> %(period)s::date AS is_outside
    FROM billing_invoiceline WHERE file_id = %(money_file)s
) line
WHERE charge_kind <> 'usage' OR currency <> 'USD' OR format_note <> '' OR is_outside
GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5

-- name: grain
-- What the lines tell apart at all; what they do not, is put together on our side too.
SELECT coalesce(bool_or(model_name <> ''), FALSE), coalesce(bool_or(token_class <> 'other'), FALSE),
       coalesce(bool_or(project <> ''), FALSE), coalesce(bool_or(window_end - window_start > interval '25 hours'), FALSE)
FROM billing_invoiceline
WHERE file_id = %(money_file)s AND charge_kind = 'usage' AND currency = 'USD' AND format_note = ''

-- name: our_projects
SELECT coalesce(bool_or(project <> ''), FALSE) FROM match_job

-- name: model_names
SELECT DISTINCT model_name FROM billing_invoiceline WHERE file_id = ANY(%(files)s) AND model_name <> ''

-- name: lines_of_place
SELECT line.line, line.model_name, line.tier, line.token_class, line.project, line.quantity, line.amount_pico_usd,
       line.reference, line.raw
FROM match_line place JOIN billing_invoiceline line ON line.id = place.id
WHERE place.file_id = %(money_file)s AND (place.day, place.model, place.tier, place.token_class, place.project)
    = (%(day)s, %(model)s, %(tier)s, %(token_class)s, %(place_project)s)
ORDER BY line.line, line.id LIMIT %(count)s

-- name: jobs_of_place
SELECT coalesce(terms.batch_public_id, ''), part.job_id, part.row_count, part.is_failed, part.tokens, part.pico_usd
FROM match_part part LEFT JOIN billing_collectedjobfact terms ON terms.job_id = part.job_id
WHERE (part.day, part.model, part.tier, part.token_class, part.project)
    = (%(day)s, %(model)s, %(tier)s, %(token_class)s, %(place_project)s)
ORDER BY part.pico_usd DESC, part.job_id LIMIT %(count)s

-- name: other_lines_of
SELECT line, model_name, tier, token_class, project, quantity, amount_pico_usd, reference, raw FROM billing_invoiceline
WHERE file_id = %(money_file)s AND (window_start AT TIME ZONE %(zone)s)::date = %(day)s
  AND (charge_kind, currency, format_note) = (%(charge_kind)s, %(currency)s, %(format_note)s)
ORDER BY line, id LIMIT %(count)s
