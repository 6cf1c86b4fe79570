-- The journal's promises, kept against every writer, the owner included.
-- Errors carry the rule's name as their constraint. search_path is fixed so that no temporary table can stand in.

-- 1. Append-only --------------------------------------------------------------------------------------------------
CREATE FUNCTION billing_refuse_change() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '% on % is refused: it is append-only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation', CONSTRAINT = 'journal_is_append_only', TABLE = TG_TABLE_NAME;
END $$;

-- For each statement, not each row: an UPDATE that finds nothing is refused as well.
CREATE TRIGGER journal_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing_ledgeraccount
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();
CREATE TRIGGER journal_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing_ledgertransaction
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();
CREATE TRIGGER journal_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing_ledgerleg
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();
CREATE TRIGGER journal_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing_receipt
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();
CREATE TRIGGER journal_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing_receiptline
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();
CREATE TRIGGER hold_is_never_removed BEFORE DELETE OR TRUNCATE ON billing_hold
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();
CREATE TRIGGER balance_is_never_removed BEFORE DELETE OR TRUNCATE ON billing_customerbalance
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();

-- 2. A transaction balances -----------------------------------------------------------------------------------------
ALTER TABLE billing_ledgertransaction ADD COLUMN created_in xid8 NOT NULL DEFAULT pg_current_xact_id();

CREATE FUNCTION billing_stamp_transaction() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    NEW.created_in := pg_current_xact_id();
    NEW.booked_at := lanehouse_now();
    RETURN NEW;
END $$;
CREATE TRIGGER transaction_is_stamped BEFORE INSERT ON billing_ledgertransaction
    FOR EACH ROW EXECUTE FUNCTION billing_stamp_transaction();

-- Once per header, at commit. A settlement at zero has legs of zero, so that it too has its posting and its receipt.
CREATE FUNCTION billing_check_transaction() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
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
CREATE CONSTRAINT TRIGGER transaction_balances AFTER INSERT ON billing_ledgertransaction
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_check_transaction();

-- 3. Legs come with their header, and move the customer's balance ---------------------------------------------------
-- All legs of a header come in one statement: otherwise SET CONSTRAINTS IMMEDIATE would spend the header's check
-- early and a lone leg could follow in the same database transaction.
CREATE FUNCTION billing_take_legs() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    is_foreign boolean;
    is_late boolean;
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
    WITH moves AS (
        SELECT account.organisation_id,
               coalesce(sum(amount_micro_usd) FILTER (WHERE account.kind = 'customer_wallet'), 0) AS wallet,
               coalesce(sum(amount_micro_usd) FILTER (WHERE account.kind = 'customer_receivable'), 0) AS receivable
        FROM new_legs JOIN billing_ledgeraccount account ON account.id = new_legs.account_id
        WHERE account.organisation_id IS NOT NULL GROUP BY account.organisation_id
    ), moved AS (
        UPDATE billing_customerbalance balance
        SET posted_micro_usd = posted_micro_usd + moves.wallet,
            receivable_micro_usd = receivable_micro_usd - moves.receivable
        FROM moves WHERE balance.organisation_id = moves.organisation_id RETURNING 1
    )
    SELECT (SELECT count(*) FROM moves), (SELECT count(*) FROM moved) INTO owner_count, moved_count;
    IF moved_count <> owner_count THEN
        RAISE EXCEPTION 'a leg names a customer account without a balance'
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'customer_account_has_a_balance';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER legs_are_taken AFTER INSERT ON billing_ledgerleg
    REFERENCING NEW TABLE AS new_legs FOR EACH STATEMENT EXECUTE FUNCTION billing_take_legs();

-- 4. A hold has one exit, and holds move what is held -----------------------------------------------------------------
CREATE FUNCTION billing_guard_hold() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
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
CREATE TRIGGER hold_has_one_exit BEFORE INSERT OR UPDATE ON billing_hold
    FOR EACH ROW EXECUTE FUNCTION billing_guard_hold();

CREATE FUNCTION billing_move_held() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    moved_count bigint;
    owner_count bigint;
    sign integer := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
BEGIN
    WITH moves AS (
        SELECT organisation_id, sum(amount_micro_usd) AS amount FROM moved_holds GROUP BY organisation_id
    ), moved AS (
        UPDATE billing_customerbalance balance SET held_micro_usd = held_micro_usd + sign * moves.amount
        FROM moves WHERE balance.organisation_id = moves.organisation_id RETURNING 1
    )
    SELECT (SELECT count(*) FROM moves), (SELECT count(*) FROM moved) INTO owner_count, moved_count;
    IF moved_count <> owner_count THEN
        RAISE EXCEPTION 'a hold names an organisation without a balance'
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'hold_has_a_balance';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER hold_raises_held AFTER INSERT ON billing_hold
    REFERENCING NEW TABLE AS moved_holds FOR EACH STATEMENT EXECUTE FUNCTION billing_move_held();
-- Every update that passes the guard closes a hold.
CREATE TRIGGER closed_hold_lowers_held AFTER UPDATE ON billing_hold
    REFERENCING NEW TABLE AS moved_holds FOR EACH STATEMENT EXECUTE FUNCTION billing_move_held();

-- 5. The balance row follows; nobody moves it by hand -----------------------------------------------------------------
CREATE FUNCTION billing_guard_balance() RETURNS trigger
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
    RETURN NEW;
END $$;
CREATE TRIGGER balance_follows_the_journal BEFORE INSERT OR UPDATE ON billing_customerbalance
    FOR EACH ROW EXECUTE FUNCTION billing_guard_balance();
ALTER TABLE billing_customerbalance SET (fillfactor = 50);

-- 6. A receipt equals its lines and its posting -------------------------------------------------------------------------
CREATE FUNCTION billing_check_receipt() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
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
CREATE CONSTRAINT TRIGGER receipt_is_proven AFTER INSERT ON billing_receipt
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_check_receipt();

CREATE FUNCTION billing_take_lines() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
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
CREATE TRIGGER lines_are_taken AFTER INSERT ON billing_receiptline
    REFERENCING NEW TABLE AS new_lines FOR EACH STATEMENT EXECUTE FUNCTION billing_take_lines();

-- 7. What the application role may do -------------------------------------------------------------------------------------
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
        REVOKE UPDATE, DELETE, TRUNCATE ON billing_ledgeraccount, billing_ledgertransaction, billing_ledgerleg,
            billing_receipt, billing_receiptline FROM lanehouse_app;
        -- Holds and balances move through functions alone.
        REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON billing_hold, billing_customerbalance FROM lanehouse_app;
    END IF;
END $$;
