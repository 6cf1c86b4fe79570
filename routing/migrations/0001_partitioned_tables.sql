CREATE TABLE routing_quote (
    public_id varchar(40) NOT NULL,
    created_at timestamptz NOT NULL,
    organisation_id bigint NOT NULL REFERENCES accounts_organisation (id) DEFERRABLE INITIALLY DEFERRED,
    api_key_id bigint REFERENCES accounts_apikey (id) DEFERRABLE INITIALLY DEFERRED,
    workflow varchar(80) NOT NULL,
    status varchar(10) NOT NULL,
    expires_at timestamptz,
    endpoint varchar(40) NOT NULL,
    row_count integer NOT NULL,
    body_size_bytes bigint NOT NULL,
    answer bytea NOT NULL,
    plan bytea NOT NULL,
    CONSTRAINT quote_is_known_by_id_and_time PRIMARY KEY (public_id, created_at),
    CONSTRAINT quote_status_is_known CHECK (status IN ('pending', 'ready', 'failed')),
    CONSTRAINT quote_ready_expires CHECK (status <> 'ready' OR expires_at > created_at)
) PARTITION BY RANGE (created_at);
CREATE INDEX quote_of_organisation ON routing_quote (organisation_id, created_at DESC);
SELECT lanehouse_ensure_month_partitions('routing_quote', lanehouse_now());

-- The key holds one outcome a row: accepted_at is the batch's own and never changes.
CREATE TABLE routing_rowoutcome (
    accepted_at timestamptz NOT NULL,
    batch_id bigint NOT NULL,
    "row" integer NOT NULL,
    outcome varchar(10) NOT NULL,
    code varchar(60) NOT NULL,
    status_code smallint NOT NULL,
    sub_lane_id bigint NOT NULL,
    job_id bigint,
    group_index smallint NOT NULL,
    attempt_number smallint NOT NULL,
    re_dispatch_count smallint NOT NULL,
    input_tokens bigint NOT NULL,
    cached_input_tokens bigint NOT NULL,
    cache_write_5m_tokens bigint NOT NULL,
    cache_write_1h_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    reasoning_tokens bigint NOT NULL,
    charge_pico_usd bigint NOT NULL,
    body_offset bigint NOT NULL,
    body_length integer NOT NULL,
    CONSTRAINT row_has_one_outcome PRIMARY KEY (accepted_at, batch_id, "row"),
    CONSTRAINT outcome_is_known CHECK (outcome IN ('succeeded', 'failed', 'expired', 'cancelled')),
    CONSTRAINT only_a_failure_has_a_code CHECK ((outcome = 'succeeded') = (code = '')),
    CONSTRAINT only_a_success_is_charged CHECK (outcome = 'succeeded' OR charge_pico_usd = 0),
    CONSTRAINT charge_is_not_negative CHECK (charge_pico_usd >= 0),
    CONSTRAINT reasoning_is_inside_output CHECK (reasoning_tokens BETWEEN 0 AND output_tokens)
) PARTITION BY RANGE (accepted_at);
SELECT lanehouse_ensure_month_partitions('routing_rowoutcome', lanehouse_now());

CREATE FUNCTION routing_outcome_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a row outcome is written once' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER outcome_is_never_updated BEFORE UPDATE ON routing_rowoutcome
    FOR EACH ROW EXECUTE FUNCTION routing_outcome_is_final();
