-- As it was before.
DROP TRIGGER closed_hold_lowers_held ON billing_hold;
DROP FUNCTION billing_return_held();
DROP FUNCTION billing_settle_batch(bigint, text, text, bytea, timestamptz, bigint, bigint, bigint, bigint, bigint, jsonb, jsonb,
    text[], bigint[], jsonb);
DROP FUNCTION billing_settlement_account(text, text, bigint);

CREATE OR REPLACE FUNCTION billing_take_legs()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO public, pg_temp
 SET plan_cache_mode TO force_generic_plan
 SET enable_seqscan TO off
 SET enable_hashjoin TO off
 SET enable_mergejoin TO off
AS $$
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

CREATE OR REPLACE FUNCTION billing_check_transaction()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO public, pg_temp
 SET plan_cache_mode TO force_generic_plan
 SET enable_seqscan TO off
 SET enable_hashjoin TO off
 SET enable_mergejoin TO off
AS $$
DECLARE
    leg_count bigint;
    zero_count bigint;
    sum_micro_usd numeric;
BEGIN
    SELECT count(*), count(*) FILTER (WHERE amount_micro_usd = 0), coalesce(sum(amount_micro_usd), 0)
        INTO leg_count, zero_count, sum_micro_usd FROM billing_ledgerleg WHERE transaction_id = NEW.id;
    IF leg_count < 2 THEN
        RAISE EXCEPTION 'transaction % has % legs; it needs at least two', NEW.business_key, leg_count
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transaction_has_two_legs';
    END IF;
    IF sum_micro_usd <> 0 THEN
        RAISE EXCEPTION 'the legs of transaction % sum to % micro-USD', NEW.business_key, sum_micro_usd
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transaction_sums_to_zero';
    END IF;
    IF zero_count > 0 AND (zero_count < leg_count OR NEW.kind <> 'settlement') THEN
        RAISE EXCEPTION 'transaction % has a leg of zero', NEW.business_key
            USING ERRCODE = 'check_violation', CONSTRAINT = 'leg_is_never_zero';
    END IF;
    IF NEW.kind = 'settlement' AND NOT EXISTS (SELECT FROM billing_receipt WHERE transaction_id = NEW.id) THEN
        RAISE EXCEPTION 'settlement % has no receipt', NEW.business_key
            USING ERRCODE = 'check_violation', CONSTRAINT = 'settlement_has_a_receipt';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION billing_stamp_transaction()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO public, pg_temp
AS $$
BEGIN
    NEW.created_in := pg_current_xact_id();
    NEW.booked_at := lanehouse_now();
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION billing_guard_hold()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO public, pg_temp
AS $$
DECLARE
    lapsed boolean := coalesce(NEW.expires_at <= lanehouse_now(), false);
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'open' THEN
            RAISE EXCEPTION 'a hold begins open' USING ERRCODE = 'check_violation', CONSTRAINT = 'hold_begins_open';
        END IF;
    ELSIF OLD.state <> 'open' OR NEW.state = 'open'
        OR (NEW.id, NEW.organisation_id, NEW.batch_public_id, NEW.group_key, NEW.amount_micro_usd, NEW.expires_at,
            NEW.created_at)
        IS DISTINCT FROM
           (OLD.id, OLD.organisation_id, OLD.batch_public_id, OLD.group_key, OLD.amount_micro_usd, OLD.expires_at,
            OLD.created_at)
    THEN
        RAISE EXCEPTION 'hold % is %; a hold has one exit and changes in nothing else', OLD.id, OLD.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'hold_has_one_exit';
    ELSIF lapsed <> (NEW.state = 'expired') THEN
        RAISE EXCEPTION 'hold % cannot become %: the clock decides what has lapsed', OLD.id, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'hold_lapses_by_the_clock';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION billing_guard_balance()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO public, pg_temp
AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF (NEW.posted_micro_usd, NEW.held_micro_usd, NEW.receivable_micro_usd) <> (0, 0, 0) THEN
            RAISE EXCEPTION 'a balance begins at zero'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'balance_follows_the_journal';
        END IF;
    ELSIF NEW.organisation_id <> OLD.organisation_id
        -- 1 is this trigger alone: the UPDATE came from a statement, not from the triggers on legs and holds.
        OR (pg_trigger_depth() < 2 AND (NEW.posted_micro_usd, NEW.held_micro_usd, NEW.receivable_micro_usd)
            IS DISTINCT FROM (OLD.posted_micro_usd, OLD.held_micro_usd, OLD.receivable_micro_usd))
    THEN
        RAISE EXCEPTION 'a balance is moved by legs and holds alone'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'balance_follows_the_journal';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION billing_take_lines()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO public, pg_temp
 SET plan_cache_mode TO force_generic_plan
 SET enable_seqscan TO off
 SET enable_hashjoin TO off
 SET enable_mergejoin TO off
