-- Credit that grants had paid goes back to them, and what a hold keeps of an expired grant is kept for that hold alone.

-- 1. Expiry -----------------------------------------------------------------------------------------------------------
-- What is held now; lapsed holds hold nothing, swept or not.
CREATE FUNCTION billing_held_micro_usd(p_organisation_id bigint) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT coalesce((
        SELECT held_micro_usd - coalesce((
            SELECT sum(amount_micro_usd) FROM billing_hold
            WHERE organisation_id = p_organisation_id AND state = 'open' AND expires_at <= lanehouse_now()
        ), 0)
        FROM billing_customerbalance WHERE organisation_id = p_organisation_id
    ), 0)::bigint
$$;

-- What expired grants have to give up now. Holds that were placed before a grant expired keep credit of it: each of them
-- reserves grants in the order in which they burn, and bought credit last.
CREATE FUNCTION billing_grants_to_expire(p_organisation_id bigint)
    RETURNS TABLE (grant_id bigint, amount_micro_usd bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH queue AS (
        SELECT adjustment_id, expires_at, amount_micro_usd - burned_micro_usd - expired_micro_usd AS left_micro_usd,
               sum(amount_micro_usd - burned_micro_usd - expired_micro_usd)
                   OVER (ORDER BY priority, expires_at NULLS LAST, adjustment_id) AS upto_micro_usd
        FROM billing_grant
        WHERE organisation_id = p_organisation_id AND amount_micro_usd > burned_micro_usd + expired_micro_usd
    )
    SELECT queue.adjustment_id, least(queue.left_micro_usd, queue.upto_micro_usd - kept.amount)::bigint
    FROM queue CROSS JOIN LATERAL (
        SELECT coalesce(sum(hold.amount_micro_usd), 0) AS amount FROM billing_hold hold
        WHERE hold.organisation_id = p_organisation_id AND hold.state = 'open' AND hold.created_at < queue.expires_at
          AND (hold.expires_at IS NULL OR hold.expires_at > lanehouse_now())
    ) kept
    WHERE queue.expires_at <= lanehouse_now() AND queue.upto_micro_usd > kept.amount
    ORDER BY queue.expires_at, queue.adjustment_id
$$;

CREATE OR REPLACE FUNCTION billing_expired_micro_usd(p_organisation_id bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    -- Asked first, because every call of every customer comes by here.
    IF EXISTS (
        SELECT FROM billing_grant
        WHERE organisation_id = p_organisation_id AND amount_micro_usd > burned_micro_usd + expired_micro_usd
          AND expires_at <= lanehouse_now()
    ) THEN
        RETURN (SELECT coalesce(sum(amount_micro_usd), 0) FROM billing_grants_to_expire(p_organisation_id));
    END IF;
    RETURN 0;
END $$;

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
        SELECT g.*, adjustment.public_id, due.amount_micro_usd AS due_micro_usd,
               -- What came back after its end was there until then.
               greatest(g.expires_at, (
                   SELECT max(header.effective_at) FROM billing_grantburn burn
                   JOIN billing_ledgertransaction header ON header.id = burn.transaction_id
                   WHERE burn.grant_id = g.adjustment_id AND burn.amount_micro_usd < 0
               )) AS ended_at
        FROM billing_grants_to_expire(p_organisation_id) due
        JOIN billing_grant g ON g.adjustment_id = due.grant_id
        JOIN billing_adjustment adjustment ON adjustment.id = g.adjustment_id
    LOOP
        SELECT posted_micro_usd - held_micro_usd - floor_micro_usd INTO STRICT usable_micro_usd
            FROM billing_customerbalance WHERE organisation_id = p_organisation_id;
        breakage_micro_usd := least(given.due_micro_usd, usable_micro_usd);
        CONTINUE WHEN breakage_micro_usd <= 0;
        INSERT INTO billing_ledgertransaction
            (business_key, body_hash, kind, organisation_id, reference, effective_at, booked_at)
            -- What holds kept back expires later, in a posting of its own.
            VALUES ('grant_expiry:' || given.public_id || ':' || given.expired_micro_usd, sha256(given.public_id::bytea),
                    'grant_expiry', p_organisation_id, given.public_id, given.ended_at, lanehouse_now())
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

-- 2. Burning and giving back ------------------------------------------------------------------------------------------
-- As before, and an expired grant pays for a batch alone that was accepted before it expired.
CREATE OR REPLACE FUNCTION billing_burn_grants(
    p_organisation_id bigint, p_transaction_id bigint, p_amount_micro_usd bigint, p_used_at timestamptz
) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH accepted AS (
        SELECT min(hold.created_at) AS at FROM billing_hold hold
        WHERE hold.organisation_id = p_organisation_id AND hold.batch_public_id = (
            SELECT reference FROM billing_ledgertransaction WHERE id = p_transaction_id AND kind = 'settlement')
    ), there AS (
        SELECT adjustment_id, amount_micro_usd - burned_micro_usd - expired_micro_usd AS left_micro_usd, priority,
               expires_at
        FROM billing_grant CROSS JOIN accepted
        WHERE organisation_id = p_organisation_id AND amount_micro_usd > burned_micro_usd + expired_micro_usd
          AND effective_at <= p_used_at
          AND (expires_at IS NULL OR expires_at > lanehouse_now() OR expires_at > accepted.at)
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

CREATE OR REPLACE FUNCTION billing_guard_grant() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF to_jsonb(NEW) - '{burned_micro_usd,expired_micro_usd}'::text[]
        IS DISTINCT FROM to_jsonb(OLD) - '{burned_micro_usd,expired_micro_usd}'::text[]
        OR NEW.expired_micro_usd < OLD.expired_micro_usd
        -- It gets back what a burn of this very transaction says.
        OR (NEW.burned_micro_usd < OLD.burned_micro_usd AND NOT EXISTS (
            SELECT FROM billing_grantburn burn JOIN billing_ledgertransaction header ON header.id = burn.transaction_id
            WHERE burn.grant_id = OLD.adjustment_id AND header.created_in = pg_current_xact_id()
              AND burn.amount_micro_usd = NEW.burned_micro_usd - OLD.burned_micro_usd))
    THEN
        RAISE EXCEPTION 'grant % is only used up', OLD.adjustment_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'grant_is_only_used_up';
    END IF;
    RETURN NEW;
END $$;

-- Give the grants back what they had paid: a reversal all that its entry took from them (or take again what it gave
-- them); a credit of a receipt its part of it, bought credit first and the grant that burned last before the others.
-- Credit that comes back to an expired grant expires at once.
CREATE FUNCTION billing_give_back_to_grants(
    p_adjustment billing_adjustment, p_transaction_id bigint, p_wallet_micro_usd bigint
) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF p_adjustment.kind = 'reversal' THEN
        INSERT INTO billing_grantburn (grant_id, transaction_id, amount_micro_usd)
            SELECT grant_id, p_transaction_id, -amount_micro_usd FROM billing_grantburn
            WHERE transaction_id = p_adjustment.reverses_id;
    ELSE
        WITH receipt AS (
            SELECT transaction_id, total_micro_usd FROM billing_receipt WHERE id = p_adjustment.receipt_id
        ), credited AS (
            SELECT given.transaction_id, given.amount_micro_usd FROM billing_adjustment given
            WHERE given.receipt_id = p_adjustment.receipt_id AND given.kind = 'credit' AND given.state = 'posted'
              AND NOT EXISTS (
                  SELECT FROM billing_adjustment reversal
                  WHERE reversal.reverses_id = given.transaction_id AND reversal.state = 'posted')
        ), paid AS (
            SELECT burn.grant_id, burn.amount_micro_usd, burn.amount_micro_usd + coalesce((
                       SELECT sum(back.amount_micro_usd) FROM billing_grantburn back
                       JOIN credited ON credited.transaction_id = back.transaction_id
                       WHERE back.grant_id = burn.grant_id), 0) AS left_micro_usd
            FROM receipt JOIN billing_grantburn burn ON burn.transaction_id = receipt.transaction_id
        ), part AS (
            SELECT least(p_wallet_micro_usd,
                         greatest(before + p_adjustment.amount_micro_usd - other, 0) - greatest(before - other, 0))
                       AS amount
            FROM (SELECT (SELECT coalesce(sum(amount_micro_usd), 0) FROM credited) AS before,
                         (SELECT total_micro_usd FROM receipt)
                             - (SELECT coalesce(sum(amount_micro_usd), 0) FROM paid) AS other) AS sums
        ), queue AS (
            SELECT paid.grant_id, paid.left_micro_usd, sum(paid.left_micro_usd) OVER (
                       ORDER BY given.priority DESC, given.expires_at DESC NULLS FIRST, given.adjustment_id DESC
                   ) - paid.left_micro_usd AS before_micro_usd
            FROM paid JOIN billing_grant given ON given.adjustment_id = paid.grant_id
        )
        INSERT INTO billing_grantburn (grant_id, transaction_id, amount_micro_usd)
            SELECT queue.grant_id, p_transaction_id,
                   -least(queue.left_micro_usd, part.amount - queue.before_micro_usd)::bigint
            FROM queue CROSS JOIN part WHERE queue.before_micro_usd < part.amount AND queue.left_micro_usd > 0;
    END IF;
    UPDATE billing_grant given SET burned_micro_usd = burned_micro_usd + burn.amount_micro_usd
        FROM billing_grantburn burn
        WHERE burn.transaction_id = p_transaction_id AND given.adjustment_id = burn.grant_id;
    PERFORM billing_expire_grants(p_adjustment.organisation_id);
END $$;

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
            -- A credit that went to grants is taken back from the same ones, if they still have it.
            IF EXISTS (
                SELECT FROM billing_grantburn burn JOIN billing_grant given ON given.adjustment_id = burn.grant_id
                WHERE burn.transaction_id = p_adjustment.reverses_id
                  AND given.amount_micro_usd - given.burned_micro_usd - given.expired_micro_usd < -burn.amount_micro_usd
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
                    - billing_later_grants_micro_usd(organisation.id, '-infinity'::timestamptz)
                    + (SELECT coalesce(-sum(amount_micro_usd), 0) FROM billing_grantburn
                       WHERE transaction_id = p_adjustment.reverses_id AND amount_micro_usd < 0);
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
    IF p_adjustment.kind = 'reversal'
        OR (p_adjustment.kind = 'credit' AND p_adjustment.receipt_id IS NOT NULL AND wallet_micro_usd > 0)
    THEN
        PERFORM billing_give_back_to_grants(p_adjustment, new_id, wallet_micro_usd);
    ELSIF p_adjustment.kind = 'debit' AND wallet_micro_usd < 0 THEN
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

-- 3. What the application role may do ---------------------------------------------------------------------------------
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
        REVOKE EXECUTE ON FUNCTION billing_grants_to_expire(bigint), billing_held_micro_usd(bigint),
            billing_give_back_to_grants(billing_adjustment, bigint, bigint) FROM PUBLIC;
        GRANT EXECUTE ON FUNCTION billing_expired_micro_usd(bigint), billing_held_micro_usd(bigint) TO lanehouse_app;
    END IF;
END $$;
