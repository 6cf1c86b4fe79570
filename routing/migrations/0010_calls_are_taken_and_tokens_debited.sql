-- Known from the moment a quote is priced; null before, and for quotes that were made before this column.
ALTER TABLE routing_quote ADD COLUMN input_tokens bigint;

-- A quote is made when its tokens are known: the bucket is debited in the same statement, whoever makes it, and once.
CREATE FUNCTION routing_debit_tokens() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM accounts_take_tokens(NEW.organisation_id, NEW.input_tokens);
    RETURN NULL;
END $$;
CREATE TRIGGER quote_debits_its_tokens AFTER INSERT ON routing_quote
    FOR EACH ROW WHEN (NEW.input_tokens IS NOT NULL) EXECUTE FUNCTION routing_debit_tokens();
CREATE TRIGGER quote_debits_its_tokens_once AFTER UPDATE OF input_tokens ON routing_quote
    FOR EACH ROW WHEN (OLD.input_tokens IS NULL AND NEW.input_tokens IS NOT NULL)
    EXECUTE FUNCTION routing_debit_tokens();

-- All that a call needs before its body is read: the key and its organisation, both buckets after the call was counted,
-- the wallet, and the versions of the catalog. A function, so that each connection plans it once.
CREATE FUNCTION routing_take_call(wanted_hash bytea) RETURNS TABLE (
    api_key_id bigint, api_key_public_id text, api_key_name text, scopes text[],
    organisation_id bigint, organisation_public_id text, slug text, name text, kind text, reporting_zone text,
    billing_blocked_at timestamptz, calls_per_minute integer, input_tokens_per_minute bigint,
    is_admitted boolean, taken_at timestamptz, requests_full_at timestamptz, tokens_full_at timestamptz,
    available_micro_usd bigint, posted_micro_usd bigint, floor_micro_usd bigint, receivable_micro_usd bigint,
    catalog_version bigint, sla_version bigint
) LANGUAGE plpgsql ROWS 1 AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT key.id, key.public_id::text, key.name::text, key.scopes::text[],
               organisation.id, organisation.public_id::text, organisation.slug::text, organisation.name::text,
               organisation.kind::text, organisation.reporting_zone::text,
               organisation.billing_blocked_at, organisation.calls_per_minute, organisation.input_tokens_per_minute,
               call.is_admitted, call.taken_at, call.requests_full_at, call.tokens_full_at,
               billing_available_micro_usd(organisation.id), coalesce(balance.posted_micro_usd, 0),
               coalesce(balance.floor_micro_usd, 0), coalesce(balance.receivable_micro_usd, 0),
               version.catalog_version, version.sla_version
        FROM accounts_take_call(wanted_hash) call
        JOIN accounts_apikey key ON key.id = call.api_key_id
        JOIN accounts_organisation organisation ON organisation.id = call.organisation_id
        LEFT JOIN billing_customerbalance balance ON balance.organisation_id = organisation.id
        CROSS JOIN catalog_catalogversion version;
END $$;
