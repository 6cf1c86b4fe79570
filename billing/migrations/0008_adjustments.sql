-- Adjustments and grants. As everywhere: the customer's balance row is locked first, and each call may be repeated.

-- 1. Guards -----------------------------------------------------------------------------------------------------------
CREATE TRIGGER adjustment_is_never_removed BEFORE DELETE OR TRUNCATE ON billing_adjustment
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();
CREATE TRIGGER grant_is_never_removed BEFORE DELETE OR TRUNCATE ON billing_grant
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();
CREATE TRIGGER journal_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing_grantburn
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();

CREATE FUNCTION billing_guard_adjustment() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.state <> 'requested' OR NEW.state = 'requested'
        OR to_jsonb(NEW) - '{state,decided_by_id,decided_at,decision_reason,transaction_id}'::text[]
        IS DISTINCT FROM to_jsonb(OLD) - '{state,decided_by_id,decided_at,decision_reason,transaction_id}'::text[]
    THEN
        RAISE EXCEPTION 'adjustment % is %; it is decided once and changes in nothing else', OLD.public_id, OLD.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'adjustment_is_decided_once';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER adjustment_is_decided_once BEFORE UPDATE ON billing_adjustment
    FOR EACH ROW EXECUTE FUNCTION billing_guard_adjustment();

CREATE FUNCTION billing_guard_grant() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF to_jsonb(NEW) - '{burned_micro_usd,expired_micro_usd}'::text[]
        IS DISTINCT FROM to_jsonb(OLD) - '{burned_micro_usd,expired_micro_usd}'::text[]
        OR NEW.burned_micro_usd < OLD.burned_micro_usd OR NEW.expired_micro_usd < OLD.expired_micro_usd
    THEN
        RAISE EXCEPTION 'grant % is only used up', OLD.adjustment_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'grant_is_only_used_up';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER grant_is_only_used_up BEFORE UPDATE ON billing_grant
    FOR EACH ROW EXECUTE FUNCTION billing_guard_grant();

-- 2. Grants -------------------------------------------------------------------------------------------------------------
-- What expired grants still have. Credit that is held when its grant expires may pay for what it is held for; what
-- comes back from the hold expires then.
CREATE FUNCTION billing_expired_micro_usd(p_organisation_id bigint) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT coalesce(sum(amount_micro_usd - burned_micro_usd - expired_micro_usd), 0)::bigint FROM billing_grant
    WHERE organisation_id = p_organisation_id AND amount_micro_usd > burned_micro_usd + expired_micro_usd
      AND expires_at <= lanehouse_now()
$$;

