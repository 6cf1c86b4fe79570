-- A settlement in few statements. What a statement costs to start is most of what a settlement costs: sums, sorts and
-- joins that look at five rows, and the table's CHECKs, which are read and planned anew each time. So each guard looks at
-- its rows once, and what is known before is not asked again.

-- Legs are taken by one plain sum. They come in one statement for each posting, numbered from 1: no second statement can
-- have a number 1. A posting concerns its header's customer and nobody else's balance; a settlement's legs
-- come last: they prove its receipt, which is there with its lines and is counted as usage, and lower what is held by the
-- holds that it closes, so that the balance moves once.
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

-- At commit: legs were proven when they came, so it is enough that they did.
CREATE OR REPLACE FUNCTION billing_check_transaction() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM billing_ledgerleg WHERE transaction_id = NEW.id) THEN
        RAISE EXCEPTION 'transaction % has no legs; it needs at least two', NEW.business_key
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transaction_has_two_legs';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION billing_stamp_transaction() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.kind NOT IN ('top_up', 'settlement', 'credit', 'debit', 'refund', 'write_off', 'reversal', 'grant',
                        'grant_expiry', 'provider_adjustment')
    THEN
        RAISE EXCEPTION '% is no kind of transaction', NEW.kind
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_transaction_kind_is_known';
    END IF;
    NEW.created_in := pg_current_xact_id();
    NEW.booked_at := lanehouse_now();
    RETURN NEW;
END $$;

-- A hold has one exit. One that is settled names the posting that is just being made, before that has its legs: these
-- lower what is held.
CREATE OR REPLACE FUNCTION billing_guard_hold() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
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
    ELSIF (NEW.expires_at IS NOT NULL AND NEW.expires_at <= lanehouse_now()) <> (NEW.state = 'expired') THEN
        RAISE EXCEPTION 'hold % cannot become %: the clock decides what has lapsed', OLD.id, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'hold_lapses_by_the_clock';
    END IF;
    IF NEW.amount_micro_usd < 0 THEN
        RAISE EXCEPTION 'a hold of % micro-USD', NEW.amount_micro_usd
            USING ERRCODE = 'check_violation', CONSTRAINT = 'hold_is_never_negative';
    END IF;
    IF (CASE NEW.state
        WHEN 'open' THEN num_nulls(NEW.closed_at, NEW.settled_micro_usd, NEW.transaction_id) = 3
        WHEN 'settled' THEN num_nulls(NEW.closed_at, NEW.settled_micro_usd, NEW.transaction_id) = 0
            AND NEW.settled_micro_usd BETWEEN 0 AND NEW.amount_micro_usd
        WHEN 'voided' THEN NEW.closed_at IS NOT NULL AND num_nulls(NEW.settled_micro_usd, NEW.transaction_id) = 2
        WHEN 'expired' THEN NEW.closed_at IS NOT NULL AND num_nulls(NEW.settled_micro_usd, NEW.transaction_id) = 2
        ELSE false END) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'hold % is neither open nor has it one exit', NEW.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'hold_is_open_or_has_one_exit';
    END IF;
    IF NEW.state = 'settled' AND NOT EXISTS (
        SELECT FROM billing_ledgertransaction header
        WHERE header.id = NEW.transaction_id AND header.kind = 'settlement' AND header.reference = NEW.batch_public_id
          AND header.organisation_id = NEW.organisation_id AND header.created_in = pg_current_xact_id()
          AND NOT EXISTS (SELECT FROM billing_ledgerleg leg WHERE leg.transaction_id = header.id)
    ) THEN
        RAISE EXCEPTION 'hold % is settled by a posting that is not made for it', NEW.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'hold_is_settled_by_its_posting';
    END IF;
    RETURN NEW;
END $$;

