-- Settle a batch: close its holds, post the charge and the house's cost, write the receipt. Never refused for money:
-- the customer pays what the wallet has beside other batches' holds, the rest becomes a receivable.
--
-- p_lines: the receipt's lines in order. p_group_charges: {group_key: micro-USD}, what each hold is settled for at
-- most. p_payables: [{code, amount_micro_usd}], what provider accounts are owed, ordered by code (locks).
-- outcome: settled, replayed (the same body was settled before), conflict (another was).
CREATE FUNCTION billing_settle_batch(
    p_organisation_id bigint, p_batch_public_id text, p_receipt_public_id text, p_body_hash bytea,
    p_settled_at timestamptz, p_estimate_total_micro_usd bigint, p_usage_micro_usd bigint,
    p_ceiling_credit_micro_usd bigint, p_fee_micro_usd bigint, p_lines jsonb, p_group_charges jsonb, p_payables jsonb,
    OUT outcome text, OUT receipt_id bigint, OUT receivable_micro_usd bigint
)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    balance billing_customerbalance := billing_lock_wallet(p_organisation_id);
    key text := 'settle:' || p_batch_public_id;
    total_micro_usd bigint := p_usage_micro_usd - p_ceiling_credit_micro_usd + p_fee_micro_usd;
    earlier_hash bytea;
    new_id bigint;
    reserved_micro_usd bigint;
    wallet_micro_usd bigint;
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
    -- The batch's holds are closed: what is still held belongs to others and is left alone.
    SELECT least(total_micro_usd, posted_micro_usd - held_micro_usd - floor_micro_usd) INTO STRICT wallet_micro_usd
        FROM billing_customerbalance WHERE organisation_id = p_organisation_id;
    receivable_micro_usd := total_micro_usd - wallet_micro_usd;
    PERFORM billing_write_settlement_legs(
        new_id, p_organisation_id, wallet_micro_usd, receivable_micro_usd, p_usage_micro_usd, p_fee_micro_usd,
        p_ceiling_credit_micro_usd, p_payables);
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

-- One statement for all legs. A batch that moves no money at all has two legs of zero.
CREATE FUNCTION billing_write_settlement_legs(
    p_transaction_id bigint, p_organisation_id bigint, p_wallet_micro_usd bigint, p_receivable_micro_usd bigint,
    p_usage_micro_usd bigint, p_fee_micro_usd bigint, p_ceiling_credit_micro_usd bigint, p_payables jsonb
) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
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

DO $$
BEGIN
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
