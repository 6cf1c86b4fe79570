-- As it was before.
CREATE OR REPLACE FUNCTION billing_take_legs() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    first_transaction_id bigint;
    last_transaction_id bigint;
    first_number smallint;
    leg_count bigint;
    zero_count bigint;
    homeless_count bigint;
    sum_micro_usd numeric;
    first_owner_id bigint;
    last_owner_id bigint;
    wallet_micro_usd numeric;
    owed_micro_usd numeric;
    earned_micro_usd numeric;
    earned_fee_micro_usd numeric;
    settled_micro_usd numeric := 0;
    header record;
    receipt record;
BEGIN
    SELECT min(leg.transaction_id), max(leg.transaction_id), min(leg.leg_number), count(*),
           count(*) FILTER (WHERE leg.amount_micro_usd = 0), count(*) FILTER (WHERE account.id IS NULL),
           sum(leg.amount_micro_usd), min(account.organisation_id), max(account.organisation_id),
           sum(leg.amount_micro_usd) FILTER (WHERE account.kind = 'customer_wallet'),
           sum(leg.amount_micro_usd) FILTER (WHERE account.kind = 'customer_receivable'),
           sum(leg.amount_micro_usd) FILTER (
               WHERE account.kind IN ('revenue_usage', 'revenue_fee', 'ceiling_credit')),
           sum(leg.amount_micro_usd) FILTER (WHERE account.kind = 'revenue_fee')
        INTO first_transaction_id, last_transaction_id, first_number, leg_count, zero_count, homeless_count,
             sum_micro_usd, first_owner_id, last_owner_id, wallet_micro_usd, owed_micro_usd, earned_micro_usd,
             earned_fee_micro_usd
        FROM new_legs leg LEFT JOIN billing_ledgeraccount account ON account.id = leg.account_id;
    IF leg_count = 0 THEN
        RETURN NULL;
    END IF;
    SELECT business_key, kind, organisation_id, created_in = pg_current_xact_id() AS is_new INTO header
        FROM billing_ledgertransaction WHERE id = first_transaction_id;
    IF header.is_new IS NOT TRUE THEN
        RAISE EXCEPTION 'a leg can only be written together with its own transaction'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'legs_come_with_their_transaction';
    END IF;
    IF first_number <> 1 OR first_transaction_id <> last_transaction_id THEN
        RAISE EXCEPTION 'all legs of a transaction are written by one statement of their own'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'legs_come_in_one_statement';
    END IF;
    IF homeless_count > 0 THEN
        RAISE EXCEPTION 'a leg names an account that does not exist'
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'leg_has_an_account';
    END IF;
    IF leg_count < 2 THEN
        RAISE EXCEPTION 'transaction % has % legs; it needs at least two', header.business_key, leg_count
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transaction_has_two_legs';
    END IF;
    IF sum_micro_usd <> 0 THEN
        RAISE EXCEPTION 'the legs of transaction % sum to % micro-USD', header.business_key, sum_micro_usd
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transaction_sums_to_zero';
    END IF;
    -- A settlement at zero has legs of zero, so that it too has its posting and its receipt.
    IF zero_count > 0 AND (zero_count < leg_count OR header.kind <> 'settlement') THEN
        RAISE EXCEPTION 'transaction % has a leg of zero', header.business_key
            USING ERRCODE = 'check_violation', CONSTRAINT = 'leg_is_never_zero';
    END IF;
    IF first_owner_id <> last_owner_id OR first_owner_id <> header.organisation_id OR (
        first_owner_id IS NOT NULL AND header.organisation_id IS NULL)
    THEN
        RAISE EXCEPTION 'transaction % moves the money of a customer who is not its own', header.business_key
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transaction_concerns_its_own_customer';
    END IF;
    IF header.kind = 'settlement' THEN
        SELECT public_id, batch_public_id, organisation_id, line_count, total_micro_usd, fee_micro_usd,
               receivable_micro_usd,
               EXISTS (SELECT FROM billing_receiptline WHERE receipt_id = billing_receipt.id) AS has_lines,
               (SELECT coalesce(sum(usage_charge_micro_usd + usage_fact.fee_micro_usd), 0) FROM usage_fact
                WHERE receipt_id = billing_receipt.id
                  AND bucket_at = date_bin('15 minutes', billing_receipt.settled_at, timestamptz '2000-01-01 00:00:00+00')
               ) AS counted_micro_usd,
               (SELECT coalesce(sum(amount_micro_usd), 0) FROM billing_hold
                WHERE organisation_id = billing_receipt.organisation_id
                  AND batch_public_id = billing_receipt.batch_public_id AND transaction_id = first_transaction_id
               ) AS settled_micro_usd
            INTO receipt FROM billing_receipt WHERE transaction_id = first_transaction_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'settlement % has no receipt', header.business_key
                USING ERRCODE = 'check_violation', CONSTRAINT = 'settlement_has_a_receipt';
        END IF;
        -- Lines that came were proven then; a receipt without any is at zero.
        IF receipt.has_lines <> (receipt.line_count <> 0) OR (receipt.line_count = 0 AND receipt.total_micro_usd <> 0) THEN
            RAISE EXCEPTION 'receipt % differs from its lines', receipt.public_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_equals_its_lines';
        END IF;
        IF receipt.organisation_id IS DISTINCT FROM header.organisation_id
            OR header.business_key <> 'settle:' || receipt.batch_public_id
            OR receipt.total_micro_usd <> -coalesce(wallet_micro_usd, 0) - coalesce(owed_micro_usd, 0)
            OR receipt.receivable_micro_usd <> -coalesce(owed_micro_usd, 0)
            OR receipt.total_micro_usd <> coalesce(earned_micro_usd, 0)
            OR receipt.fee_micro_usd <> coalesce(earned_fee_micro_usd, 0)
        THEN
            RAISE EXCEPTION 'receipt % differs from its posting', receipt.public_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_equals_its_posting';
        END IF;
        IF receipt.counted_micro_usd <> receipt.total_micro_usd THEN
            RAISE EXCEPTION 'receipt % is not counted as usage', receipt.public_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_is_counted_as_usage';
        END IF;
        settled_micro_usd := receipt.settled_micro_usd;
    END IF;
    IF header.organisation_id IS NOT NULL THEN
        UPDATE billing_customerbalance
            SET posted_micro_usd = posted_micro_usd + coalesce(wallet_micro_usd, 0),
                held_micro_usd = held_micro_usd - settled_micro_usd,
                receivable_micro_usd = receivable_micro_usd - coalesce(owed_micro_usd, 0)
            WHERE organisation_id = header.organisation_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'transaction % concerns a customer without a balance', header.business_key
                USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'customer_account_has_a_balance';
        END IF;
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION billing_take_lines() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    first_receipt_id bigint;
    last_receipt_id bigint;
    first_number integer;
    line_count bigint;
    total numeric;
    fee numeric;
    odd_count bigint;
    receipt record;
