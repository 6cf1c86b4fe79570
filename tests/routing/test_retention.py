"""Bytes go when their time is over, whoever is killed on the way; what is kept stays."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from django.core.files.storage import default_storage
from django.db import OperationalError, connection

from console.kept import KeptNow, kept_now
from ground import clock as the_clock
from ground.blobs import BlobWriter, write_small
from ground.ids import new_public_id
from ground.retention_record import Kept, Removed, RemovedOnDay, removed_by_day, removed_in_all
from routing.models import Quote, StoredFile
from routing.payloads import open_payload, payload_name, placement_name
from routing.services.batches import accept_quote
from routing.services.deletions import delete_file
from routing.services.file_quotes import price_next_file, request_quote
from routing.services.files import keep_file, uploaded_blob_name
from routing.services.quotes import create_quote
from routing.services.retention import sweep_files, sweep_orphans, sweep_payloads
from routing.workflows import DEFAULT_WORKFLOW
from tests.harness.clock import Clock
from tests.harness.world import Tenant
from tests.routing.domain.sample import jsonl, row
from tests.routing.pages import scenes
from tests.routing.pages.conftest import signed_in, words_of

ROWS = jsonl(row("a"), row("b"))


def stored(tenant: Tenant, content: bytes = b"{}") -> StoredFile:
    public_id = new_public_id("file-", the_clock.now())
    with BlobWriter() as writer:
        writer.write(content)
        saving = writer.begin_save(uploaded_blob_name(public_id))
        return keep_file(caller=tenant.caller, public_id=public_id, filename="a.jsonl", saving=saving)


def test_a_deleted_files_bytes_go_with_the_next_sweep(tenant: Tenant) -> None:
    gone, kept = stored(tenant), stored(tenant)
    delete_file(organisation=tenant.organisation, public_id=gone.public_id)
    assert not sweep_files()
    assert [default_storage.exists(each.blob_name) for each in (gone, kept)] == [False, True]
    gone.refresh_from_db()
    kept.refresh_from_db()
    assert gone.swept_at is not None
    assert kept.swept_at is None


def test_the_clock_keeps_a_record_that_counts_each_removal_once(tenant: Tenant, clock: Clock) -> None:
    clock.freeze(the_clock.now().replace(microsecond=0))
    first = the_clock.now().date()
    for content in (b"{}", b"12345"):
        delete_file(organisation=tenant.organisation, public_id=stored(tenant, content).public_id)
    sweep_files()
    quoted(tenant)
    clock.advance(days=1)
    # An end of a day before, repeated turns, and one that finds nothing.
    sweep_files()
    sweep_payloads()
    sweep_payloads()
    at = the_clock.now()
    assert removed_by_day(at, 30) == [
        RemovedOnDay(kind=Kept.PAYLOADS, day=first + timedelta(days=1), count=1, size_bytes=len(ROWS)),
        RemovedOnDay(kind=Kept.FILES, day=first, count=2, size_bytes=7),
    ]
    assert removed_in_all(at, 1)[Kept.FILES] == Removed(kind=Kept.FILES, count=0, size_bytes=0, last_ran_at=at)
    page = words_of(signed_in(scenes.staff()).get("/ops/retention/"))
    assert "Requests of quotes 1 h" in page
    assert (kept_now()[Kept.PAYLOADS].count, kept_now()[Kept.FILES].count) == (0, 0)
    quoted(tenant)
    stored(tenant, b"{} ")
    clock.advance(minutes=5)
    now = kept_now()
    assert now[Kept.PAYLOADS] == KeptNow(count=1, oldest_at=at, size_bytes=len(ROWS))
    assert now[Kept.FILES] == KeptNow(count=1, oldest_at=at, size_bytes=3)
    assert f"{first:%Y} Uploaded files 2 7 bytes" in page


def test_a_files_bytes_are_kept_for_30_days_and_no_longer(tenant: Tenant, clock: Clock) -> None:
    clock.freeze(the_clock.now())
    file = stored(tenant)
    clock.advance(seconds=30 * 86_400 - 1)
    sweep_files()
    assert default_storage.exists(file.blob_name)
    clock.advance(seconds=1)
    sweep_files()
    assert not default_storage.exists(file.blob_name)


def test_a_sweep_that_was_killed_after_the_bytes_is_done_again(tenant: Tenant, clock: Clock) -> None:
    file = stored(tenant)
    default_storage.delete(file.blob_name)
    clock.advance(days=31)
    sweep_files()
    file.refresh_from_db()
    assert file.swept_at is not None
    first = file.swept_at
    clock.advance(days=1)
    sweep_files()
    file.refresh_from_db()
    assert file.swept_at == first


def test_an_upload_without_a_row_goes_after_an_hour(tenant: Tenant, clock: Clock) -> None:
    kept = stored(tenant)
    orphan = write_small(uploaded_blob_name(new_public_id("file-", the_clock.now())), b"{}")
    clock.advance(minutes=59)
    assert sweep_orphans() == 0
    clock.advance(minutes=2)
    assert sweep_orphans() == 1
    assert sweep_orphans() == 0
    assert [default_storage.exists(name) for name in (orphan, kept.blob_name)] == [False, True]


BREAKS_AT_COMMIT = """
CREATE FUNCTION harness.break_off() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER breaks_off AFTER INSERT ON routing_storedfile
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION harness.break_off();
CREATE CONSTRAINT TRIGGER breaks_off AFTER INSERT ON routing_filepricing
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION harness.break_off();
"""


def test_bytes_stay_where_nobody_knows_whether_their_row_was_committed(
    tenant: Tenant, clock: Clock, superuser_connection: psycopg.Connection
) -> None:
    kept = stored(tenant)
    superuser_connection.execute(BREAKS_AT_COMMIT)
    try:
        for make in (
            lambda: stored(tenant),
            lambda: request_quote(caller=tenant.caller, stored=kept, workflow=DEFAULT_WORKFLOW),
        ):
            with pytest.raises(OperationalError):
                make()
            connection.close()
    finally:
        superuser_connection.execute("DROP FUNCTION harness.break_off() CASCADE")
    assert (StoredFile.objects.count(), Quote.objects.count()) == (1, 0)
    clock.advance(minutes=61)
    assert sweep_orphans() == 2
    assert default_storage.exists(kept.blob_name)


def blobs_of(quote_id: str) -> list[bool]:
    return [default_storage.exists(name) for name in (payload_name(quote_id), placement_name(quote_id))]


def quoted(tenant: Tenant) -> str:
    made = create_quote(caller=tenant.caller, body=ROWS, workflow=DEFAULT_WORKFLOW)
    quote_id: str = made.answer["id"]
    return quote_id


def test_the_bytes_of_an_open_quote_go_an_hour_after_it_expired(tenant: Tenant, clock: Clock) -> None:
    clock.freeze(the_clock.now())
    gone, accepted = quoted(tenant), quoted(tenant)
    accept_quote(caller=tenant.caller, quote_id=accepted, metadata=None)
    clock.advance(minutes=89)
    assert not sweep_payloads()
    assert blobs_of(gone) == [True, True]
    clock.advance(minutes=2)
    sweep_payloads()
    assert (blobs_of(gone), blobs_of(accepted)) == ([False, False], [True, True])
    clock.advance(days=40)
    sweep_payloads()
    sweep_orphans()
    with open_payload(accepted) as payload:
        assert payload.lengths.tolist() == [len(line) for line in ROWS.splitlines()]


def test_a_refused_files_payload_goes_at_once_and_the_file_stays(tenant: Tenant) -> None:
    file = stored(tenant)
    quote = request_quote(caller=tenant.caller, stored=file, workflow=DEFAULT_WORKFLOW)
    sweep_payloads()
    assert default_storage.exists(payload_name(quote.public_id))
    price_next_file()
    sweep_payloads()
    assert [default_storage.exists(name) for name in (payload_name(quote.public_id), file.blob_name)] == [False, True]


def test_a_file_and_its_quote_may_go_in_any_order(tenant: Tenant, clock: Clock) -> None:
    file = stored(tenant, ROWS)
    kept = request_quote(caller=tenant.caller, stored=file, workflow=DEFAULT_WORKFLOW).public_id
    price_next_file()
    accept_quote(caller=tenant.caller, quote_id=kept, metadata=None)
    delete_file(organisation=tenant.organisation, public_id=file.public_id)
    sweep_files()
    clock.advance(hours=3)
    sweep_payloads()
    assert not default_storage.exists(file.blob_name)
    assert blobs_of(kept) == [True, True]


def test_a_payload_without_a_quote_goes_after_an_hour(tenant: Tenant, clock: Clock) -> None:
    orphan, known = new_public_id("qt_", the_clock.now()), quoted(tenant)
    write_small(payload_name(orphan), ROWS)
    write_small(placement_name(orphan), b"rows")
    clock.advance(minutes=61)
    assert sweep_orphans() == 2
    assert (blobs_of(orphan), blobs_of(known)) == ([False, False], [True, True])


def test_a_sweep_of_payloads_that_was_killed_half_way_is_done_again(tenant: Tenant, clock: Clock) -> None:
    quote_id = quoted(tenant)
    default_storage.delete(payload_name(quote_id))
    clock.advance(hours=2)
    sweep_payloads()
    assert blobs_of(quote_id) == [False, False]
    assert Quote.objects.get(public_id=quote_id).payload_kept_until is None
