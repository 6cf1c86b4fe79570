-- Each runs with its owner's rights, locks the customer's balance row first, and may be repeated.

-- An account by its code, made at its first use. House accounts differ per book, so play money stays apart.
CREATE FUNCTION billing_account(p_code text, p_kind text, p_book text, p_organisation_id bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    account_id bigint;
BEGIN
    SELECT id INTO account_id FROM billing_ledgeraccount WHERE code = p_code;
    IF account_id IS NULL THEN
        INSERT INTO billing_ledgeraccount (code, kind, book, organisation_id, created_at)
            VALUES (p_code, p_kind, p_book, p_organisation_id, lanehouse_now())
            ON CONFLICT (code) DO NOTHING RETURNING id INTO account_id;
        IF account_id IS NULL THEN
            SELECT id INTO STRICT account_id FROM billing_ledgeraccount WHERE code = p_code;
        END IF;
    END IF;
    RETURN account_id;
END $$;

CREATE FUNCTION billing_open_wallet(p_organisation_id bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    organisation record;
BEGIN
    SELECT public_id, kind INTO STRICT organisation FROM accounts_organisation WHERE id = p_organisation_id;
    INSERT INTO billing_customerbalance
        (organisation_id, posted_micro_usd, held_micro_usd, receivable_micro_usd, floor_micro_usd)
        VALUES (p_organisation_id, 0, 0, 0, 0) ON CONFLICT (organisation_id) DO NOTHING;
    PERFORM billing_account('wallet:' || organisation.public_id, 'customer_wallet', organisation.kind,
                            p_organisation_id);
    PERFORM billing_account('receivable:' || organisation.public_id, 'customer_receivable', organisation.kind,
                            p_organisation_id);
END $$;

-- Lock the balance row, opening the wallet where there is none, and let lapsed holds go: after this the row is true.
CREATE FUNCTION billing_lock_wallet(p_organisation_id bigint) RETURNS billing_customerbalance
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

-- What may be held now; lapsed holds do not count. Reads only, so it also serves the quote's first statement.
CREATE FUNCTION billing_available_micro_usd(p_organisation_id bigint) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT coalesce((
        SELECT posted_micro_usd - held_micro_usd - floor_micro_usd + coalesce((
            SELECT sum(amount_micro_usd) FROM billing_hold
            WHERE organisation_id = p_organisation_id AND state = 'open' AND expires_at <= lanehouse_now()
        ), 0)
        FROM billing_customerbalance WHERE organisation_id = p_organisation_id
    ), 0)::bigint
$$;

-- Hold credit for all model groups of a batch, or for none.
-- outcome: held, replayed (the same holds were placed before), conflict (others were), blocked, insufficient.
CREATE FUNCTION billing_place_holds(
    p_organisation_id bigint, p_batch_public_id text, p_group_keys text[], p_amounts_micro_usd bigint[],
    p_expires_at timestamptz, OUT outcome text, OUT available_micro_usd bigint, OUT receivable_micro_usd bigint
)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    balance billing_customerbalance := billing_lock_wallet(p_organisation_id);
    asked_micro_usd numeric := (SELECT coalesce(sum(amount), 0) FROM unnest(p_amounts_micro_usd) AS amount);
    placed_count bigint;
    differing_count bigint;
BEGIN
    available_micro_usd := balance.posted_micro_usd - balance.held_micro_usd - balance.floor_micro_usd;
    receivable_micro_usd := balance.receivable_micro_usd;
    SELECT count(hold.id),
           count(*) FILTER (WHERE hold.amount_micro_usd IS DISTINCT FROM asked.amount_micro_usd)
        INTO placed_count, differing_count
        FROM unnest(p_group_keys, p_amounts_micro_usd) AS asked (group_key, amount_micro_usd)
        FULL JOIN (
            SELECT * FROM billing_hold
            WHERE organisation_id = p_organisation_id AND batch_public_id = p_batch_public_id
        ) hold ON hold.group_key = asked.group_key;
    IF placed_count > 0 THEN
        outcome := CASE WHEN differing_count = 0 THEN 'replayed' ELSE 'conflict' END;
    ELSIF receivable_micro_usd > 0
        OR EXISTS (SELECT FROM accounts_organisation WHERE id = p_organisation_id AND billing_blocked_at IS NOT NULL)
    THEN
        outcome := 'blocked';
    ELSIF asked_micro_usd > available_micro_usd THEN
        outcome := 'insufficient';
    ELSE
        INSERT INTO billing_hold
            (organisation_id, batch_public_id, group_key, amount_micro_usd, state, expires_at, created_at)
            SELECT p_organisation_id, p_batch_public_id, asked.group_key, asked.amount_micro_usd, 'open',
                   p_expires_at, lanehouse_now()
            FROM unnest(p_group_keys, p_amounts_micro_usd) AS asked (group_key, amount_micro_usd);
        available_micro_usd := available_micro_usd - asked_micro_usd;
        outcome := 'held';
    END IF;
END $$;

-- Give one group's hold back. However often it is called, the answer is how that hold ended.
CREATE FUNCTION billing_void_hold(p_organisation_id bigint, p_batch_public_id text, p_group_key text)
    RETURNS TABLE (state text, amount_micro_usd bigint, closed_at timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM billing_lock_wallet(p_organisation_id);
    UPDATE billing_hold hold SET state = 'voided', closed_at = lanehouse_now()
        WHERE hold.organisation_id = p_organisation_id AND hold.batch_public_id = p_batch_public_id
          AND hold.group_key = p_group_key AND hold.state = 'open';
    RETURN QUERY SELECT hold.state::text, hold.amount_micro_usd, hold.closed_at FROM billing_hold hold
        WHERE hold.organisation_id = p_organisation_id AND hold.batch_public_id = p_batch_public_id
          AND hold.group_key = p_group_key;
END $$;

-- Money that came in; what is owed is paid first. outcome: recorded, replayed, conflict.
CREATE FUNCTION billing_record_top_up(
    p_organisation_id bigint, p_reference text, p_amount_micro_usd bigint, p_effective_at timestamptz,
    p_body_hash bytea, p_recorded_by_id bigint,
    OUT outcome text, OUT transaction_id bigint, OUT wallet_micro_usd bigint, OUT receivable_micro_usd bigint
)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    balance billing_customerbalance := billing_lock_wallet(p_organisation_id);
    organisation accounts_organisation;
    earlier billing_ledgertransaction;
    wallet_id bigint;
    receivable_id bigint;
    new_id bigint;
BEGIN
    SELECT * INTO STRICT organisation FROM accounts_organisation WHERE id = p_organisation_id;
    wallet_id := billing_account('wallet:' || organisation.public_id, 'customer_wallet', organisation.kind,
                                 p_organisation_id);
    receivable_id := billing_account('receivable:' || organisation.public_id, 'customer_receivable',
                                     organisation.kind, p_organisation_id);
    SELECT * INTO earlier FROM billing_ledgertransaction header
        WHERE header.business_key = 'top_up:' || organisation.public_id || ':' || p_reference;
    IF FOUND THEN
        outcome := CASE WHEN earlier.body_hash = p_body_hash THEN 'replayed' ELSE 'conflict' END;
        transaction_id := earlier.id;
        SELECT coalesce(sum(leg.amount_micro_usd) FILTER (WHERE leg.account_id = wallet_id), 0),
               coalesce(sum(leg.amount_micro_usd) FILTER (WHERE leg.account_id = receivable_id), 0)
            INTO wallet_micro_usd, receivable_micro_usd
            FROM billing_ledgerleg leg WHERE leg.transaction_id = earlier.id;
        RETURN;
    END IF;
    receivable_micro_usd := least(p_amount_micro_usd, balance.receivable_micro_usd);
    wallet_micro_usd := p_amount_micro_usd - receivable_micro_usd;
    INSERT INTO billing_ledgertransaction
        (business_key, body_hash, kind, organisation_id, reference, recorded_by_id, effective_at, booked_at)
        VALUES ('top_up:' || organisation.public_id || ':' || p_reference, p_body_hash, 'top_up', p_organisation_id,
                p_reference, p_recorded_by_id, p_effective_at, lanehouse_now())
        RETURNING id INTO new_id;
    INSERT INTO billing_ledgerleg (transaction_id, leg_number, account_id, amount_micro_usd)
        SELECT new_id, row_number() OVER (ORDER BY place), account_id, amount
        FROM (VALUES
            (1, wallet_id, wallet_micro_usd),
            (2, receivable_id, receivable_micro_usd),
            (3, billing_account('top_up_clearing:' || organisation.kind, 'top_up_clearing', organisation.kind, NULL),
             -p_amount_micro_usd)
        ) AS leg (place, account_id, amount) WHERE amount <> 0;
    outcome := 'recorded';
    transaction_id := new_id;
END $$;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
        REVOKE EXECUTE ON FUNCTION
            billing_account(text, text, text, bigint),
            billing_lock_wallet(bigint),
            billing_open_wallet(bigint),
            billing_available_micro_usd(bigint),
            billing_place_holds(bigint, text, text[], bigint[], timestamptz),
            billing_void_hold(bigint, text, text),
            billing_record_top_up(bigint, text, bigint, timestamptz, bytea, bigint)
            FROM PUBLIC;
        GRANT EXECUTE ON FUNCTION
            billing_open_wallet(bigint),
            billing_available_micro_usd(bigint),
            billing_place_holds(bigint, text, text[], bigint[], timestamptz),
            billing_void_hold(bigint, text, text),
            billing_record_top_up(bigint, text, bigint, timestamptz, bytea, bigint)
            TO lanehouse_app;
    END IF;
END $$;
