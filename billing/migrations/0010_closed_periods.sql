-- A closed month refuses every later write to what belongs to it, whoever writes. Errors carry the rule's name.

CREATE FUNCTION billing_refuse_if_closed(of_month date) RETURNS void
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    found text;
BEGIN
    -- Shared, so that a close waits for those who write now, and those who come later wait for the close.
    SELECT state INTO found FROM billing_period WHERE month = of_month FOR SHARE;
    IF found = 'closed' THEN
        RAISE EXCEPTION 'the month % is closed', to_char(of_month, 'YYYY-MM')
            USING ERRCODE = 'check_violation', CONSTRAINT = 'period_is_closed';
    END IF;
END $$;

CREATE FUNCTION billing_guard_period() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    written record;
    of_month date;
BEGIN
    IF TG_OP = 'DELETE' THEN written := OLD; ELSE written := NEW; END IF;
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
    RETURN written;
END $$;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['providerinvoice', 'invoicefile', 'invoiceline', 'badinvoiceline', 'bucket', 'break', 'breakevent'] LOOP
        EXECUTE format('CREATE TRIGGER closed_period_is_not_written BEFORE INSERT OR UPDATE OR DELETE ON billing_%s'
            ' FOR EACH ROW EXECUTE FUNCTION billing_guard_period()', name);
        EXECUTE format('CREATE TRIGGER invoices_are_not_emptied BEFORE TRUNCATE ON billing_%s'
            ' FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change()', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['breakevent', 'periodevent', 'collectedjobfact'] LOOP
        EXECUTE format('CREATE TRIGGER history_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing_%s'
            ' FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change()', name);
    END LOOP;
END $$;

-- Books: a posting may be dated back, but not into a month that is closed. Of the running month nothing is asked, so that
-- postings of every day pay nothing for this.
CREATE FUNCTION billing_guard_posting() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    of_month date := date_trunc('month', NEW.effective_at AT TIME ZONE 'UTC')::date;
BEGIN
    IF of_month < date_trunc('month', lanehouse_now() AT TIME ZONE 'UTC')::date THEN
        PERFORM billing_refuse_if_closed(of_month);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER closed_period_is_not_posted_to BEFORE INSERT ON billing_ledgertransaction
    FOR EACH ROW EXECUTE FUNCTION billing_guard_posting();

-- A period is never removed, and leaves "closed" by being opened again alone: its month stays what it was.
CREATE FUNCTION billing_guard_period_row() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP <> 'UPDATE' OR NEW.month <> OLD.month
        OR (OLD.state = 'closed' AND NEW.state = 'closed' AND NEW IS DISTINCT FROM OLD)
        OR (NEW.state = 'closed' AND OLD.state <> 'closing') THEN
        RAISE EXCEPTION 'a period is asked to close, closed, and opened again; nothing else'
            USING ERRCODE = 'restrict_violation', CONSTRAINT = 'period_moves_by_its_states';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER period_moves_by_its_states BEFORE UPDATE OR DELETE ON billing_period
    FOR EACH ROW EXECUTE FUNCTION billing_guard_period_row();
