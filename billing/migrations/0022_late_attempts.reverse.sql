CREATE OR REPLACE FUNCTION billing_guard_period() RETURNS trigger
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
DROP TRIGGER periods_are_not_emptied ON billing_period;
DROP TRIGGER recording_is_not_removed ON billing_attemptrecording;
DROP TRIGGER recording_is_append_only ON billing_attemptrecording;
DROP FUNCTION billing_guard_recording();
DROP TRIGGER attempts_find_their_month ON billing_attemptrecording;
DROP FUNCTION billing_place_attempts();
DROP FUNCTION billing_month_of_attempt(text, text, timestamptz);