AS $$
BEGIN
    IF EXISTS (
        SELECT FROM (SELECT receipt_id FROM new_lines GROUP BY receipt_id) touched
        LEFT JOIN billing_receipt receipt ON receipt.id = touched.receipt_id
        LEFT JOIN billing_ledgertransaction header ON header.id = receipt.transaction_id
        WHERE header.created_in IS DISTINCT FROM pg_current_xact_id()
           OR receipt.line_count <> (SELECT count(*) FROM billing_receiptline line
                                     WHERE line.receipt_id = touched.receipt_id)
    ) THEN
        RAISE EXCEPTION 'all lines of a receipt are written together with it, by one statement'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'lines_come_with_their_receipt';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION billing_check_receipt()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO public, pg_temp
 SET plan_cache_mode TO force_generic_plan
 SET enable_seqscan TO off
 SET enable_hashjoin TO off
 SET enable_mergejoin TO off
AS $$
DECLARE
    line_count bigint;
    usage numeric;
    fee numeric;
    charged numeric;
    owed numeric;
    earned numeric;
    earned_fee numeric;
BEGIN
    SELECT count(*),
           coalesce(sum(amount_micro_usd) FILTER (WHERE kind <> 'control_plane_fee'), 0),
           coalesce(sum(amount_micro_usd) FILTER (WHERE kind = 'control_plane_fee'), 0)
        INTO line_count, usage, fee FROM billing_receiptline WHERE receipt_id = NEW.id;
    IF (line_count, usage, fee) IS DISTINCT FROM
        (NEW.line_count::bigint, NEW.usage_charge_micro_usd::numeric, NEW.fee_micro_usd::numeric)
    THEN
        RAISE EXCEPTION 'receipt % differs from its lines', NEW.public_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_equals_its_lines';
    END IF;
    SELECT coalesce(-sum(leg.amount_micro_usd) FILTER (WHERE account.organisation_id = NEW.organisation_id), 0),
           coalesce(-sum(leg.amount_micro_usd) FILTER (WHERE account.kind = 'customer_receivable'), 0),
           coalesce(sum(leg.amount_micro_usd) FILTER (
               WHERE account.kind IN ('revenue_usage', 'revenue_fee', 'ceiling_credit')), 0),
           coalesce(sum(leg.amount_micro_usd) FILTER (WHERE account.kind = 'revenue_fee'), 0)
        INTO charged, owed, earned, earned_fee
        FROM billing_ledgerleg leg JOIN billing_ledgeraccount account ON account.id = leg.account_id
        WHERE leg.transaction_id = NEW.transaction_id;
    IF (charged, owed, earned, earned_fee) IS DISTINCT FROM
        (NEW.total_micro_usd::numeric, NEW.receivable_micro_usd::numeric, NEW.total_micro_usd::numeric,
         NEW.fee_micro_usd::numeric)
    OR NOT EXISTS (
        SELECT FROM billing_ledgertransaction WHERE id = NEW.transaction_id AND kind = 'settlement'
        AND organisation_id = NEW.organisation_id AND business_key = 'settle:' || NEW.batch_public_id
    ) THEN
        RAISE EXCEPTION 'receipt % differs from its posting', NEW.public_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_equals_its_posting';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION billing_check_usage()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO public, pg_temp
 SET plan_cache_mode TO force_generic_plan
 SET enable_seqscan TO off
 SET enable_hashjoin TO off
 SET enable_mergejoin TO off
AS $$
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

CREATE OR REPLACE FUNCTION billing_settle_batch(
    p_organisation_id bigint, p_batch_public_id text, p_receipt_public_id text, p_body_hash bytea,
    p_settled_at timestamptz, p_estimate_total_micro_usd bigint, p_usage_micro_usd bigint,
    p_ceiling_credit_micro_usd bigint, p_fee_micro_usd bigint, p_lines jsonb, p_group_charges jsonb,
    p_payables jsonb, OUT outcome text, OUT receipt_id bigint, OUT receivable_micro_usd bigint
)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO public, pg_temp
 SET plan_cache_mode TO force_generic_plan
 SET enable_seqscan TO off
 SET enable_hashjoin TO off
 SET enable_mergejoin TO off
