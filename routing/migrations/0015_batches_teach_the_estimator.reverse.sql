DROP FUNCTION routing_take_call(bytea);
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

DROP TRIGGER batch_teaches_once ON routing_batchlesson;
DROP TRIGGER learning_decision_is_never_changed ON routing_learningdecision;
DROP TRIGGER accuracy_is_never_changed ON routing_groupaccuracy;
DROP TRIGGER learned_history_is_never_changed ON routing_learnedstateversion;
DROP TRIGGER learned_state_goes_forward ON routing_learnedstate;
DROP TRIGGER learned_state_is_kept ON routing_learnedstate;
DROP FUNCTION routing_refuse_second_lesson();
DROP FUNCTION routing_refuse_learned_change();
DROP FUNCTION routing_refuse_older_state();
DROP FUNCTION routing_keep_learned_state();
DROP SEQUENCE routing_learned_versions;
