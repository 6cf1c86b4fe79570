DROP TRIGGER period_moves_by_its_states ON billing_period;
DROP FUNCTION billing_guard_period_row();
DROP TRIGGER closed_period_is_not_posted_to ON billing_ledgertransaction;
DROP FUNCTION billing_guard_posting();
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['breakevent', 'periodevent', 'collectedjobfact'] LOOP
        EXECUTE format('DROP TRIGGER history_is_append_only ON billing_%s', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['providerinvoice', 'invoicefile', 'invoiceline', 'badinvoiceline', 'bucket', 'break', 'breakevent'] LOOP
        EXECUTE format('DROP TRIGGER closed_period_is_not_written ON billing_%s', name);
        EXECUTE format('DROP TRIGGER invoices_are_not_emptied ON billing_%s', name);
    END LOOP;
END $$;
DROP FUNCTION billing_guard_period();
DROP FUNCTION billing_refuse_if_closed(date);
