"""A function that makes monthly partitions, so that each partitioned table keeps them the same way.

It runs with its owner's rights: the application role may call it from a sweep but makes no tables itself.
"""

from typing import ClassVar

from django.db import migrations

CREATE = """
CREATE FUNCTION lanehouse_ensure_month_partitions(parent regclass, at timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    parent_name text := (SELECT relname FROM pg_class WHERE oid = parent);
    first_day timestamptz;
    partition_name text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class WHERE oid = parent AND relkind = 'p'
                   AND relnamespace = 'public'::regnamespace) THEN
        RAISE EXCEPTION '% is not a partitioned table of ours', parent;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('month partitions of ' || parent_name, 0));
    IF to_regclass(format('public.%I', parent_name || '_default')) IS NULL THEN
        EXECUTE format('CREATE TABLE public.%I PARTITION OF public.%I DEFAULT', parent_name || '_default', parent_name);
    END IF;
    FOR months IN 0..2 LOOP
        first_day := (date_trunc('month', at AT TIME ZONE 'UTC') + make_interval(months => months)) AT TIME ZONE 'UTC';
        partition_name := parent_name || to_char(first_day AT TIME ZONE 'UTC', '"_y"YYYY"m"MM');
        IF to_regclass(format('public.%I', partition_name)) IS NULL THEN
            EXECUTE format(
                'CREATE TABLE public.%I PARTITION OF public.%I FOR VALUES FROM (%L) TO (%L)',
                partition_name, parent_name, first_day,
                ((first_day AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC'
            );
        END IF;
    END LOOP;
END $$;
"""


class Migration(migrations.Migration):
    """Used by the first migration of each partitioned table and by the hourly sweep."""

    dependencies: ClassVar = [("ground", "0001_database_time_and_grants")]
    operations: ClassVar = [
        migrations.RunSQL(CREATE, "DROP FUNCTION lanehouse_ensure_month_partitions(regclass, timestamptz)"),
    ]
