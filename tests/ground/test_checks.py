"""What a start refuses."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from ground.checks import files_are_where_every_host_finds_them


@pytest.mark.parametrize(
    ("host", "others", "is_refused"),
    [
        ("db.example", {}, True),
        ("10.0.0.7", {}, True),
        ("db.example", {"S3_BUCKET": "blobs"}, False),
        ("db.example", {"STATE_DIR_IS_SHARED": True}, False),
        ("127.0.0.1", {}, False),
        ("/run/postgresql", {}, False),
        ("", {}, False),
    ],
)
@pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")
def test_a_database_elsewhere_needs_a_place_for_files_that_all_reach(
    host: str, others: dict[str, Any], *, is_refused: bool
) -> None:
    databases = {"default": {**settings.DATABASES["default"], "HOST": host}}
    with override_settings(DATABASES=databases, **others):
        assert bool(files_are_where_every_host_finds_them()) is is_refused
