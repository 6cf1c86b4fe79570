DROP TRIGGER usage_counts_the_receipt ON billing_receipt;
DROP FUNCTION billing_check_usage();
DROP FUNCTION billing_fold_usage(bigint[], bigint[], jsonb[]);
DROP TABLE usage_rollup;
DROP TABLE usage_fact;
