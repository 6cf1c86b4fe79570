"""Blobs that are left to the disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import LazySettings

from ground.blobs import delete_blob, read_blob, write_small
from ground.page_cache import leave_to_disk

CONTENT = bytes(range(256)) * 2_000


@pytest.fixture(autouse=True)
def _own_folder(settings: LazySettings, tmp_path: Path) -> None:
    settings.STORAGES = {
        **settings.STORAGES,
        "default": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": tmp_path, "base_url": None},
        },
    }


def test_a_blob_that_is_left_to_the_disk_reads_as_it_was_written() -> None:
    name = write_small("left/one", CONTENT)
    leave_to_disk(name, len(CONTENT))
    assert read_blob(name) == CONTENT


def test_more_than_may_wait_and_blobs_that_are_gone_are_passed_over() -> None:
    name = write_small("left/gone", CONTENT)
    for _ in range(200):
        leave_to_disk(name, len(CONTENT))
    delete_blob(name)
    leave_to_disk(name, len(CONTENT))
    leave_to_disk("left/never", len(CONTENT))
    kept = write_small("left/kept", CONTENT)
    leave_to_disk(kept, len(CONTENT))
    assert read_blob(kept) == CONTENT
