-- What only a test database has. Django's own flush cannot work here: the application role may not truncate, and the
-- journal's guards refuse it to everybody. Here a superuser empties the tables with triggers off and puts back what
-- the migrations and the catalog loader left.
CREATE SCHEMA harness;
CREATE TABLE harness.clock (shift interval NOT NULL DEFAULT '0', frozen_at timestamptz);
INSERT INTO harness.clock DEFAULT VALUES;
GRANT USAGE ON SCHEMA harness TO PUBLIC;
GRANT SELECT ON harness.clock TO PUBLIC;

CREATE OR REPLACE FUNCTION public.lanehouse_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT coalesce(frozen_at, statement_timestamp() + shift) FROM harness.clock $$;

CREATE FUNCTION harness.snapshot() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    name text;
    has_rows boolean;
BEGIN
    FOR name IN
        SELECT relname FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
          AND relname NOT IN ('django_migrations', 'django_content_type', 'auth_permission')
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM public.%I)', name) INTO has_rows;
        IF has_rows THEN
            EXECUTE format('CREATE TABLE harness.%I AS TABLE public.%I', 'saved_' || name, name);
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION harness.reset() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    name text;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR name IN
        SELECT oid::regclass::text FROM pg_class
        WHERE relkind = 'r' AND relname NOT IN ('django_migrations', 'django_content_type', 'auth_permission')
          AND (relnamespace = 'public'::regnamespace OR (relnamespace::regnamespace::text = 'pgmq' AND relname LIKE 'q\_%'))
    LOOP
        EXECUTE 'DELETE FROM ' || name;
    END LOOP;
    FOR name IN
        SELECT substr(relname, 7) FROM pg_class
        WHERE relnamespace = 'harness'::regnamespace AND relname LIKE 'saved\_%'
    LOOP
        EXECUTE format('INSERT INTO public.%I SELECT * FROM harness.%I', name, 'saved_' || name);
    END LOOP;
    UPDATE harness.clock SET shift = '0', frozen_at = NULL;
END $$;
