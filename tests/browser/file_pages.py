"""Pages of files."""

from __future__ import annotations

from collections.abc import Mapping

from playwright.sync_api import Page, expect

from routing.services.deletions import delete_file
from routing.services.file_batches import validate_next_batch
from routing.services.file_quotes import price_next_file
from tests.browser.cases import PageCase, Role, World
from tests.routing.pages import scenes

_FILES = "/app/files/"
_MEMBERS: Mapping[Role, int] = {"nobody": 302, "viewer": 200, "operator": 404}
_WRITERS: Mapping[Role, int] = {"nobody": 302, "viewer": 403, "operator": 404, "stranger": 404}


def _uploaded(world: World) -> str:
    return f"{_FILES}{scenes.file_sent(world.tenant, scenes.rows())}/"


def _used(world: World) -> str:
    batch = scenes.validating(world.tenant, scenes.rows())
    price_next_file()
    validate_next_batch()
    batch.refresh_from_db()
    world.finished(batch)
    return f"{_FILES}{batch.input_file_id}/"


def _some_files(world: World) -> str:
    _used(world)
    _deleted(world)
    return _FILES


def _deleted(world: World) -> str:
    path = _uploaded(world)
    delete_file(organisation=world.tenant.organisation, public_id=path.split("/")[3])
    return path


def _finished(world: World) -> str:
    return f"/app/batches/{world.finished(world.accepted()).public_id}/"


def _open_delete(page: Page) -> None:
    page.get_by_role("link", name="Delete", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Delete the file")).to_be_visible()


def _open_delete_of_batch(page: Page) -> None:
    page.get_by_role("link", name="Delete the files").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Delete the files")).to_be_visible()


OF_FILES = (
    PageCase(name="no files", url_name="routing:file-list", seen_by="admin", make=lambda _world: _FILES),
    PageCase(name="files", url_name="routing:file-list", seen_by="admin", make=_some_files, others=_MEMBERS),
    PageCase(
        name="file",
        url_name="routing:file-detail",
        seen_by="admin",
        make=_used,
        others={**_MEMBERS, "stranger": 404},
    ),
    PageCase(name="file that was deleted", url_name="routing:file-detail", seen_by="admin", make=_deleted),
    PageCase(
        name="deleting a file in its dialog",
        url_name="routing:file-detail",
        seen_by="admin",
        make=_uploaded,
        act=_open_delete,
    ),
    PageCase(
        name="delete a file",
        url_name="routing:file-delete",
        seen_by="admin",
        make=lambda world: f"{_uploaded(world)}delete/",
        others=_WRITERS,
    ),
    PageCase(
        name="batch, deleting its files",
        url_name="routing:batch-detail",
        seen_by="admin",
        make=_finished,
        act=_open_delete_of_batch,
    ),
    PageCase(
        name="delete the files of a batch",
        url_name="routing:batch-files-delete",
        seen_by="admin",
        make=lambda world: f"{_finished(world)}files/delete/",
        others=_WRITERS,
    ),
)
NOT_OF_FILES = {
    "routing:file-content": "a download",
    "routing:batch-retry": "takes a POST and leads to a quote",
}