BEGIN
    SELECT min(receipt_id), max(receipt_id), min(line_number), count(*), sum(amount_micro_usd),
           coalesce(sum(amount_micro_usd) FILTER (WHERE kind = 'control_plane_fee'), 0),
           count(*) FILTER (WHERE CASE kind
               WHEN 'control_plane_fee' THEN num_nulls(tokens, rate_micro_usd_per_mtok) = 2 AND amount_micro_usd >= 0
               WHEN 'ceiling_credit' THEN num_nulls(tokens, rate_micro_usd_per_mtok) = 2 AND amount_micro_usd < 0
               ELSE kind IN ('input', 'cached_input', 'cache_write_5m', 'cache_write_1h', 'output')
                   AND tokens > 0 AND rate_micro_usd_per_mtok >= 0 AND amount_micro_usd >= 0 END IS NOT TRUE)
        INTO first_receipt_id, last_receipt_id, first_number, line_count, total, fee, odd_count FROM new_lines;
    IF line_count = 0 THEN
        RETURN NULL;
    END IF;
    SELECT public_id, billing_receipt.line_count, total_micro_usd, fee_micro_usd INTO receipt
        FROM billing_receipt WHERE id = first_receipt_id;
    IF first_number <> 1 OR first_receipt_id <> last_receipt_id OR line_count IS DISTINCT FROM receipt.line_count THEN
        RAISE EXCEPTION 'all lines of a receipt are written together with it, by one statement'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'lines_come_with_their_receipt';
    END IF;
    IF odd_count > 0 THEN
        RAISE EXCEPTION 'receipt % has a line that is none: usage has tokens and a rate, only a credit is negative',
            receipt.public_id USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_line_is_of_its_kind';
    END IF;
    IF total <> receipt.total_micro_usd OR fee <> receipt.fee_micro_usd THEN
        RAISE EXCEPTION 'receipt % differs from its lines', receipt.public_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_equals_its_lines';
    END IF;
    RETURN NULL;
END $$;

ALTER TABLE usage_fact
    ADD CONSTRAINT usage_is_in_its_bucket CHECK (
        bucket_at = date_bin('15 minutes', settled_at, timestamptz '2000-01-01 00:00:00+00')),
    ADD CONSTRAINT usage_counts_nothing_negative CHECK (
        request_count >= 0 AND input_tokens >= 0 AND cached_input_tokens >= 0 AND cache_write_tokens >= 0
        AND output_tokens >= 0 AND fee_micro_usd >= 0);
DROP TRIGGER usage_is_guarded ON usage_fact;
DROP FUNCTION billing_guard_usage();
