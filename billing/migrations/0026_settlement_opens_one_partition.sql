-- A settlement opens one partition of usage, and its guards look at their few rows in a loop.
--
-- The proof of a settlement asked for its usage within the query for its receipt, where the bucket is not known when that
-- starts: every partition and its index was opened, one more each month (4: 0.09 million instructions of 2.9; 40: 0.8).
-- A sum costs 10,000 instructions before it sees a row, a loop over five rows less; a sum above bigint is refused.
CREATE OR REPLACE FUNCTION billing_take_legs() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    header record;
    receipt record;
    leg record;
    leg_count bigint := 0;
    zero_count bigint := 0;
    first_number smallint;
    sum_micro_usd bigint := 0;
    wallet_micro_usd bigint := 0;
    owed_micro_usd bigint := 0;
    earned_micro_usd bigint := 0;
    earned_fee_micro_usd bigint := 0;
    settled_micro_usd bigint := 0;
BEGIN
    FOR leg IN
        SELECT new_leg.transaction_id, new_leg.leg_number, new_leg.amount_micro_usd, account.kind, account.organisation_id
        FROM new_legs new_leg LEFT JOIN billing_ledgeraccount account ON account.id = new_leg.account_id
    LOOP
        IF leg_count = 0 THEN
            SELECT id, business_key, kind, organisation_id, created_in = pg_current_xact_id() AS is_new INTO header
                FROM billing_ledgertransaction WHERE id = leg.transaction_id;
            IF header.is_new IS NOT TRUE THEN
                RAISE EXCEPTION 'a leg can only be written together with its own transaction'
                    USING ERRCODE = 'check_violation', CONSTRAINT = 'legs_come_with_their_transaction';
            END IF;
            first_number := leg.leg_number;
        ELSIF leg.transaction_id <> header.id THEN
            RAISE EXCEPTION 'all legs of a transaction are written by one statement of their own'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'legs_come_in_one_statement';
        ELSIF leg.leg_number < first_number THEN
            first_number := leg.leg_number;
        END IF;
        leg_count := leg_count + 1;
        sum_micro_usd := sum_micro_usd + leg.amount_micro_usd;
        IF leg.amount_micro_usd = 0 THEN
            zero_count := zero_count + 1;
        END IF;
        IF leg.organisation_id <> header.organisation_id
            OR (leg.organisation_id IS NOT NULL AND header.organisation_id IS NULL)
        THEN
            RAISE EXCEPTION 'transaction % moves the money of a customer who is not its own', header.business_key
                USING ERRCODE = 'check_violation', CONSTRAINT = 'transaction_concerns_its_own_customer';
        END IF;
        CASE leg.kind
            WHEN 'customer_wallet' THEN wallet_micro_usd := wallet_micro_usd + leg.amount_micro_usd;
            WHEN 'customer_receivable' THEN owed_micro_usd := owed_micro_usd + leg.amount_micro_usd;
            WHEN 'revenue_fee' THEN earned_fee_micro_usd := earned_fee_micro_usd + leg.amount_micro_usd;
            WHEN 'revenue_usage', 'ceiling_credit' THEN earned_micro_usd := earned_micro_usd + leg.amount_micro_usd;
            ELSE
                IF leg.kind IS NULL THEN
                    RAISE EXCEPTION 'a leg names an account that does not exist'
                        USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'leg_has_an_account';
                END IF;
        END CASE;
    END LOOP;
    IF leg_count = 0 THEN
        RETURN NULL;
    END IF;
    IF first_number <> 1 THEN
        RAISE EXCEPTION 'all legs of a transaction are written by one statement of their own'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'legs_come_in_one_statement';
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
    IF header.kind = 'settlement' THEN
        SELECT id, public_id, batch_public_id, organisation_id, settled_at, line_count, total_micro_usd, fee_micro_usd,
               receivable_micro_usd,
               EXISTS (SELECT FROM billing_receiptline WHERE receipt_id = billing_receipt.id) AS has_lines,
               (SELECT sum(amount_micro_usd) FROM billing_hold
                WHERE organisation_id = billing_receipt.organisation_id
                  AND batch_public_id = billing_receipt.batch_public_id AND transaction_id = header.id
               ) AS settled_micro_usd
            INTO receipt FROM billing_receipt WHERE transaction_id = header.id;
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
            OR receipt.total_micro_usd <> -wallet_micro_usd - owed_micro_usd
            OR receipt.receivable_micro_usd <> -owed_micro_usd
            OR receipt.total_micro_usd <> earned_micro_usd + earned_fee_micro_usd
            OR receipt.fee_micro_usd <> earned_fee_micro_usd
        THEN
            RAISE EXCEPTION 'receipt % differs from its posting', receipt.public_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_equals_its_posting';
        END IF;
        -- A statement of its own: the bucket is known when it starts, so that it opens one partition and not all.
        IF receipt.total_micro_usd <> (
            SELECT coalesce(sum(usage_charge_micro_usd + fee_micro_usd), 0) FROM usage_fact
            WHERE receipt_id = receipt.id
              AND bucket_at = date_bin('15 minutes', receipt.settled_at, timestamptz '2000-01-01 00:00:00+00'))
        THEN
            RAISE EXCEPTION 'receipt % is not counted as usage', receipt.public_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_is_counted_as_usage';
        END IF;
        settled_micro_usd := coalesce(receipt.settled_micro_usd, 0);
    END IF;
    IF header.organisation_id IS NOT NULL THEN
        UPDATE billing_customerbalance
            SET posted_micro_usd = posted_micro_usd + wallet_micro_usd,
                held_micro_usd = held_micro_usd - settled_micro_usd,
                receivable_micro_usd = receivable_micro_usd - owed_micro_usd
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
    receipt record;
    line record;
    line_count bigint := 0;
    first_number integer;
    total_micro_usd bigint := 0;
    fee_micro_usd bigint := 0;