-- The floor stays a CHECK; these two are asked with the rest of what keeps the row.
CREATE OR REPLACE FUNCTION billing_guard_balance() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
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
    IF NEW.held_micro_usd < 0 THEN
        RAISE EXCEPTION 'organisation % would hold less than nothing', NEW.organisation_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'balance_never_holds_less_than_nothing';
    END IF;
    IF NEW.receivable_micro_usd < 0 THEN
        RAISE EXCEPTION 'organisation % would be owed by the house', NEW.organisation_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'balance_is_never_owed_by_the_house';
    END IF;
    RETURN NEW;
END $$;

-- What is voided or lapses comes back at once; what is settled, with its posting.
CREATE FUNCTION billing_return_held() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE billing_customerbalance SET held_micro_usd = held_micro_usd - NEW.amount_micro_usd
        WHERE organisation_id = NEW.organisation_id;
    RETURN NULL;
END $$;
DROP TRIGGER closed_hold_lowers_held ON billing_hold;
CREATE TRIGGER closed_hold_lowers_held AFTER UPDATE ON billing_hold
    FOR EACH ROW WHEN (NEW.state <> 'settled') EXECUTE FUNCTION billing_return_held();

-- Lines come like legs: by one statement for each receipt, numbered from 1, and are what the receipt says.
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

-- At commit: a receipt belongs to a settlement. That one's legs proved the rest, and found no other receipt.
CREATE OR REPLACE FUNCTION billing_check_receipt() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.usage_charge_micro_usd < 0 OR NEW.fee_micro_usd < 0 OR NEW.receivable_micro_usd < 0 THEN
        RAISE EXCEPTION 'receipt % pays out', NEW.public_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_never_pays_out';
    END IF;
    IF NEW.total_micro_usd <> NEW.usage_charge_micro_usd + NEW.fee_micro_usd THEN
        RAISE EXCEPTION 'receipt % does not add up', NEW.public_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_total_is_usage_and_fee';
    END IF;
    IF NOT EXISTS (SELECT FROM billing_ledgertransaction WHERE id = NEW.transaction_id AND kind = 'settlement') THEN
        RAISE EXCEPTION 'receipt % belongs to no settlement', NEW.public_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'receipt_equals_its_posting';
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER usage_counts_the_receipt ON billing_receipt;
DROP FUNCTION billing_check_usage();

-- Settle a batch: close its holds, post the charge and the house's cost, write the receipt, count it as usage. Never
-- refused for money: the customer pays what the wallet has beside other batches' holds, the rest becomes a receivable.
--
-- p_lines: the receipt's lines, numbered from 1. p_group_charges: {group_key: micro-USD}, what each hold is settled for at
-- most. p_payable_codes and p_payables_micro_usd: what provider accounts are owed, ordered by code. p_usage: what usage
-- counts, one for each model and lane, ordered by both. outcome: settled, replayed (the same body was settled before),
-- conflict (another was).
DROP FUNCTION billing_settle_batch(
    bigint, text, text, bytea, timestamptz, bigint, bigint, bigint, bigint, jsonb, jsonb, jsonb);
DROP FUNCTION billing_write_settlement_legs(bigint, bigint, bigint, bigint, bigint, bigint, bigint, jsonb);

