DROP FUNCTION billing_settle_batch(
    bigint, text, text, bytea, timestamptz, bigint, bigint, bigint, bigint, jsonb, jsonb, jsonb);
DROP FUNCTION billing_write_settlement_legs(bigint, bigint, bigint, bigint, bigint, bigint, bigint, jsonb);