BEGIN
    FOR line IN
        SELECT receipt_id, line_number, kind, amount_micro_usd, CASE kind
               WHEN 'control_plane_fee' THEN
                   tokens IS NULL AND rate_micro_usd_per_mtok IS NULL AND amount_micro_usd >= 0
               WHEN 'ceiling_credit' THEN tokens IS NULL AND rate_micro_usd_per_mtok IS NULL AND amount_micro_usd < 0
               ELSE kind IN ('input', 'cached_input', 'cache_write_5m', 'cache_write_1h', 'output')
                   AND tokens > 0 AND rate_micro_usd_per_mtok >= 0 AND amount_micro_usd >= 0 END AS is_of_its_kind
        FROM new_lines
    LOOP
        IF line_count = 0 THEN
            SELECT billing_receipt.id, public_id, billing_receipt.line_count, billing_receipt.total_micro_usd,
                   billing_receipt.fee_micro_usd
                INTO receipt FROM billing_receipt WHERE billing_receipt.id = line.receipt_id;
            first_number := line.line_number;
        ELSIF line.line_number < first_number THEN
            first_number := line.line_number;
        END IF;
        IF line.receipt_id IS DISTINCT FROM receipt.id THEN
            RAISE EXCEPTION 'all lines of a receipt are written together with it, by one statement'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'lines_come_with_their_receipt';
        END IF;
        IF line.is_of_its_kind IS NOT TRUE THEN
            RAISE EXCEPTION 'receipt % has a line that is none: usage has tokens and a rate, only a credit is negative',
                receipt.public_id USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_line_is_of_its_kind';
        END IF;
        line_count := line_count + 1;
        total_micro_usd := total_micro_usd + line.amount_micro_usd;
        IF line.kind = 'control_plane_fee' THEN
            fee_micro_usd := fee_micro_usd + line.amount_micro_usd;
        END IF;
    END LOOP;
    IF line_count = 0 THEN
        RETURN NULL;
    END IF;
    IF first_number <> 1 OR line_count <> receipt.line_count THEN
        RAISE EXCEPTION 'all lines of a receipt are written together with it, by one statement'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'lines_come_with_their_receipt';
    END IF;
    IF total_micro_usd <> receipt.total_micro_usd OR fee_micro_usd <> receipt.fee_micro_usd THEN
        RAISE EXCEPTION 'receipt % differs from its lines', receipt.public_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_equals_its_lines';
    END IF;
    RETURN NULL;
END $$;

-- A table's CHECKs are read from their text and planned for every statement that writes to it; a guard is kept.
CREATE FUNCTION billing_guard_usage() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.bucket_at <> date_bin('15 minutes', NEW.settled_at, timestamptz '2000-01-01 00:00:00+00') THEN
        RAISE EXCEPTION 'usage settled at % is not of the bucket at %', NEW.settled_at, NEW.bucket_at
            USING ERRCODE = 'check_violation', CONSTRAINT = 'usage_is_in_its_bucket';
    END IF;
    IF least(NEW.request_count, NEW.input_tokens, NEW.cached_input_tokens, NEW.cache_write_tokens, NEW.output_tokens,
             NEW.fee_micro_usd) < 0
    THEN
        RAISE EXCEPTION 'usage of receipt % counts less than nothing', NEW.receipt_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'usage_counts_nothing_negative';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER usage_is_guarded BEFORE INSERT ON usage_fact FOR EACH ROW EXECUTE FUNCTION billing_guard_usage();
ALTER TABLE usage_fact DROP CONSTRAINT usage_is_in_its_bucket, DROP CONSTRAINT usage_counts_nothing_negative;
