-- Attempts are facts and are recorded whenever they come; a month that is closed by then does not change for them.

-- What was recorded before: in its own month, as its match has counted it.
INSERT INTO billing_attemptrecording (job_id, batch_public_id, completed_at, recorded_at, provider, provider_account,
                                      is_test, attempt_count, cost_pico_usd)
SELECT fact.job_id, coalesce(terms.batch_public_id, ''), fact.completed_at, fact.completed_at, fact.provider,
       fact.provider_account, coalesce(terms.is_test, FALSE), fact.attempt_count, fact.cost_pico_usd
FROM (
    SELECT job_id, completed_at, provider, provider_account, count(*) AS attempt_count, sum(cost_pico_usd) AS cost_pico_usd
    FROM attempt_fact GROUP BY 1, 2, 3, 4
) fact LEFT JOIN billing_collectedjobfact terms ON terms.job_id = fact.job_id;

-- The month of an account in which an instant counts: that of the invoice whose days hold it, else UTC's.
CREATE FUNCTION billing_month_of_attempt(of_provider text, of_account text, at timestamptz) RETURNS date
    LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT coalesce(
        (SELECT invoice.period FROM billing_providerinvoice invoice
         LEFT JOIN billing_invoicefile file ON file.invoice_id = invoice.id AND file.state = 'read' AND file.has_money
         WHERE invoice.provider = of_provider AND invoice.provider_account = of_account
           AND invoice.period BETWEEN (at - interval '33 days')::date AND (at + interval '2 days')::date
           AND date_trunc('month', at AT TIME ZONE coalesce(file.mapping ->> 'zone', 'UTC'))::date = invoice.period
         ORDER BY invoice.period LIMIT 1),
        date_trunc('month', at AT TIME ZONE 'UTC')::date)
$$;

-- Shared here and alone in a close: a close waits for whoever records, and who comes later sees the month closed.
CREATE FUNCTION billing_place_attempts() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    of_month date;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('attempts are recorded', 0));
    NEW.recorded_at := lanehouse_now();
    NEW.late_for := NULL;
    NEW.carried_to := NULL;
    of_month := billing_month_of_attempt(NEW.provider, NEW.provider_account, NEW.completed_at);
    IF NOT NEW.is_test AND EXISTS (SELECT FROM billing_period WHERE month = of_month AND state = 'closed') THEN
        NEW.late_for := of_month;
        LOOP
            of_month := (of_month + interval '1 month')::date;
            EXIT WHEN NOT EXISTS (SELECT FROM billing_period WHERE month = of_month AND state = 'closed');
        END LOOP;
        NEW.carried_to := of_month;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER attempts_find_their_month BEFORE INSERT ON billing_attemptrecording
    FOR EACH ROW EXECUTE FUNCTION billing_place_attempts();

CREATE FUNCTION billing_guard_recording() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM billing_refuse_if_closed(OLD.carried_to);
    IF NEW.late_for IS NOT NULL OR NEW.carried_to IS NOT NULL
        OR (to_jsonb(NEW) - 'late_for' - 'carried_to') <> (to_jsonb(OLD) - 'late_for' - 'carried_to') THEN
        RAISE EXCEPTION 'a recording of attempts is late no more when its month is opened again; nothing else'
            USING ERRCODE = 'restrict_violation', CONSTRAINT = 'recording_is_append_only';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER recording_is_append_only BEFORE UPDATE ON billing_attemptrecording
    FOR EACH ROW EXECUTE FUNCTION billing_guard_recording();
CREATE TRIGGER recording_is_not_removed BEFORE DELETE OR TRUNCATE ON billing_attemptrecording
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();
CREATE TRIGGER periods_are_not_emptied BEFORE TRUNCATE ON billing_period
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();

-- A row of a closed month cannot be moved out of it either: where it comes from counts as where it goes.
CREATE OR REPLACE FUNCTION billing_guard_period() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    written record;
    of_month date;
BEGIN
    FOR side IN 1..(CASE WHEN TG_OP = 'UPDATE' THEN 2 ELSE 1 END) LOOP
        IF TG_OP = 'DELETE' OR side = 2 THEN written := OLD; ELSE written := NEW; END IF;
        IF TG_TABLE_NAME = 'billing_providerinvoice' THEN
            of_month := written.period;
        ELSIF TG_TABLE_NAME IN ('billing_invoiceline', 'billing_badinvoiceline') THEN
            SELECT invoice.period INTO of_month FROM billing_invoicefile file
                JOIN billing_providerinvoice invoice ON invoice.id = file.invoice_id WHERE file.id = written.file_id;
        ELSIF TG_TABLE_NAME = 'billing_breakevent' THEN
            SELECT invoice.period INTO of_month FROM billing_break of_break
                JOIN billing_providerinvoice invoice ON invoice.id = of_break.invoice_id
                WHERE of_break.id = written.of_break_id;
        ELSE
            SELECT period INTO of_month FROM billing_providerinvoice WHERE id = written.invoice_id;
        END IF;
        PERFORM billing_refuse_if_closed(of_month);
    END LOOP;
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
END $$;
