-- Makes the pending quote of a file, or of another batch's rows, and the pricing that is due.
CREATE FUNCTION routing_begin_pricing(
    of_organisation bigint, of_key bigint, wanted_quote text, at timestamptz, kept_until timestamptz,
    of_workflow text, unpriced bytea, wanted_endpoint text, bytes bigint, of_file text, of_batch text,
    codes jsonb, outcomes jsonb
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO routing_quote (
        public_id, created_at, organisation_id, api_key_id, workflow, status, endpoint, row_count, body_size_bytes,
        input_file_id, retry_of, payload_kept_until, answer, plan)
    VALUES (
        wanted_quote, at, of_organisation, of_key, of_workflow, 'pending', wanted_endpoint, 0, bytes,
        of_file, of_batch, kept_until, ''::bytea, unpriced);
    INSERT INTO routing_filepricing (
        quote_id, organisation_id, state, endpoint, size_bytes, read_bytes, retried_codes, retried_outcomes,
        created_at, due_at, fence)
    VALUES (wanted_quote, of_organisation, 'pending', wanted_endpoint, bytes, 0, codes, outcomes, at, at, 0);
$$;

-- An upload in one statement: counted, and its row made, with a quote that is begun where ``wanted_quote`` is not
-- empty. Gives the file that the same call had made before, or the new one, or none where there is no room.
--
-- An organisation's uploads go one behind the other, for their bytes are counted together. What an SDK repeats is found
-- by its first try and the other way round: a retry takes what the key sent in the last minutes; a first try, what a
-- retry of it made while it was on its way, once. Each instant is the database's.
CREATE FUNCTION routing_keep_file(
    of_organisation bigint, of_key bigint, wanted_id text, wanted_name text, bytes bigint, digest bytea,
    wanted_blob text, at timestamptz, kept_for interval, maximum_bytes bigint, is_retry boolean, running_for interval,
    retried_within interval,
    wanted_quote text, quoted_at timestamptz, quote_kept_until timestamptz, of_workflow text, unpriced bytea
) RETURNS TABLE (file_id bigint, is_earlier boolean, stored_bytes bigint) LANGUAGE plpgsql ROWS 1 AS $$
DECLARE
    called_at timestamptz := lanehouse_now();
    -- Rows have the time of the process that made them, whose clock may be another than ours.
    sought_within interval := CASE WHEN is_retry THEN retried_within ELSE running_for + interval '1 minute' END;
BEGIN
    PERFORM pg_advisory_xact_lock(1718185061, of_organisation::integer);
    IF running_for IS NOT NULL THEN
        SELECT file.id INTO file_id FROM routing_storedfile file
            WHERE file.organisation_id = of_organisation
              AND file.created_at > called_at - sought_within
              AND (is_retry OR file.overtook_at > called_at - running_for)
              AND file.api_key_id IS NOT DISTINCT FROM of_key
              AND file.sha256 = digest AND file.filename = wanted_name
              AND file.expires_at = file.created_at + kept_for
              AND file.purpose = 'batch' AND file.deleted_at IS NULL AND file.swept_at IS NULL
            ORDER BY file.id DESC LIMIT 1;
        IF FOUND THEN
            is_earlier := true;
            IF NOT is_retry THEN
                UPDATE routing_storedfile SET overtook_at = NULL WHERE id = file_id;
            END IF;
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    is_earlier := false;
    SELECT coalesce(sum(file.size_bytes), 0) INTO stored_bytes FROM routing_storedfile file
        WHERE file.organisation_id = of_organisation AND file.purpose = 'batch'
          AND file.deleted_at IS NULL AND file.swept_at IS NULL;
    IF stored_bytes + bytes <= maximum_bytes THEN
        INSERT INTO routing_storedfile (
            public_id, organisation_id, api_key_id, purpose, filename, size_bytes, sha256, quote_id, blob_name,
            created_at, expires_at, overtook_at)
        VALUES (
            wanted_id, of_organisation, of_key, 'batch', wanted_name, bytes, digest, wanted_quote, wanted_blob,
            at, at + kept_for, CASE WHEN is_retry THEN called_at END)
        RETURNING id INTO file_id;
        IF wanted_quote <> '' THEN
            PERFORM routing_begin_pricing(
                of_organisation, of_key, wanted_quote, quoted_at, quote_kept_until, of_workflow, unpriced, '', bytes,
                wanted_id, '', '[]', '[]');
        END IF;
    END IF;
    RETURN NEXT;
END $$;

-- A batch of an uploaded file in one statement. It runs under the file's newest quote if that can be: valid or still to
-- come, and nobody else's; while this transaction holds the pricing's lock, the quote is not decided. ``outcome`` says
-- what came of it: made; earlier, by the same call; no_file; no_accept, where the minute is full; no_quote, where a new
-- one has to be asked for (the accept is counted: ask again without counting).
--
-- Calls with one body follow one another. How a repetition is known: see routing_keep_file.
CREATE FUNCTION routing_create_file_batch(
    of_organisation bigint, of_key bigint, body_lock integer, body_hash bytea, wanted_file text, wanted_endpoint text,
    wanted_workflow jsonb, wanted_metadata jsonb, kept_seconds integer, is_retry boolean, running_for interval,
    retried_within interval, is_counted boolean, wanted_id text, at timestamptz, ends_at timestamptz
) RETURNS TABLE (
    outcome text, batch_id bigint, batch_quote text, batch_workflow text, batch_plan bytea, is_priced boolean
) LANGUAGE plpgsql ROWS 1 AS $$
DECLARE
    called_at timestamptz := lanehouse_now();
    sought_within interval := CASE WHEN is_retry THEN retried_within ELSE running_for + interval '1 minute' END;
    file_quote text;
    pricing record;
    quote record;
BEGIN
    PERFORM pg_advisory_xact_lock(1650553955, body_lock);
    IF running_for IS NOT NULL THEN
        SELECT batch.id INTO batch_id FROM routing_batch batch
            WHERE batch.organisation_id = of_organisation AND batch.created_at > called_at - sought_within
              AND (is_retry OR batch.overtook_at > called_at - running_for)
              AND batch.api_key_id IS NOT DISTINCT FROM of_key AND batch.accept_body_hash = body_hash
            ORDER BY batch.created_at DESC, batch.id DESC LIMIT 1;
        IF FOUND THEN
            outcome := 'earlier';
            IF NOT is_retry THEN
                UPDATE routing_batch SET overtook_at = NULL WHERE id = batch_id;
            END IF;
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;

    SELECT file.quote_id INTO file_quote FROM routing_storedfile file
        WHERE file.public_id = wanted_file AND file.organisation_id = of_organisation AND file.purpose = 'batch'
          AND file.deleted_at IS NULL AND (file.expires_at IS NULL OR file.expires_at > called_at);
    IF NOT FOUND THEN
        outcome := 'no_file';
        RETURN NEXT;
        RETURN;
    END IF;
    IF is_counted AND NOT accounts_take_accept(of_organisation) THEN
        outcome := 'no_accept';
        RETURN NEXT;
        RETURN;
    END IF;

    SELECT price.id, price.state, price.fence, price.created_at INTO pricing FROM routing_filepricing price
        WHERE price.quote_id = file_quote AND price.organisation_id = of_organisation FOR UPDATE;
    IF FOUND THEN
        -- A pricing is as old as its quote, which names the partition.
        SELECT offer.* INTO quote FROM routing_quote offer
            WHERE offer.public_id = file_quote AND offer.created_at = pricing.created_at
              AND offer.organisation_id = of_organisation
              AND NOT EXISTS (SELECT FROM routing_batch taken WHERE taken.quote_id = offer.public_id)
              AND (wanted_workflow IS NULL
                   OR convert_from(offer.plan, 'UTF8')::jsonb -> 'workflow' = wanted_workflow);
        IF FOUND THEN
            IF pricing.state = 'pending' AND quote.endpoint IN ('', wanted_endpoint) THEN
                is_priced := false;
                IF pricing.fence = 0 AND quote.endpoint = '' THEN
                    -- One that is not begun is told where the rows go.
                    UPDATE routing_filepricing SET endpoint = wanted_endpoint WHERE id = pricing.id;
                END IF;
            ELSIF quote.status = 'ready' AND quote.endpoint = wanted_endpoint AND quote.expires_at > called_at THEN
                is_priced := true;
                -- Its batch needs the bytes, whenever the engine comes to it.
                UPDATE routing_quote SET payload_kept_until = NULL
                    WHERE public_id = quote.public_id AND created_at = quote.created_at;
            END IF;
        END IF;
    END IF;
    IF is_priced IS NULL THEN
        outcome := 'no_quote';
        RETURN NEXT;
        RETURN;
    END IF;

    INSERT INTO routing_batch (
        public_id, organisation_id, api_key_id, quote_id, accept_body_hash, workflow, input_file_id, retry_of, endpoint,
        completion_window, metadata, status, ending, plan, row_count, completed_count, failed_count, collected_count,
        collected_charge_pico_usd, is_to_be_told, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens,
        total_estimate_micro_usd, ceiling_micro_usd, receipt_id, output_kept_seconds, created_at, expires_at, due_at,
        fence, overtook_at)
    VALUES (
        wanted_id, of_organisation, of_key, quote.public_id, body_hash, quote.workflow, wanted_file, '',
        wanted_endpoint, '24h', wanted_metadata, 'validating', '', quote.plan, 0, 0, 0, 0, 0, false, 0, 0, 0, 0, 0, 0,
        '', kept_seconds, at, ends_at, CASE WHEN is_priced THEN at END, 0, CASE WHEN is_retry THEN called_at END)
    RETURNING id INTO batch_id;
    outcome := 'made';
    batch_quote := quote.public_id;
    batch_workflow := quote.workflow;
    batch_plan := quote.plan;
    RETURN NEXT;
END $$;