-- An account that a settlement names for the first time.
CREATE FUNCTION billing_settlement_account(p_code text, p_book text, p_organisation_id bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    kind text := split_part(p_code, ':', 1);
BEGIN
    IF kind IN ('wallet', 'receivable') THEN
        RETURN billing_account(p_code, 'customer_' || kind, p_book, p_organisation_id);
    END IF;
    RETURN billing_account(p_code, kind, p_book, NULL);
END $$;

CREATE FUNCTION billing_settle_batch(
    p_organisation_id bigint, p_batch_public_id text, p_receipt_public_id text, p_body_hash bytea,
    p_settled_at timestamptz, p_api_key_id bigint, p_estimate_total_micro_usd bigint, p_usage_micro_usd bigint,
    p_ceiling_credit_micro_usd bigint, p_fee_micro_usd bigint, p_lines jsonb, p_group_charges jsonb,
    p_payable_codes text[], p_payables_micro_usd bigint[], p_usage jsonb,
    OUT outcome text, OUT receipt_id bigint, OUT receivable_micro_usd bigint
)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    key text := 'settle:' || p_batch_public_id;
    total_micro_usd bigint := p_usage_micro_usd - p_ceiling_credit_micro_usd + p_fee_micro_usd;
    free_micro_usd bigint;
    known record;
    new_id bigint;
    wallet_micro_usd bigint;
    cost_micro_usd bigint := 0;
    amounts bigint[];
    part_micro_usd bigint;
    place integer := 0;
    codes text[];
    moved bigint[];
BEGIN
    SELECT posted_micro_usd - held_micro_usd - floor_micro_usd INTO free_micro_usd FROM billing_customerbalance
        WHERE organisation_id = p_organisation_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM billing_lock_wallet(p_organisation_id);
    END IF;
    -- Asked after the lock, so that it sees what was waited for.
    SELECT organisation.public_id AS customer, organisation.kind AS book, held.reserved_micro_usd, held.open_micro_usd,
           held.open_count,
           EXISTS (
               SELECT FROM billing_grant WHERE organisation_id = p_organisation_id
               AND amount_micro_usd > burned_micro_usd + expired_micro_usd) AS has_grants,
           EXISTS (
               SELECT FROM billing_hold
               WHERE organisation_id = p_organisation_id AND state = 'open' AND expires_at <= lanehouse_now()
           ) OR EXISTS (
               SELECT FROM billing_grant WHERE organisation_id = p_organisation_id
               AND amount_micro_usd > burned_micro_usd + expired_micro_usd AND expires_at <= lanehouse_now()
           ) AS has_lapsed,
           (SELECT body_hash FROM billing_ledgertransaction WHERE business_key = key) AS earlier_hash
        INTO STRICT known
        FROM accounts_organisation organisation, (
            SELECT coalesce(sum(amount_micro_usd), 0) AS reserved_micro_usd,
                   coalesce(sum(amount_micro_usd) FILTER (WHERE state = 'open'), 0) AS open_micro_usd,
                   count(*) FILTER (WHERE state = 'open') AS open_count
            FROM billing_hold
            WHERE organisation_id = p_organisation_id AND batch_public_id = p_batch_public_id
        ) held
        WHERE organisation.id = p_organisation_id;
    IF known.earlier_hash IS NOT NULL THEN
        outcome := CASE WHEN known.earlier_hash = p_body_hash THEN 'replayed' ELSE 'conflict' END;
        SELECT receipt.id, receipt.receivable_micro_usd INTO receipt_id, receivable_micro_usd
            FROM billing_receipt receipt WHERE receipt.batch_public_id = p_batch_public_id;
        RETURN;
    END IF;
    -- What is held beside this batch's own holds belongs to others and is left alone.
    free_micro_usd := free_micro_usd + known.open_micro_usd;
    IF known.has_lapsed OR free_micro_usd IS NULL THEN
        PERFORM billing_lock_wallet(p_organisation_id);
        SELECT posted_micro_usd - held_micro_usd - floor_micro_usd + (
                SELECT coalesce(sum(amount_micro_usd), 0) FROM billing_hold
                WHERE organisation_id = p_organisation_id AND batch_public_id = p_batch_public_id AND state = 'open')
            INTO STRICT free_micro_usd FROM billing_customerbalance WHERE organisation_id = p_organisation_id;
    END IF;
    IF known.has_grants THEN
        free_micro_usd := free_micro_usd - billing_later_grants_micro_usd(p_organisation_id, p_settled_at);
    END IF;
    wallet_micro_usd := greatest(0, least(total_micro_usd, free_micro_usd));
    receivable_micro_usd := total_micro_usd - wallet_micro_usd;
    INSERT INTO billing_ledgertransaction
        (business_key, body_hash, kind, organisation_id, reference, effective_at, booked_at)
        VALUES (key, p_body_hash, 'settlement', p_organisation_id, p_batch_public_id, p_settled_at, lanehouse_now())
        RETURNING id INTO new_id;
    IF known.open_count > 0 THEN
        UPDATE billing_hold hold
            SET state = 'settled', closed_at = lanehouse_now(), transaction_id = new_id,
                settled_micro_usd = greatest(least(
                    hold.amount_micro_usd, coalesce((p_group_charges ->> hold.group_key)::bigint, 0)), 0)
            WHERE hold.organisation_id = p_organisation_id AND hold.batch_public_id = p_batch_public_id
              AND hold.state = 'open';
    END IF;

    INSERT INTO billing_receipt
        (public_id, organisation_id, batch_public_id, transaction_id, settled_at, line_count, usage_charge_micro_usd,
         fee_micro_usd, total_micro_usd, reserved_micro_usd, released_micro_usd, receivable_micro_usd,
         estimate_total_micro_usd)
        VALUES (p_receipt_public_id, p_organisation_id, p_batch_public_id, new_id, p_settled_at,
                jsonb_array_length(p_lines), p_usage_micro_usd - p_ceiling_credit_micro_usd, p_fee_micro_usd,
                total_micro_usd, known.reserved_micro_usd, greatest(known.reserved_micro_usd - total_micro_usd, 0),
                receivable_micro_usd, p_estimate_total_micro_usd)
        RETURNING id INTO receipt_id;
    INSERT INTO billing_receiptline
        (receipt_id, line_number, group_key, lane_id, model_slug, kind, tokens, rate_micro_usd_per_mtok,
         amount_micro_usd, exact_pico_usd)
        SELECT receipt_id, line.*
        FROM jsonb_to_recordset(p_lines) AS line (
            line_number integer, group_key text, lane_id text, model_slug text, kind text, tokens bigint,
            rate_micro_usd_per_mtok bigint, amount_micro_usd bigint, exact_pico_usd numeric);
    WITH fact AS (
        INSERT INTO usage_fact
            (bucket_at, receipt_id, model_slug, lane_id, organisation_id, batch_public_id, api_key_id, settled_at,
             request_count, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens,
             usage_charge_micro_usd, fee_micro_usd)
        SELECT date_bin('15 minutes', p_settled_at, timestamptz '2000-01-01 00:00:00+00'), receipt_id, counted.model_slug,
               counted.lane_id, p_organisation_id, p_batch_public_id, coalesce(p_api_key_id, 0), p_settled_at,
               counted.request_count, counted.input_tokens, counted.cached_input_tokens, counted.cache_write_tokens,
               counted.output_tokens, counted.usage_charge_micro_usd, counted.fee_micro_usd
        FROM jsonb_to_recordset(p_usage) AS counted (
            model_slug text, lane_id text, request_count bigint, input_tokens bigint, cached_input_tokens bigint,
            cache_write_tokens bigint, output_tokens bigint, usage_charge_micro_usd bigint, fee_micro_usd bigint)
        RETURNING *
    )
    INSERT INTO usage_rollup
        (organisation_id, bucket_at, api_key_id, model_slug, lane_id, request_count, input_tokens, cached_input_tokens,
         cache_write_tokens, output_tokens, usage_charge_micro_usd, fee_micro_usd)
        SELECT organisation_id, bucket_at, api_key_id, model_slug, lane_id, request_count, input_tokens,
               cached_input_tokens, cache_write_tokens, output_tokens, usage_charge_micro_usd, fee_micro_usd
        FROM fact
        ON CONFLICT (organisation_id, bucket_at, api_key_id, model_slug, lane_id) DO UPDATE SET
            request_count = usage_rollup.request_count + excluded.request_count,
            input_tokens = usage_rollup.input_tokens + excluded.input_tokens,
            cached_input_tokens = usage_rollup.cached_input_tokens + excluded.cached_input_tokens,
            cache_write_tokens = usage_rollup.cache_write_tokens + excluded.cache_write_tokens,
            output_tokens = usage_rollup.output_tokens + excluded.output_tokens,
            usage_charge_micro_usd = usage_rollup.usage_charge_micro_usd + excluded.usage_charge_micro_usd,
            fee_micro_usd = usage_rollup.fee_micro_usd + excluded.fee_micro_usd;
    -- Last: legs prove what was written above.
    FOREACH part_micro_usd IN ARRAY p_payables_micro_usd LOOP
        cost_micro_usd := cost_micro_usd + part_micro_usd;
    END LOOP;
    amounts := ARRAY[-wallet_micro_usd, p_usage_micro_usd, -receivable_micro_usd, p_fee_micro_usd,
                     -p_ceiling_credit_micro_usd, -cost_micro_usd] || p_payables_micro_usd;
    FOREACH part_micro_usd IN ARRAY amounts LOOP
        place := place + 1;
        -- A batch that moves no money at all has two legs of zero.
        CONTINUE WHEN part_micro_usd = 0 AND (place > 2 OR total_micro_usd <> 0 OR cost_micro_usd <> 0);
        codes := codes || CASE place
            WHEN 1 THEN 'wallet:' || known.customer
            WHEN 2 THEN 'revenue_usage:' || known.book
            WHEN 3 THEN 'receivable:' || known.customer
            WHEN 4 THEN 'revenue_fee:' || known.book
            WHEN 5 THEN 'ceiling_credit:' || known.book
            WHEN 6 THEN 'cost_of_service:' || known.book
            ELSE 'provider_payable:' || known.book || ':' || p_payable_codes[place - 6] END;
        moved := moved || part_micro_usd;
    END LOOP;
    INSERT INTO billing_ledgerleg (transaction_id, leg_number, account_id, amount_micro_usd)
        SELECT new_id, leg_number,
               coalesce(account.id, billing_settlement_account(leg.code, known.book, p_organisation_id)), leg.amount
        FROM unnest(codes, moved) WITH ORDINALITY AS leg (code, amount, leg_number)
        LEFT JOIN billing_ledgeraccount account ON account.code = leg.code;
    IF known.has_grants AND wallet_micro_usd > 0 THEN
        PERFORM billing_burn_grants(p_organisation_id, new_id, wallet_micro_usd, p_settled_at);
    END IF;
    outcome := 'settled';
END $$;

DO $$
DECLARE
    name text;
BEGIN
    -- The functions that post decide how statements beneath them are planned, triggers included, so that these need not be
    -- told at each call (why: 0019_settlement_costs_less.sql).
    FOREACH name IN ARRAY ARRAY['billing_settle_batch', 'billing_check_transaction', 'billing_check_receipt',
        'billing_record_top_up', 'billing_post_adjustment'] LOOP
        EXECUTE format('ALTER FUNCTION %I SET plan_cache_mode = force_generic_plan', name);
        EXECUTE format('ALTER FUNCTION %I SET enable_seqscan = off', name);
        EXECUTE format('ALTER FUNCTION %I SET enable_hashjoin = off', name);
        EXECUTE format('ALTER FUNCTION %I SET enable_mergejoin = off', name);
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
        REVOKE EXECUTE ON FUNCTION billing_settlement_account(text, text, bigint),
            billing_settle_batch(bigint, text, text, bytea, timestamptz, bigint, bigint, bigint, bigint, bigint, jsonb,
                                 jsonb, text[], bigint[], jsonb) FROM PUBLIC;
        GRANT EXECUTE ON FUNCTION
            billing_settle_batch(bigint, text, text, bytea, timestamptz, bigint, bigint, bigint, bigint, bigint, jsonb,
                                 jsonb, text[], bigint[], jsonb) TO lanehouse_app;
    END IF;
END $$;
