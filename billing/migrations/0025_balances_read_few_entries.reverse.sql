-- As it was before.
DROP INDEX transaction_late_in_time;

CREATE OR REPLACE FUNCTION billing_take_snapshot(p_cutoff_at timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    since timestamptz;
    late record;
    moved_count bigint;
BEGIN
    LOCK TABLE billing_ledgersnapshot IN SHARE ROW EXCLUSIVE MODE;
    SELECT coalesce(max(cutoff_at), '-infinity') INTO since FROM billing_ledgersnapshot;
    IF since >= p_cutoff_at THEN
        RETURN NULL;
    END IF;
    -- Entries that came in since, but were effective before earlier snapshots: those are corrected.
    FOR late IN
        SELECT leg.account_id, header.effective_at, sum(leg.amount_micro_usd)::bigint AS amount
        FROM billing_ledgertransaction header JOIN billing_ledgerleg leg ON leg.transaction_id = header.id
        WHERE header.booked_at > since AND header.booked_at <= p_cutoff_at AND header.effective_at <= since
        GROUP BY leg.account_id, header.effective_at
    LOOP
        INSERT INTO billing_snapshotbalance (account_id, cutoff_at, booked_micro_usd, effective_micro_usd)
            SELECT late.account_id, first.cutoff_at, coalesce(before.booked_micro_usd, 0),
                   coalesce(before.effective_micro_usd, 0)
            FROM (SELECT min(cutoff_at) AS cutoff_at FROM billing_ledgersnapshot
                  WHERE cutoff_at >= late.effective_at) first
            LEFT JOIN LATERAL (
                SELECT * FROM billing_snapshotbalance balance
                WHERE balance.account_id = late.account_id AND balance.cutoff_at <= first.cutoff_at
                ORDER BY balance.cutoff_at DESC LIMIT 1
            ) before ON true
            ON CONFLICT (account_id, cutoff_at) DO NOTHING;
        UPDATE billing_snapshotbalance SET effective_micro_usd = effective_micro_usd + late.amount
            WHERE account_id = late.account_id AND cutoff_at >= late.effective_at;
    END LOOP;
    WITH move AS (
        SELECT leg.account_id,
               coalesce(sum(leg.amount_micro_usd) FILTER (WHERE header.booked_at > since), 0) AS booked,
               coalesce(sum(leg.amount_micro_usd) FILTER (
                   WHERE header.effective_at > since AND header.effective_at <= p_cutoff_at), 0) AS effective
        FROM billing_ledgertransaction header JOIN billing_ledgerleg leg ON leg.transaction_id = header.id
        WHERE header.booked_at <= p_cutoff_at
          AND (header.booked_at > since OR (header.effective_at > since AND header.effective_at <= p_cutoff_at))
        GROUP BY leg.account_id
    )
    INSERT INTO billing_snapshotbalance (account_id, cutoff_at, booked_micro_usd, effective_micro_usd)
        SELECT move.account_id, p_cutoff_at, coalesce(before.booked_micro_usd, 0) + move.booked,
               coalesce(before.effective_micro_usd, 0) + move.effective
        FROM move LEFT JOIN LATERAL (
            SELECT * FROM billing_snapshotbalance balance WHERE balance.account_id = move.account_id
            ORDER BY balance.cutoff_at DESC LIMIT 1
        ) before ON true;
    GET DIAGNOSTICS moved_count = ROW_COUNT;
    INSERT INTO billing_ledgersnapshot (cutoff_at, made_at) VALUES (p_cutoff_at, lanehouse_now());
    RETURN moved_count;
END $$;

CREATE OR REPLACE FUNCTION billing_balances_as_of(p_account_ids bigint[], p_at timestamptz, p_axis text)
    RETURNS TABLE (account_id bigint, balance_micro_usd bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp
    SET plan_cache_mode = force_custom_plan SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    base timestamptz;
    newest timestamptz;
BEGIN
    SELECT coalesce(max(cutoff_at) FILTER (WHERE cutoff_at <= p_at), '-infinity'), coalesce(max(cutoff_at), '-infinity')
        INTO base, newest FROM billing_ledgersnapshot;
    RETURN QUERY
    WITH wanted AS (
        SELECT account.id FROM billing_ledgeraccount account
        WHERE p_account_ids IS NULL OR account.id = ANY (p_account_ids)
    ), moved AS (
        SELECT leg.account_id AS id, sum(leg.amount_micro_usd) AS amount
        FROM billing_ledgertransaction header JOIN billing_ledgerleg leg ON leg.transaction_id = header.id
        WHERE p_axis = 'booked' AND header.booked_at > base AND header.booked_at <= p_at
        GROUP BY 1
        UNION ALL
        SELECT leg.account_id, sum(leg.amount_micro_usd)
        FROM billing_ledgertransaction header JOIN billing_ledgerleg leg ON leg.transaction_id = header.id
        WHERE p_axis = 'effective' AND header.effective_at > base AND header.effective_at <= p_at
        GROUP BY 1
        UNION ALL
        -- Booked since the newest snapshot, effective before the base: no snapshot knows it yet.
        SELECT leg.account_id, sum(leg.amount_micro_usd)
        FROM billing_ledgertransaction header JOIN billing_ledgerleg leg ON leg.transaction_id = header.id
        WHERE p_axis = 'effective' AND header.booked_at > newest AND header.effective_at <= base
        GROUP BY 1
    )
    SELECT wanted.id, (coalesce(kept.amount, 0) + coalesce((
            SELECT sum(moved.amount) FROM moved WHERE moved.id = wanted.id), 0))::bigint
    FROM wanted LEFT JOIN LATERAL (
        SELECT CASE p_axis WHEN 'booked' THEN balance.booked_micro_usd ELSE balance.effective_micro_usd END AS amount
        FROM billing_snapshotbalance balance
        WHERE balance.account_id = wanted.id AND balance.cutoff_at <= base
        ORDER BY balance.cutoff_at DESC LIMIT 1
    ) kept ON true;
END $$;
