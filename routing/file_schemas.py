"""Shapes of the API of files: what the published OpenAPI says comes out."""

from __future__ import annotations

from typing import Literal

from ninja import Schema


class FileQuoteOut(Schema):
    """The newest quote of an uploaded file: a batch of the file runs under it while it is `pending` or `ready`.

    `url` leads to all of it; `total_micro_usd` is what it expects, once it is priced.
    """

    id: str
    object: str
    status: Literal["pending", "ready", "accepted", "expired", "failed"]
    url: str
    expires_at: int | None
    total_micro_usd: int | None


class FileOut(Schema):
    """OpenAI's file object, and ours beside it: the quote of a file that was uploaded."""

    id: str
    object: str
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: str
    quote: FileQuoteOut | None


class FileListOut(Schema):
    """A page of files."""

    object: str
    data: list[FileOut]
    first_id: str | None
    last_id: str | None
    has_more: bool


class FileDeletedOut(Schema):
    """What is said of a file that was deleted."""

    id: str
    object: str
    deleted: bool


class DeletedFileOut(Schema):
    """What was there of a file; `kind` is `output`, `error` or `results`."""

    kind: str
    id: str
    filename: str
    bytes: int
    sha256: str


class FilesDeletedOut(Schema):
    """When the files of a batch were deleted, and what was there."""

    id: str
    object: str
    deleted: bool
    deleted_at: int
    files: list[DeletedFileOut]
