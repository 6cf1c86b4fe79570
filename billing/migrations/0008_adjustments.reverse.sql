DROP FUNCTION billing_decide_adjustment(text, bigint, boolean, text);
DROP FUNCTION billing_request_adjustment(
    text, text, bigint, text, bigint, text, bigint, text, bigint, timestamptz, timestamptz, integer, bigint, bigint);
DROP FUNCTION billing_post_adjustment(billing_adjustment, bigint, text);
CREATE OR REPLACE FUNCTION billing_settle_batch(
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
CREATE OR REPLACE FUNCTION billing_available_micro_usd(p_organisation_id bigint) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT coalesce((
        SELECT posted_micro_usd - held_micro_usd - floor_micro_usd + coalesce((
            SELECT sum(amount_micro_usd) FROM billing_hold
            WHERE organisation_id = p_organisation_id AND state = 'open' AND expires_at <= lanehouse_now()
        ), 0)
        FROM billing_customerbalance WHERE organisation_id = p_organisation_id
    ), 0)::bigint
$$;
CREATE OR REPLACE FUNCTION billing_lock_wallet(p_organisation_id bigint) RETURNS billing_customerbalance
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    balance billing_customerbalance;
BEGIN
    SELECT * INTO balance FROM billing_customerbalance WHERE organisation_id = p_organisation_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM billing_open_wallet(p_organisation_id);
        SELECT * INTO STRICT balance FROM billing_customerbalance
            WHERE organisation_id = p_organisation_id FOR NO KEY UPDATE;
    END IF;
    -- Asked first: an update that finds nothing still costs its triggers.
    IF EXISTS (
        SELECT FROM billing_hold
        WHERE organisation_id = p_organisation_id AND state = 'open' AND expires_at <= lanehouse_now()
    ) THEN
        UPDATE billing_hold SET state = 'expired', closed_at = lanehouse_now()
            WHERE organisation_id = p_organisation_id AND state = 'open' AND expires_at <= lanehouse_now();
        SELECT * INTO STRICT balance FROM billing_customerbalance WHERE organisation_id = p_organisation_id;
    END IF;
    RETURN balance;
END $$;
DROP FUNCTION billing_later_grants_micro_usd(bigint, timestamptz);
DROP FUNCTION billing_burn_grants(bigint, bigint, bigint, timestamptz);
DROP FUNCTION billing_expire_grants(bigint);
DROP FUNCTION billing_expired_micro_usd(bigint);
DROP TRIGGER grant_is_only_used_up ON billing_grant;
DROP TRIGGER adjustment_is_decided_once ON billing_adjustment;
DROP TRIGGER journal_is_append_only ON billing_grantburn;
DROP TRIGGER grant_is_never_removed ON billing_grant;
DROP TRIGGER adjustment_is_never_removed ON billing_adjustment;
DROP FUNCTION billing_guard_grant();
DROP FUNCTION billing_guard_adjustment();
