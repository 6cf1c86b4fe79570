-- Small rows that are updated by every call: half-empty pages keep each update in its page, and vacuum comes often.
ALTER TABLE accounts_ratebucket
    SET (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE FUNCTION accounts_open_buckets() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO accounts_ratebucket (organisation_id, kind, full_at)
        SELECT NEW.id, word, to_timestamp(0) FROM unnest(ARRAY['requests', 'tokens', 'accepts']) AS word;
    RETURN NULL;
END $$;
CREATE TRIGGER organisation_has_its_buckets AFTER INSERT ON accounts_organisation
    FOR EACH ROW EXECUTE FUNCTION accounts_open_buckets();
INSERT INTO accounts_ratebucket (organisation_id, kind, full_at)
    SELECT id, word, to_timestamp(0) FROM accounts_organisation, unnest(ARRAY['requests', 'tokens', 'accepts']) AS word;

-- By how much some units move the instant at which their bucket is full; accounts.domain.limits says the same.
CREATE FUNCTION accounts_span_of(units bigint, per_minute bigint) RETURNS interval LANGUAGE sql IMMUTABLE
    AS $$ SELECT (units * 60000000 / per_minute) * interval '1 microsecond' $$;

-- Finds whom a key stands for and counts the call, in one statement; no row for a key that is not good. The commit is
-- not waited for: a crash may forgive the calls of its last moments, and nothing else hangs on them.
CREATE FUNCTION accounts_take_call(wanted_hash bytea) RETURNS TABLE (
    api_key_id bigint,
    organisation_id bigint,
    is_admitted boolean,
    taken_at timestamptz,
    requests_full_at timestamptz,
    tokens_full_at timestamptz
) LANGUAGE plpgsql ROWS 1 AS $$
#variable_conflict use_column
DECLARE
    known record;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    taken_at := lanehouse_now();
    SELECT key.id, key.organisation_id, key.last_used_at, accounts_span_of(1, organisation.calls_per_minute) AS span
        INTO known
        FROM accounts_apikey key JOIN accounts_organisation organisation ON organisation.id = key.organisation_id
        WHERE key.key_hash = wanted_hash AND key.revoked_at IS NULL
          AND (key.expires_at IS NULL OR key.expires_at > taken_at);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    api_key_id := known.id;
    organisation_id := known.organisation_id;

    -- Once a minute is enough for people. The condition is asked again of a row that another call has just written.
    IF known.last_used_at IS NULL OR known.last_used_at <= taken_at - interval '1 minute' THEN
        UPDATE accounts_apikey SET last_used_at = taken_at
            WHERE id = known.id AND (last_used_at IS NULL OR last_used_at <= taken_at - interval '1 minute');
    END IF;

    -- A call that waited here for another one meets the row as that one left it, so calls are counted exactly. The
    -- bucket of tokens is only read: quotes debit it when their tokens are known, and it may go below zero by then.
    UPDATE accounts_ratebucket requests SET full_at = greatest(requests.full_at, taken_at) + known.span
        FROM accounts_ratebucket tokens
        WHERE requests.organisation_id = known.organisation_id AND requests.kind = 'requests'
          AND tokens.organisation_id = known.organisation_id AND tokens.kind = 'tokens'
          AND requests.full_at + known.span <= taken_at + interval '1 minute'
          AND tokens.full_at < taken_at + interval '1 minute'
        RETURNING requests.full_at, tokens.full_at INTO requests_full_at, tokens_full_at;
    is_admitted := FOUND;
    IF NOT is_admitted THEN
        SELECT requests.full_at, tokens.full_at INTO requests_full_at, tokens_full_at
            FROM accounts_ratebucket requests
            JOIN accounts_ratebucket tokens ON tokens.organisation_id = requests.organisation_id
            WHERE requests.organisation_id = known.organisation_id
              AND requests.kind = 'requests' AND tokens.kind = 'tokens';
    END IF;
    RETURN NEXT;
END $$;

CREATE FUNCTION accounts_take_tokens(payer_id bigint, wanted_tokens bigint) RETURNS void LANGUAGE sql AS $$
    UPDATE accounts_ratebucket bucket
        SET full_at = greatest(full_at, lanehouse_now()) + accounts_span_of(wanted_tokens, input_tokens_per_minute)
        FROM accounts_organisation organisation
        WHERE organisation.id = payer_id AND bucket.organisation_id = payer_id AND bucket.kind = 'tokens'
$$;
