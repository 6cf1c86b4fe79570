-- As they were.
DROP FUNCTION billing_held_micro_usd(bigint);
DROP FUNCTION billing_give_back_to_grants(billing_adjustment, bigint, bigint);

CREATE OR REPLACE FUNCTION billing_guard_grant() RETURNS trigger
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

CREATE OR REPLACE FUNCTION billing_expired_micro_usd(p_organisation_id bigint) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT coalesce(sum(amount_micro_usd - burned_micro_usd - expired_micro_usd), 0)::bigint FROM billing_grant
    WHERE organisation_id = p_organisation_id AND amount_micro_usd > burned_micro_usd + expired_micro_usd
      AND expires_at <= lanehouse_now()
$$;

CREATE OR REPLACE FUNCTION billing_expire_grants(p_organisation_id bigint) RETURNS void
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

CREATE OR REPLACE FUNCTION billing_burn_grants(
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

CREATE OR REPLACE FUNCTION billing_post_adjustment(
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
            -- What a payment or a credit brought is taken back from what was bought, never from what grants have left:
            -- a grant without its money would expire with the next payment's.
            IF NOT EXISTS (
                SELECT FROM billing_ledgertransaction WHERE id = p_adjustment.reverses_id AND kind = 'grant'
            ) THEN
                available_micro_usd := available_micro_usd
                    - billing_later_grants_micro_usd(organisation.id, '-infinity'::timestamptz);
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

DROP FUNCTION billing_grants_to_expire(bigint);