AS $$
DECLARE
    balance billing_customerbalance := billing_lock_wallet(p_organisation_id);
    key text := 'settle:' || p_batch_public_id;
    total_micro_usd bigint := p_usage_micro_usd - p_ceiling_credit_micro_usd + p_fee_micro_usd;
    earlier_hash bytea;
    new_id bigint;
    reserved_micro_usd bigint;
    wallet_micro_usd bigint;
    has_grants boolean;
BEGIN
    SELECT header.body_hash, receipt.id, receipt.receivable_micro_usd
        INTO earlier_hash, receipt_id, receivable_micro_usd
        FROM billing_ledgertransaction header JOIN billing_receipt receipt ON receipt.transaction_id = header.id
        WHERE header.business_key = key;
    IF FOUND THEN
        outcome := CASE WHEN earlier_hash = p_body_hash THEN 'replayed' ELSE 'conflict' END;
        RETURN;
    END IF;
    INSERT INTO billing_ledgertransaction
        (business_key, body_hash, kind, organisation_id, reference, effective_at, booked_at)
        VALUES (key, p_body_hash, 'settlement', p_organisation_id, p_batch_public_id, p_settled_at, lanehouse_now())
        RETURNING id INTO new_id;
    UPDATE billing_hold hold
        SET state = 'settled', closed_at = lanehouse_now(), transaction_id = new_id,
            settled_micro_usd = greatest(least(
                hold.amount_micro_usd, coalesce((p_group_charges ->> hold.group_key)::bigint, 0)), 0)
        WHERE hold.organisation_id = p_organisation_id AND hold.batch_public_id = p_batch_public_id
          AND hold.state = 'open';
    SELECT coalesce(sum(hold.amount_micro_usd), 0) INTO reserved_micro_usd FROM billing_hold hold
        WHERE hold.organisation_id = p_organisation_id AND hold.batch_public_id = p_batch_public_id;
    has_grants := EXISTS (
        SELECT FROM billing_grant
        WHERE organisation_id = p_organisation_id AND amount_micro_usd > burned_micro_usd + expired_micro_usd);
    -- The batch's holds are closed: what is still held belongs to others and is left alone.
    SELECT greatest(0, least(total_micro_usd, posted_micro_usd - held_micro_usd - floor_micro_usd - CASE
            WHEN has_grants THEN billing_later_grants_micro_usd(p_organisation_id, p_settled_at) ELSE 0 END))
        INTO STRICT wallet_micro_usd
        FROM billing_customerbalance WHERE organisation_id = p_organisation_id;
    receivable_micro_usd := total_micro_usd - wallet_micro_usd;
    PERFORM billing_write_settlement_legs(
        new_id, p_organisation_id, wallet_micro_usd, receivable_micro_usd, p_usage_micro_usd, p_fee_micro_usd,
        p_ceiling_credit_micro_usd, p_payables);
    IF has_grants AND wallet_micro_usd > 0 THEN
        PERFORM billing_burn_grants(p_organisation_id, new_id, wallet_micro_usd, p_settled_at);
    END IF;
    INSERT INTO billing_receipt
        (public_id, organisation_id, batch_public_id, transaction_id, settled_at, line_count, usage_charge_micro_usd,
         fee_micro_usd, total_micro_usd, reserved_micro_usd, released_micro_usd, receivable_micro_usd,
         estimate_total_micro_usd)
        VALUES (p_receipt_public_id, p_organisation_id, p_batch_public_id, new_id, p_settled_at,
                jsonb_array_length(p_lines), p_usage_micro_usd - p_ceiling_credit_micro_usd, p_fee_micro_usd,
                total_micro_usd, reserved_micro_usd, greatest(reserved_micro_usd - total_micro_usd, 0),
                receivable_micro_usd, p_estimate_total_micro_usd)
        RETURNING id INTO receipt_id;
    INSERT INTO billing_receiptline
        (receipt_id, line_number, group_key, lane_id, model_slug, kind, tokens, rate_micro_usd_per_mtok,
         amount_micro_usd, exact_pico_usd)
        SELECT receipt_id, line_number, line ->> 'group_key', line ->> 'lane_id', line ->> 'model_slug',
               line ->> 'kind', (line ->> 'tokens')::bigint, (line ->> 'rate_micro_usd_per_mtok')::bigint,
               (line ->> 'amount_micro_usd')::bigint, (line ->> 'exact_pico_usd')::numeric
        FROM jsonb_array_elements(p_lines) WITH ORDINALITY AS lines (line, line_number);
    outcome := 'settled';
