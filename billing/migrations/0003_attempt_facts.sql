CREATE TABLE attempt_fact (
    completed_at timestamptz NOT NULL,
    job_id bigint NOT NULL,
    "row" integer NOT NULL,
    attempt_number smallint NOT NULL,
    organisation_id bigint NOT NULL,
    batch_id bigint NOT NULL,
    lane_id text NOT NULL,
    provider text NOT NULL,
    provider_account text NOT NULL,
    provider_project text NOT NULL,
    outcome text NOT NULL,
    code text NOT NULL,
    input_tokens bigint NOT NULL,
    cached_input_tokens bigint NOT NULL,
    cache_write_5m_tokens bigint NOT NULL,
    cache_write_1h_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cost_pico_usd bigint NOT NULL,
    -- A repeated collect cannot count an attempt twice.
    CONSTRAINT attempt_is_one_per_job_and_row PRIMARY KEY (completed_at, job_id, "row"),
    CONSTRAINT attempt_is_numbered_from_one CHECK (attempt_number >= 1 AND "row" >= 0),
    CONSTRAINT attempt_outcome_is_known CHECK (outcome IN ('succeeded', 'failed', 'expired', 'cancelled')),
    CONSTRAINT attempt_uses_nothing_negative CHECK (
        input_tokens >= 0 AND cached_input_tokens >= 0 AND cache_write_5m_tokens >= 0 AND cache_write_1h_tokens >= 0
        AND output_tokens >= 0 AND cost_pico_usd >= 0
    )
) PARTITION BY RANGE (completed_at);
-- A batch's attempts, and what each provider account bills for it.
CREATE INDEX attempts_of_batch ON attempt_fact (batch_id, completed_at);

-- For each row, because PostgreSQL carries row triggers, not statement triggers, over to partitions named directly.
CREATE TRIGGER journal_is_append_only BEFORE UPDATE OR DELETE ON attempt_fact
    FOR EACH ROW EXECUTE FUNCTION billing_refuse_change();
CREATE TRIGGER journal_is_not_emptied BEFORE TRUNCATE ON attempt_fact
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();
SELECT lanehouse_ensure_month_partitions('attempt_fact', now());
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
        REVOKE UPDATE, DELETE, TRUNCATE ON attempt_fact FROM lanehouse_app;
    END IF;
END $$;