CREATE FUNCTION billing_expire_grants(p_organisation_id bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    given record;
    usable_micro_usd bigint;
    breakage_micro_usd bigint;
    new_id bigint;
    organisation accounts_organisation;
BEGIN
    SELECT * INTO STRICT organisation FROM accounts_organisation WHERE id = p_organisation_id;
    FOR given IN
        SELECT g.*, adjustment.public_id FROM billing_grant g
        JOIN billing_adjustment adjustment ON adjustment.id = g.adjustment_id
        WHERE g.organisation_id = p_organisation_id AND g.amount_micro_usd > g.burned_micro_usd + g.expired_micro_usd
          AND g.expires_at <= lanehouse_now()
        ORDER BY g.expires_at, g.adjustment_id
    LOOP
        SELECT posted_micro_usd - held_micro_usd - floor_micro_usd INTO STRICT usable_micro_usd
            FROM billing_customerbalance WHERE organisation_id = p_organisation_id;
        breakage_micro_usd := least(
            given.amount_micro_usd - given.burned_micro_usd - given.expired_micro_usd, usable_micro_usd);
        CONTINUE WHEN breakage_micro_usd <= 0;
        INSERT INTO billing_ledgertransaction
            (business_key, body_hash, kind, organisation_id, reference, effective_at, booked_at)
            -- What holds kept back expires later, in a posting of its own.
            VALUES ('grant_expiry:' || given.public_id || ':' || given.expired_micro_usd, sha256(given.public_id::bytea),
                    'grant_expiry', p_organisation_id, given.public_id, given.expires_at, lanehouse_now())
            RETURNING id INTO new_id;
        INSERT INTO billing_ledgerleg (transaction_id, leg_number, account_id, amount_micro_usd) VALUES
            (new_id, 1, billing_account('wallet:' || organisation.public_id, 'customer_wallet', organisation.kind,
                                        p_organisation_id), -breakage_micro_usd),
            (new_id, 2, billing_account('breakage:' || organisation.kind, 'breakage', organisation.kind, NULL),
             breakage_micro_usd);
        UPDATE billing_grant SET expired_micro_usd = expired_micro_usd + breakage_micro_usd
            WHERE adjustment_id = given.adjustment_id;
    END LOOP;
END $$;

-- Take a charge from grants, by priority, then what expires first, then what is older. A grant pays for nothing that
-- was used before it was effective. The rest is bought credit.
CREATE FUNCTION billing_burn_grants(
    p_organisation_id bigint, p_transaction_id bigint, p_amount_micro_usd bigint, p_used_at timestamptz
) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH there AS (
        SELECT adjustment_id, amount_micro_usd - burned_micro_usd - expired_micro_usd AS left_micro_usd, priority,
               expires_at
        FROM billing_grant
        WHERE organisation_id = p_organisation_id AND amount_micro_usd > burned_micro_usd + expired_micro_usd
          AND effective_at <= p_used_at
    ), queue AS (
        SELECT adjustment_id, left_micro_usd,
               sum(left_micro_usd) OVER (ORDER BY priority, expires_at NULLS LAST, adjustment_id) - left_micro_usd
                   AS before_micro_usd
        FROM there
    ), burn AS (
        SELECT adjustment_id, least(left_micro_usd, p_amount_micro_usd - before_micro_usd)::bigint AS amount
        FROM queue WHERE before_micro_usd < p_amount_micro_usd
    ), burned AS (
        UPDATE billing_grant g SET burned_micro_usd = burned_micro_usd + burn.amount
        FROM burn WHERE burn.adjustment_id = g.adjustment_id RETURNING g.adjustment_id
    )
    INSERT INTO billing_grantburn (grant_id, transaction_id, amount_micro_usd)
        SELECT adjustment_id, p_transaction_id, amount FROM burn
$$;

-- Grants that a charge may not touch: they became effective after what it is for.
CREATE FUNCTION billing_later_grants_micro_usd(p_organisation_id bigint, p_used_at timestamptz) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT coalesce(sum(amount_micro_usd - burned_micro_usd - expired_micro_usd), 0)::bigint FROM billing_grant
    WHERE organisation_id = p_organisation_id AND amount_micro_usd > burned_micro_usd + expired_micro_usd
      AND effective_at > p_used_at
$$;

-- As before, and expired grants go: after this the row is true.
CREATE OR REPLACE FUNCTION billing_lock_wallet(p_organisation_id bigint) RETURNS billing_customerbalance
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    balance billing_customerbalance;
    has_lapsed boolean;
    has_expired boolean;
BEGIN
    SELECT * INTO balance FROM billing_customerbalance WHERE organisation_id = p_organisation_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM billing_open_wallet(p_organisation_id);
        SELECT * INTO STRICT balance FROM billing_customerbalance
            WHERE organisation_id = p_organisation_id FOR NO KEY UPDATE;
    END IF;
    -- Asked first: an update that finds nothing still costs its triggers.
    SELECT EXISTS (
            SELECT FROM billing_hold
            WHERE organisation_id = p_organisation_id AND state = 'open' AND expires_at <= lanehouse_now()
        ), EXISTS (
            SELECT FROM billing_grant
            WHERE organisation_id = p_organisation_id AND amount_micro_usd > burned_micro_usd + expired_micro_usd
              AND expires_at <= lanehouse_now()
        ) INTO has_lapsed, has_expired;
    IF has_lapsed THEN
        UPDATE billing_hold SET state = 'expired', closed_at = lanehouse_now()
            WHERE organisation_id = p_organisation_id AND state = 'open' AND expires_at <= lanehouse_now();
    END IF;
    IF has_expired THEN
        PERFORM billing_expire_grants(p_organisation_id);
    END IF;
    IF has_lapsed OR has_expired THEN
        SELECT * INTO STRICT balance FROM billing_customerbalance WHERE organisation_id = p_organisation_id;
    END IF;
    RETURN balance;
END $$;

CREATE OR REPLACE FUNCTION billing_available_micro_usd(p_organisation_id bigint) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT coalesce((
        SELECT free_micro_usd - least(greatest(free_micro_usd, 0), billing_expired_micro_usd(p_organisation_id))
        FROM (
            SELECT posted_micro_usd - held_micro_usd - floor_micro_usd + coalesce((
                SELECT sum(amount_micro_usd) FROM billing_hold
                WHERE organisation_id = p_organisation_id AND state = 'open' AND expires_at <= lanehouse_now()
            ), 0) AS free_micro_usd
            FROM billing_customerbalance WHERE organisation_id = p_organisation_id
        ) AS balance
    ), 0)::bigint
$$;

-- As before, and grants are burned first.
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

-- 3. Adjustments ------------------------------------------------------------------------------------------------------
-- Post one. outcome: posted, insufficient (the wallet, or what is owed, does not carry it).
CREATE FUNCTION billing_post_adjustment(
    p_adjustment billing_adjustment, p_decided_by_id bigint, p_decision_reason text, OUT outcome text
)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    balance billing_customerbalance := billing_lock_wallet(p_adjustment.organisation_id);
    organisation accounts_organisation;
    available_micro_usd bigint;
    wallet_micro_usd bigint := 0;
    receivable_micro_usd bigint := 0;
    house_kind text;
    new_id bigint;
BEGIN
    SELECT * INTO STRICT organisation FROM accounts_organisation WHERE id = p_adjustment.organisation_id;
    available_micro_usd := balance.posted_micro_usd - balance.held_micro_usd - balance.floor_micro_usd;
    CASE p_adjustment.kind
        WHEN 'credit' THEN
            house_kind := 'adjustment';
            receivable_micro_usd := least(p_adjustment.amount_micro_usd, balance.receivable_micro_usd);
            wallet_micro_usd := p_adjustment.amount_micro_usd - receivable_micro_usd;
        WHEN 'debit' THEN
            house_kind := 'adjustment';
            wallet_micro_usd := -greatest(0, least(
                p_adjustment.amount_micro_usd,
                available_micro_usd - billing_later_grants_micro_usd(organisation.id, p_adjustment.effective_at)));
            receivable_micro_usd := -(p_adjustment.amount_micro_usd + wallet_micro_usd);
        WHEN 'refund' THEN
            house_kind := 'top_up_clearing';
            wallet_micro_usd := -p_adjustment.amount_micro_usd;
            -- Only what was bought is paid out.
            available_micro_usd := available_micro_usd
                - billing_later_grants_micro_usd(organisation.id, '-infinity'::timestamptz);
        WHEN 'write_off' THEN
            house_kind := 'write_off';
            receivable_micro_usd := p_adjustment.amount_micro_usd;
        WHEN 'grant' THEN
            house_kind := 'promotion';
            wallet_micro_usd := p_adjustment.amount_micro_usd;
        WHEN 'reversal' THEN
            SELECT coalesce(-sum(leg.amount_micro_usd) FILTER (WHERE account.kind = 'customer_wallet'), 0),
                   coalesce(-sum(leg.amount_micro_usd) FILTER (WHERE account.kind = 'customer_receivable'), 0)
                INTO wallet_micro_usd, receivable_micro_usd
                FROM billing_ledgerleg leg JOIN billing_ledgeraccount account ON account.id = leg.account_id
                WHERE leg.transaction_id = p_adjustment.reverses_id;
            IF EXISTS (
                SELECT FROM billing_grant given JOIN billing_adjustment earlier ON earlier.id = given.adjustment_id
                WHERE earlier.transaction_id = p_adjustment.reverses_id
                  AND given.burned_micro_usd + given.expired_micro_usd > 0
            ) THEN
                outcome := 'insufficient';
                RETURN;
            END IF;
    END CASE;
    IF wallet_micro_usd < least(0, -available_micro_usd)
        OR receivable_micro_usd > balance.receivable_micro_usd
    THEN
        outcome := 'insufficient';
        RETURN;
    END IF;
    INSERT INTO billing_ledgertransaction
        (business_key, body_hash, kind, organisation_id, reference, recorded_by_id, effective_at, booked_at)
        VALUES ('adjustment:' || p_adjustment.public_id, sha256(p_adjustment.public_id::bytea), p_adjustment.kind,
                organisation.id, p_adjustment.public_id, coalesce(p_decided_by_id, p_adjustment.requested_by_id),
                p_adjustment.effective_at, lanehouse_now())
        RETURNING id INTO new_id;
    IF p_adjustment.kind = 'reversal' THEN
        INSERT INTO billing_ledgerleg (transaction_id, leg_number, account_id, amount_micro_usd)
            SELECT new_id, leg_number, account_id, -amount_micro_usd FROM billing_ledgerleg
            WHERE transaction_id = p_adjustment.reverses_id;
        UPDATE billing_grant given SET expired_micro_usd = given.amount_micro_usd
            FROM billing_adjustment earlier
            WHERE earlier.transaction_id = p_adjustment.reverses_id AND given.adjustment_id = earlier.id;
    ELSE
        INSERT INTO billing_ledgerleg (transaction_id, leg_number, account_id, amount_micro_usd)
            SELECT new_id, row_number() OVER (ORDER BY place), account_id, amount
            FROM (VALUES
                (1, billing_account('wallet:' || organisation.public_id, 'customer_wallet', organisation.kind,
                                    organisation.id), wallet_micro_usd),
                (2, billing_account('receivable:' || organisation.public_id, 'customer_receivable',
                                    organisation.kind, organisation.id), receivable_micro_usd),
                (3, billing_account(house_kind || ':' || organisation.kind, house_kind, organisation.kind, NULL),
                 -wallet_micro_usd - receivable_micro_usd)
            ) AS leg (place, account_id, amount) WHERE amount <> 0;
    END IF;
    IF p_adjustment.kind = 'debit' AND wallet_micro_usd < 0 THEN
        PERFORM billing_burn_grants(organisation.id, new_id, -wallet_micro_usd, p_adjustment.effective_at);
    ELSIF p_adjustment.kind = 'grant' THEN
        INSERT INTO billing_grant
            (adjustment_id, organisation_id, amount_micro_usd, burned_micro_usd, expired_micro_usd, priority,
             effective_at, expires_at)
            VALUES (p_adjustment.id, organisation.id, p_adjustment.amount_micro_usd, 0, 0, p_adjustment.priority,
                    p_adjustment.effective_at, p_adjustment.expires_at);
    END IF;
    UPDATE billing_adjustment
        SET state = 'posted', transaction_id = new_id, decided_by_id = p_decided_by_id,
            decision_reason = p_decision_reason, decided_at = lanehouse_now()
        WHERE id = p_adjustment.id;
    outcome := 'posted';
END $$;

-- Ask for one. It is posted at once where its amount is not above the limit; a reversal's amount is its entry's.
-- outcome: requested, posted, replayed (the same key, the same wish), conflict (the same key, another wish),
-- insufficient, too_much (credits of a receipt above its total), not_reversible, reversed.
CREATE FUNCTION billing_request_adjustment(
    p_request_key text, p_public_id text, p_organisation_id bigint, p_kind text, p_amount_micro_usd bigint,
    p_reason text, p_receipt_id bigint, p_break_ref text, p_reverses_id bigint, p_effective_at timestamptz,
    p_expires_at timestamptz, p_priority integer, p_approval_above_micro_usd bigint, p_requested_by_id bigint,
    OUT outcome text, OUT public_id text
)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    wanted billing_adjustment;
    earlier billing_adjustment;
    reversed_kind text;
    amount bigint := p_amount_micro_usd;
BEGIN
    PERFORM billing_lock_wallet(p_organisation_id);
    IF p_kind = 'reversal' THEN
        SELECT kind INTO reversed_kind FROM billing_ledgertransaction
            WHERE id = p_reverses_id AND organisation_id = p_organisation_id;
        SELECT sum(leg.amount_micro_usd) FILTER (WHERE leg.amount_micro_usd > 0) INTO amount
            FROM billing_ledgerleg leg WHERE leg.transaction_id = p_reverses_id;
    END IF;
    SELECT * INTO earlier FROM billing_adjustment asked WHERE asked.request_key = p_request_key;
    IF FOUND THEN
        public_id := earlier.public_id;
        outcome := CASE WHEN
            (earlier.organisation_id, earlier.kind::text, earlier.amount_micro_usd, earlier.reason::text,
             earlier.receipt_id, earlier.break_ref::text, earlier.reverses_id, earlier.requested_by_id)
            IS NOT DISTINCT FROM
            (p_organisation_id, p_kind, amount, p_reason, p_receipt_id, p_break_ref, p_reverses_id, p_requested_by_id)
            THEN 'replayed' ELSE 'conflict' END;
        RETURN;
    END IF;
    IF p_kind = 'credit' AND p_receipt_id IS NOT NULL AND amount + (
        SELECT coalesce(sum(asked.amount_micro_usd), 0) FROM billing_adjustment asked
        WHERE asked.receipt_id = p_receipt_id AND asked.kind = 'credit' AND asked.state <> 'refused'
    ) > (SELECT total_micro_usd FROM billing_receipt WHERE id = p_receipt_id AND organisation_id = p_organisation_id)
    THEN
        outcome := 'too_much';
        RETURN;
    END IF;
    -- A receipt is final, and a reversal too: both are adjusted by a credit or a charge.
    IF p_kind = 'reversal' AND coalesce(reversed_kind, 'settlement') IN ('settlement', 'reversal', 'grant_expiry') THEN
        outcome := 'not_reversible';
        RETURN;
    END IF;
    IF p_kind = 'reversal' AND EXISTS (
        SELECT FROM billing_adjustment asked WHERE asked.reverses_id = p_reverses_id AND asked.state <> 'refused'
    ) THEN
        outcome := 'reversed';
        RETURN;
    END IF;
    INSERT INTO billing_adjustment
        (public_id, request_key, organisation_id, kind, amount_micro_usd, reason, receipt_id, break_ref, reverses_id,
         effective_at, expires_at, priority, needs_approval, state, requested_by_id, requested_at, decision_reason)
        VALUES (p_public_id, p_request_key, p_organisation_id, p_kind, amount, p_reason, p_receipt_id, p_break_ref,
                p_reverses_id, p_effective_at, p_expires_at, p_priority, amount > p_approval_above_micro_usd,
                'requested', p_requested_by_id, lanehouse_now(), '')
        RETURNING * INTO wanted;
    public_id := p_public_id;
    outcome := 'requested';
    IF NOT wanted.needs_approval THEN
        outcome := billing_post_adjustment(wanted, NULL, '');
        IF outcome <> 'posted' THEN
            -- The caller undoes the request with its transaction.
            RETURN;
        END IF;
    END IF;
END $$;

-- Post or refuse what waits. outcome: posted, refused, replayed (this person decided so before), conflict (it was
-- decided before), own_request, insufficient, unknown.
CREATE FUNCTION billing_decide_adjustment(
    p_public_id text, p_decided_by_id bigint, p_approves boolean, p_reason text, OUT outcome text
)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    asked billing_adjustment;
BEGIN
    SELECT * INTO asked FROM billing_adjustment WHERE public_id = p_public_id;
    IF NOT FOUND THEN
        outcome := 'unknown';
        RETURN;
    END IF;
    PERFORM billing_lock_wallet(asked.organisation_id);
    SELECT * INTO STRICT asked FROM billing_adjustment WHERE public_id = p_public_id FOR UPDATE;
    IF asked.state <> 'requested' THEN
        outcome := CASE
            WHEN asked.decided_by_id = p_decided_by_id AND (asked.state = 'posted') = p_approves THEN 'replayed'
            ELSE 'conflict' END;
    ELSIF asked.requested_by_id = p_decided_by_id THEN
        outcome := 'own_request';
    ELSIF p_approves THEN
        outcome := billing_post_adjustment(asked, p_decided_by_id, p_reason);
    ELSE
        UPDATE billing_adjustment
            SET state = 'refused', decided_by_id = p_decided_by_id, decision_reason = p_reason,
                decided_at = lanehouse_now()
            WHERE id = asked.id;
        outcome := 'refused';
    END IF;
END $$;

-- 4. What the application role may do ---------------------------------------------------------------------------------
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
        REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON billing_adjustment, billing_grant, billing_grantburn
            FROM lanehouse_app;
        REVOKE EXECUTE ON FUNCTION
            billing_expired_micro_usd(bigint),
            billing_expire_grants(bigint),
            billing_burn_grants(bigint, bigint, bigint, timestamptz),
            billing_later_grants_micro_usd(bigint, timestamptz),
            billing_post_adjustment(billing_adjustment, bigint, text),
            billing_request_adjustment(text, text, bigint, text, bigint, text, bigint, text, bigint, timestamptz,
                                       timestamptz, integer, bigint, bigint),
            billing_decide_adjustment(text, bigint, boolean, text)
            FROM PUBLIC;
        GRANT EXECUTE ON FUNCTION
            billing_lock_wallet(bigint),
            billing_request_adjustment(text, text, bigint, text, bigint, text, bigint, text, bigint, timestamptz,
                                       timestamptz, integer, bigint, bigint),
            billing_decide_adjustment(text, bigint, boolean, text)
            TO lanehouse_app;
    END IF;
END $$;
