"""Bytes go when their time is over, whoever is killed on the way; what is kept stays."""

from __future__ import annotations

from django.core.files.storage import default_storage

from ground import clock as the_clock
from ground.ids import new_public_id
from routing.blobs import WrittenBlob, write_small
from routing.models import StoredFile
from routing.services.files import delete_file, keep_file, uploaded_blob_name
from routing.services.retention import sweep_files, sweep_orphans
from tests.harness.clock import Clock
from tests.harness.world import Tenant


def stored(tenant: Tenant) -> StoredFile:
    public_id = new_public_id("file-", the_clock.now())
    name = write_small(uploaded_blob_name(public_id), b"{}")
    written = WrittenBlob(name=name, size_bytes=2, sha256=b"\0" * 32)
    return keep_file(
        organisation=tenant.organisation, public_id=public_id, filename="a.jsonl", written=written, lifetime=None
    )


def test_a_deleted_files_bytes_go_with_the_next_sweep(tenant: Tenant) -> None:
    gone, kept = stored(tenant), stored(tenant)
    delete_file(organisation=tenant.organisation, public_id=gone.public_id)
    assert not sweep_files()
    assert [default_storage.exists(each.blob_name) for each in (gone, kept)] == [False, True]
    gone.refresh_from_db()
    kept.refresh_from_db()
    assert gone.swept_at is not None
    assert kept.swept_at is None


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
