DROP FUNCTION billing_record_top_up(bigint, text, bigint, timestamptz, bytea, bigint);
DROP FUNCTION billing_void_hold(bigint, text, text);
DROP FUNCTION billing_place_holds(bigint, text, text[], bigint[], timestamptz);
DROP FUNCTION billing_available_micro_usd(bigint);
DROP FUNCTION billing_lock_wallet(bigint);
DROP FUNCTION billing_open_wallet(bigint);
DROP FUNCTION billing_account(text, text, text, bigint);
