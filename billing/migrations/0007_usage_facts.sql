-- Usage, in buckets of fifteen minutes: the widest that days of every zone are made of (Kathmandu is at +5:45).
-- A fact is what one receipt charged for one model on one lane; it comes with the receipt's own transaction.
CREATE TABLE usage_fact (
    bucket_at timestamptz NOT NULL,
    receipt_id bigint NOT NULL,
    model_slug text NOT NULL,
    lane_id text NOT NULL,
    organisation_id bigint NOT NULL,
    batch_public_id text NOT NULL,
    -- 0: accepted on a page, without a key.
    api_key_id bigint NOT NULL,
    settled_at timestamptz NOT NULL,
    request_count bigint NOT NULL,
    input_tokens bigint NOT NULL,
    cached_input_tokens bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    -- Net of the credit above the ceiling.
    usage_charge_micro_usd bigint NOT NULL,
    fee_micro_usd bigint NOT NULL,
    CONSTRAINT usage_is_one_per_receipt_model_and_lane PRIMARY KEY (bucket_at, receipt_id, model_slug, lane_id),
    CONSTRAINT usage_is_in_its_bucket CHECK (
        bucket_at = date_bin('15 minutes', settled_at, timestamptz '2000-01-01 00:00:00+00')),
    CONSTRAINT usage_counts_nothing_negative CHECK (
        request_count >= 0 AND input_tokens >= 0 AND cached_input_tokens >= 0 AND cache_write_tokens >= 0
        AND output_tokens >= 0 AND fee_micro_usd >= 0)
) PARTITION BY RANGE (bucket_at);
-- An organisation's usage by batch, newest first.
CREATE INDEX usage_of_organisation ON usage_fact (organisation_id, settled_at, receipt_id);
CREATE TRIGGER journal_is_append_only BEFORE UPDATE OR DELETE ON usage_fact
    FOR EACH ROW EXECUTE FUNCTION billing_refuse_change();
CREATE TRIGGER journal_is_not_emptied BEFORE TRUNCATE ON usage_fact
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();

-- The same without receipts and batches: what pages and the API sum up, however many batches there were.
CREATE TABLE usage_rollup (
    organisation_id bigint NOT NULL,
    bucket_at timestamptz NOT NULL,
    api_key_id bigint NOT NULL,
    model_slug text NOT NULL,
    lane_id text NOT NULL,
    request_count bigint NOT NULL,
    input_tokens bigint NOT NULL,
    cached_input_tokens bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    usage_charge_micro_usd bigint NOT NULL,
    fee_micro_usd bigint NOT NULL,
    CONSTRAINT usage_is_rolled_up_once PRIMARY KEY (organisation_id, bucket_at, api_key_id, model_slug, lane_id)
) PARTITION BY RANGE (bucket_at);

SELECT lanehouse_ensure_month_partitions('usage_fact', now());
SELECT lanehouse_ensure_month_partitions('usage_rollup', now());

