-- A settlement costs less: fewer checks of the same rows, fewer indexes, and plans that are made once.

-- The guard of legs reads header and accounts anyway, so it stands for the foreign keys: neither table ever loses a row.
-- A foreign key would lock the house's account rows, which every settlement of every client names.
CREATE OR REPLACE FUNCTION billing_take_legs() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    is_foreign boolean;
    is_late boolean;
    homeless_leg_count bigint;
    moved_count bigint;
    owner_count bigint;
BEGIN
    SELECT bool_or(header.created_in IS DISTINCT FROM pg_current_xact_id()),
           bool_or(touched.leg_count <> (SELECT count(*) FROM billing_ledgerleg leg
                                         WHERE leg.transaction_id = touched.transaction_id))
        INTO is_foreign, is_late
        FROM (SELECT transaction_id, count(*) AS leg_count FROM new_legs GROUP BY transaction_id) touched
        LEFT JOIN billing_ledgertransaction header ON header.id = touched.transaction_id;
    IF is_foreign THEN
        RAISE EXCEPTION 'a leg can only be written together with its own transaction'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'legs_come_with_their_transaction';
    END IF;
    IF is_late THEN
        RAISE EXCEPTION 'all legs of a transaction are written by one statement'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'legs_come_in_one_statement';
    END IF;
    WITH moves AS MATERIALIZED (
        SELECT account.organisation_id, count(*) - count(account.id) AS homeless_count,
               coalesce(sum(amount_micro_usd) FILTER (WHERE account.kind = 'customer_wallet'), 0) AS wallet,
               coalesce(sum(amount_micro_usd) FILTER (WHERE account.kind = 'customer_receivable'), 0) AS receivable
        FROM new_legs LEFT JOIN billing_ledgeraccount account ON account.id = new_legs.account_id
        GROUP BY account.organisation_id
    ), moved AS (
        UPDATE billing_customerbalance balance
        SET posted_micro_usd = posted_micro_usd + moves.wallet,
            receivable_micro_usd = receivable_micro_usd - moves.receivable
        FROM moves WHERE balance.organisation_id = moves.organisation_id RETURNING 1
    )
    SELECT coalesce(sum(homeless_count), 0), count(organisation_id), (SELECT count(*) FROM moved)
        INTO homeless_leg_count, owner_count, moved_count FROM moves;
    IF homeless_leg_count > 0 THEN
        RAISE EXCEPTION 'a leg names an account that does not exist'
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'leg_has_an_account';
    END IF;
    IF moved_count <> owner_count THEN
        RAISE EXCEPTION 'a leg names a customer account without a balance'
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'customer_account_has_a_balance';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION billing_fold_usage(p_receipt_ids bigint[], p_api_key_ids bigint[], p_request_counts jsonb[])
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
        CROSS JOIN LATERAL (
            -- Each by its key, whatever is known of the table's size: OFFSET keeps this from becoming a join of all.
            SELECT * FROM billing_receipt WHERE id = summed.receipt_id OFFSET 0
        ) receipt
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

-- Statements of a posting find a few rows by their keys, always. Planned once a connection, and never by reading a whole
-- table: what is known of its size may be old, and a plan made while a ledger was young would read all of it for ever.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['billing_lock_wallet', 'billing_place_holds', 'billing_settle_batch',
        'billing_write_settlement_legs', 'billing_take_legs', 'billing_take_lines', 'billing_move_held',
        'billing_check_transaction', 'billing_check_receipt', 'billing_check_usage', 'billing_fold_usage'] LOOP
        EXECUTE format('ALTER FUNCTION %I SET plan_cache_mode = force_generic_plan', name);
        EXECUTE format('ALTER FUNCTION %I SET enable_seqscan = off', name);
        -- Usage is also folded for many receipts at once, so there what is asked is hashed.
        IF name = 'billing_fold_usage' THEN
            EXECUTE format('ALTER FUNCTION %I SET enable_nestloop = off', name);
        ELSE
            EXECUTE format('ALTER FUNCTION %I SET enable_hashjoin = off', name);
            EXECUTE format('ALTER FUNCTION %I SET enable_mergejoin = off', name);
        END IF;
    END LOOP;
END $$;

-- Made by Django for LIKE on unique texts; nothing searches these by how they begin.
DROP INDEX IF EXISTS billing_ledgertransaction_business_key_b56433d3_like;
DROP INDEX IF EXISTS billing_receipt_public_id_d3f8d749_like;
DROP INDEX IF EXISTS billing_receipt_batch_public_id_7f90ab9a_like;
