DROP FUNCTION billing_balances_as_of(bigint[], timestamptz, text);
DROP FUNCTION billing_take_snapshot(timestamptz);
DROP INDEX transaction_effective_in_time;
DROP INDEX transaction_booked_in_time;
