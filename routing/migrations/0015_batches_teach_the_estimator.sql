CREATE SEQUENCE routing_learned_versions;

CREATE FUNCTION routing_keep_learned_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO routing_learnedstateversion
        (model_slug, organisation_id, scope, name, version, learned_at, state, house_ratio_ppm)
        VALUES (NEW.model_slug, NEW.organisation_id, NEW.scope, NEW.name, NEW.version, NEW.learned_at, NEW.state,
                NEW.house_ratio_ppm);
    RETURN NULL;
END $$;
CREATE TRIGGER learned_state_is_kept AFTER INSERT OR UPDATE ON routing_learnedstate
    FOR EACH ROW EXECUTE FUNCTION routing_keep_learned_state();

-- A key learns forwards only: who goes back makes a new version that equals an old one.
CREATE FUNCTION routing_refuse_older_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a learned state of version % is not replaced by version %', OLD.version, NEW.version
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER learned_state_goes_forward BEFORE UPDATE ON routing_learnedstate
    FOR EACH ROW WHEN (NEW.version <= OLD.version) EXECUTE FUNCTION routing_refuse_older_state();

CREATE FUNCTION routing_refuse_learned_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Only history that nobody goes back to any more is swept.
    IF TG_OP = 'DELETE' AND TG_TABLE_NAME = 'routing_learnedstateversion' THEN
        IF OLD.learned_at < lanehouse_now() - interval '90 days' THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION '% takes no %', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER learned_history_is_never_changed BEFORE UPDATE OR DELETE ON routing_learnedstateversion
    FOR EACH ROW EXECUTE FUNCTION routing_refuse_learned_change();
CREATE TRIGGER accuracy_is_never_changed BEFORE UPDATE OR DELETE ON routing_groupaccuracy
    FOR EACH ROW EXECUTE FUNCTION routing_refuse_learned_change();
CREATE TRIGGER learning_decision_is_never_changed BEFORE UPDATE OR DELETE ON routing_learningdecision
    FOR EACH ROW EXECUTE FUNCTION routing_refuse_learned_change();

-- A batch teaches once.
CREATE FUNCTION routing_refuse_second_lesson() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the lesson of batch % has ended', OLD.batch_id USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER batch_teaches_once BEFORE UPDATE ON routing_batchlesson
    FOR EACH ROW WHEN (OLD.state <> 'pending' AND NEW.state IS DISTINCT FROM OLD.state)
    EXECUTE FUNCTION routing_refuse_second_lesson();

DROP FUNCTION routing_take_call(bytea);
-- All that a call needs before its body is read: the key and its organisation, both buckets after the call was counted,
-- the wallet, the versions of the catalog and of
-- what was learned. A function, so that each connection plans it once.
CREATE FUNCTION routing_take_call(wanted_hash bytea) RETURNS TABLE (
    api_key_id bigint, api_key_public_id text, api_key_name text, scopes text[],
    organisation_id bigint, organisation_public_id text, slug text, name text, kind text, reporting_zone text,
    billing_blocked_at timestamptz, calls_per_minute integer, input_tokens_per_minute bigint,
    is_admitted boolean, taken_at timestamptz, requests_full_at timestamptz, tokens_full_at timestamptz,
    available_micro_usd bigint, posted_micro_usd bigint, floor_micro_usd bigint, receivable_micro_usd bigint,
    catalog_version bigint, sla_version bigint, house_learned_version bigint, own_learned_version bigint
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
               version.catalog_version, version.sla_version,
               -- Each the end of an index.
               (SELECT coalesce(max(state.version), 0) FROM routing_learnedstate state
                WHERE state.organisation_id IS NULL),
               (SELECT coalesce(max(state.version), 0) FROM routing_learnedstate state
                WHERE state.organisation_id = organisation.id)
        FROM accounts_take_call(wanted_hash) call
        JOIN accounts_apikey key ON key.id = call.api_key_id
        JOIN accounts_organisation organisation ON organisation.id = call.organisation_id
        LEFT JOIN billing_customerbalance balance ON balance.organisation_id = organisation.id
        CROSS JOIN catalog_catalogversion version;
END $$;