END $$;

CREATE OR REPLACE FUNCTION billing_write_settlement_legs(
    p_transaction_id bigint, p_organisation_id bigint, p_wallet_micro_usd bigint, p_receivable_micro_usd
    bigint, p_usage_micro_usd bigint, p_fee_micro_usd bigint, p_ceiling_credit_micro_usd bigint, p_payables
    jsonb
)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO public, pg_temp
 SET plan_cache_mode TO force_generic_plan
 SET enable_seqscan TO off
 SET enable_hashjoin TO off
 SET enable_mergejoin TO off
AS $$
DECLARE
    house_book text;
    customer text;
BEGIN
    SELECT kind, public_id INTO STRICT house_book, customer FROM accounts_organisation WHERE id = p_organisation_id;
    WITH leg (place, code, kind, owner_id, amount) AS (
        VALUES
            (1::bigint, 'wallet:' || customer, 'customer_wallet', p_organisation_id, -p_wallet_micro_usd),
            (2, 'revenue_usage:' || house_book, 'revenue_usage', NULL, p_usage_micro_usd),
            (3, 'receivable:' || customer, 'customer_receivable', p_organisation_id, -p_receivable_micro_usd),
            (4, 'revenue_fee:' || house_book, 'revenue_fee', NULL, p_fee_micro_usd),
            (5, 'ceiling_credit:' || house_book, 'ceiling_credit', NULL, -p_ceiling_credit_micro_usd),
            (6, 'cost_of_service:' || house_book, 'cost_of_service', NULL, -(
                SELECT coalesce(sum((payable ->> 'amount_micro_usd')::bigint), 0)::bigint
                FROM jsonb_array_elements(p_payables) AS payable))
        UNION ALL
        SELECT 6 + place, 'provider_payable:' || house_book || ':' || (payable ->> 'code'), 'provider_payable', NULL,
               (payable ->> 'amount_micro_usd')::bigint
        FROM jsonb_array_elements(p_payables) WITH ORDINALITY AS payables (payable, place)
    ), moving AS (
        SELECT * FROM leg WHERE amount <> 0
        UNION ALL
        SELECT * FROM leg WHERE place <= 2 AND NOT EXISTS (SELECT FROM leg WHERE amount <> 0)
    )
    INSERT INTO billing_ledgerleg (transaction_id, leg_number, account_id, amount_micro_usd)
        SELECT p_transaction_id, row_number() OVER (ORDER BY place),
               coalesce(account.id, billing_account(moving.code, moving.kind, house_book, moving.owner_id)), amount
        FROM moving LEFT JOIN billing_ledgeraccount account ON account.code = moving.code;
END $$;

CREATE CONSTRAINT TRIGGER usage_counts_the_receipt AFTER INSERT ON billing_receipt
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_check_usage();
CREATE TRIGGER closed_hold_lowers_held AFTER UPDATE ON billing_hold
    REFERENCING NEW TABLE AS moved_holds FOR EACH STATEMENT EXECUTE FUNCTION billing_move_held();
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['billing_record_top_up', 'billing_post_adjustment'] LOOP
        EXECUTE format('ALTER FUNCTION %I RESET plan_cache_mode', name);
        EXECUTE format('ALTER FUNCTION %I RESET enable_seqscan', name);
        EXECUTE format('ALTER FUNCTION %I RESET enable_hashjoin', name);
        EXECUTE format('ALTER FUNCTION %I RESET enable_mergejoin', name);
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
        REVOKE EXECUTE ON FUNCTION
            billing_settle_batch(bigint, text, text, bytea, timestamptz, bigint, bigint, bigint, bigint, jsonb, jsonb,
                                 jsonb),
            billing_write_settlement_legs(bigint, bigint, bigint, bigint, bigint, bigint, bigint, jsonb)
            FROM PUBLIC;
        GRANT EXECUTE ON FUNCTION
            billing_settle_batch(bigint, text, text, bytea, timestamptz, bigint, bigint, bigint, bigint, jsonb, jsonb,
                                 jsonb)
            TO lanehouse_app;
    END IF;
END $$;
