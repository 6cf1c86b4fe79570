DROP TRIGGER lines_are_taken ON billing_receiptline;
DROP TRIGGER receipt_is_proven ON billing_receipt;
DROP TRIGGER balance_follows_the_journal ON billing_customerbalance;
DROP TRIGGER closed_hold_lowers_held ON billing_hold;
DROP TRIGGER hold_raises_held ON billing_hold;
DROP TRIGGER hold_has_one_exit ON billing_hold;
DROP TRIGGER legs_are_taken ON billing_ledgerleg;
DROP TRIGGER transaction_balances ON billing_ledgertransaction;
DROP TRIGGER transaction_is_stamped ON billing_ledgertransaction;
DROP TRIGGER balance_is_never_removed ON billing_customerbalance;
DROP TRIGGER hold_is_never_removed ON billing_hold;
DROP TRIGGER journal_is_append_only ON billing_receiptline;
DROP TRIGGER journal_is_append_only ON billing_receipt;
DROP TRIGGER journal_is_append_only ON billing_ledgerleg;
DROP TRIGGER journal_is_append_only ON billing_ledgertransaction;
DROP TRIGGER journal_is_append_only ON billing_ledgeraccount;
DROP FUNCTION billing_take_lines();
DROP FUNCTION billing_check_receipt();
DROP FUNCTION billing_guard_balance();
DROP FUNCTION billing_move_held();
DROP FUNCTION billing_guard_hold();
DROP FUNCTION billing_take_legs();
DROP FUNCTION billing_check_transaction();
DROP FUNCTION billing_stamp_transaction();
DROP FUNCTION billing_refuse_change();
ALTER TABLE billing_ledgertransaction DROP COLUMN created_in;
ALTER TABLE billing_customerbalance RESET (fillfactor);
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
        GRANT INSERT, UPDATE, DELETE ON billing_ledgeraccount, billing_ledgertransaction, billing_ledgerleg,
            billing_receipt, billing_receiptline, billing_hold, billing_customerbalance TO lanehouse_app;
    END IF;
END $$;