-- Fold receipts into usage; one that was folded before adds nothing. Gives how many facts are new.
-- p_request_counts: of each receipt, [{model_slug, lane_id, request_count}] of its delivered rows.
CREATE FUNCTION billing_fold_usage(p_receipt_ids bigint[], p_api_key_ids bigint[], p_request_counts jsonb[])
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    fact_count bigint;
BEGIN
    WITH asked AS MATERIALIZED (
        SELECT * FROM unnest(p_receipt_ids, p_api_key_ids, p_request_counts)
            AS asked (receipt_id, api_key_id, request_counts)
    ), part AS (
        SELECT line.receipt_id, line.model_slug, line.lane_id, line.kind, coalesce(line.tokens, 0) AS tokens,
               line.amount_micro_usd, 0::bigint AS request_count
        FROM billing_receiptline line WHERE line.receipt_id = ANY (p_receipt_ids)
        UNION ALL
        SELECT asked.receipt_id, counted.model_slug, counted.lane_id, 'requests', 0, 0, counted.request_count
        FROM asked, jsonb_to_recordset(asked.request_counts)
            AS counted (model_slug text, lane_id text, request_count bigint)
    ), summed AS (
        SELECT receipt_id, model_slug, lane_id, sum(request_count)::bigint AS request_count,
               coalesce(sum(tokens) FILTER (WHERE kind = 'input'), 0)::bigint AS input_tokens,
               coalesce(sum(tokens) FILTER (WHERE kind = 'cached_input'), 0)::bigint AS cached_input_tokens,
               coalesce(sum(tokens) FILTER (WHERE kind IN ('cache_write_5m', 'cache_write_1h')), 0)::bigint
                   AS cache_write_tokens,
               coalesce(sum(tokens) FILTER (WHERE kind = 'output'), 0)::bigint AS output_tokens,
               coalesce(sum(amount_micro_usd) FILTER (WHERE kind <> 'control_plane_fee'), 0)::bigint
                   AS usage_charge_micro_usd,
               coalesce(sum(amount_micro_usd) FILTER (WHERE kind = 'control_plane_fee'), 0)::bigint AS fee_micro_usd
        FROM part GROUP BY receipt_id, model_slug, lane_id
    ), new_fact AS (
        INSERT INTO usage_fact
            (bucket_at, receipt_id, model_slug, lane_id, organisation_id, batch_public_id, api_key_id, settled_at,
             request_count, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens,
             usage_charge_micro_usd, fee_micro_usd)
        SELECT date_bin('15 minutes', receipt.settled_at, timestamptz '2000-01-01 00:00:00+00'), receipt.id,
               summed.model_slug, summed.lane_id, receipt.organisation_id, receipt.batch_public_id,
               coalesce(asked.api_key_id, 0), receipt.settled_at, summed.request_count, summed.input_tokens,
               summed.cached_input_tokens, summed.cache_write_tokens, summed.output_tokens,
               summed.usage_charge_micro_usd, summed.fee_micro_usd
        FROM summed JOIN asked ON asked.receipt_id = summed.receipt_id
        JOIN billing_receipt receipt ON receipt.id = summed.receipt_id
        ON CONFLICT DO NOTHING
        RETURNING *
    ), rolled AS (
        INSERT INTO usage_rollup
            (organisation_id, bucket_at, api_key_id, model_slug, lane_id, request_count, input_tokens,
             cached_input_tokens, cache_write_tokens, output_tokens, usage_charge_micro_usd, fee_micro_usd)
        SELECT organisation_id, bucket_at, api_key_id, model_slug, lane_id, sum(request_count), sum(input_tokens),
               sum(cached_input_tokens), sum(cache_write_tokens), sum(output_tokens), sum(usage_charge_micro_usd),
               sum(fee_micro_usd)
        FROM new_fact GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
        ON CONFLICT (organisation_id, bucket_at, api_key_id, model_slug, lane_id) DO UPDATE SET
            request_count = usage_rollup.request_count + excluded.request_count,
            input_tokens = usage_rollup.input_tokens + excluded.input_tokens,
            cached_input_tokens = usage_rollup.cached_input_tokens + excluded.cached_input_tokens,
            cache_write_tokens = usage_rollup.cache_write_tokens + excluded.cache_write_tokens,
            output_tokens = usage_rollup.output_tokens + excluded.output_tokens,
            usage_charge_micro_usd = usage_rollup.usage_charge_micro_usd + excluded.usage_charge_micro_usd,
            fee_micro_usd = usage_rollup.fee_micro_usd + excluded.fee_micro_usd
        RETURNING 1
    )
    SELECT count(*) INTO fact_count FROM new_fact;
    RETURN fact_count;
END $$;

-- Checked at the end of the transaction, by the facts' key: a receipt that is not counted does not come to be.
CREATE FUNCTION billing_check_usage() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.total_micro_usd <> (
        SELECT coalesce(sum(usage_charge_micro_usd + fee_micro_usd), 0) FROM usage_fact
        WHERE receipt_id = NEW.id
          AND bucket_at = date_bin('15 minutes', NEW.settled_at, timestamptz '2000-01-01 00:00:00+00'))
    THEN
        RAISE EXCEPTION 'receipt % is not counted as usage', NEW.public_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_is_counted_as_usage';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER usage_counts_the_receipt AFTER INSERT ON billing_receipt
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_check_usage();

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
        -- Usage comes through the function alone.
        REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON usage_fact, usage_rollup FROM lanehouse_app;
        REVOKE EXECUTE ON FUNCTION billing_fold_usage(bigint[], bigint[], jsonb[]) FROM PUBLIC;
        GRANT EXECUTE ON FUNCTION billing_fold_usage(bigint[], bigint[], jsonb[]) TO lanehouse_app;
    END IF;
END $$;
