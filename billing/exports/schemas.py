"""Exports in ``/v1``. Days are dates of the export's zone, both included; control totals are texts of USD."""

from __future__ import annotations

from datetime import date
from typing import Literal

from ninja import Field, Schema
from pydantic import ConfigDict

from billing.exports.models import Export
from billing.exports.reading import file_name_of


class ExportCreate(Schema):
    """What to export. Without days it is everything; without a zone, days are the organisation's."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["ledger", "usage", "receipts", "statements", "focus"]
    format: Literal["csv", "jsonl", "parquet"] = "csv"
    since: date | None = None
    until: date | None = None
    zone: str | None = None
    filters: dict[str, str] = Field(default_factory=dict)


class ExportAnswer(Schema):
    """An export: `completed` has a file with its row count, control totals and SHA-256."""

    id: str
    object: Literal["export"] = "export"
    kind: str
    format: str
    status: str
    since: date | None
    until: date | None
    zone: str
    filters: dict[str, str]
    created_at: int
    finished_at: int | None
    expires_at: int
    done_count: int
    expected_count: int | None
    row_count: int | None
    totals: dict[str, str]
    size_bytes: int | None
    sha256: str | None
    filename: str
    failure: str | None

    @classmethod
    def of(cls, export: Export) -> ExportAnswer:
        """Shape an export."""
        return cls(
            id=export.public_id,
            kind=export.kind,
            format=export.file_format,
            status=export.state,
            since=export.first_day,
            until=export.last_day,
            zone=export.zone,
            filters=export.filters,
            created_at=int(export.created_at.timestamp()),
            finished_at=int(export.finished_at.timestamp()) if export.finished_at else None,
            expires_at=int(export.expires_at.timestamp()),
            done_count=export.done_count,
            expected_count=export.expected_count,
            row_count=export.row_count,
            totals=export.totals,
            size_bytes=export.size_bytes,
            sha256=bytes(export.sha256).hex() if export.sha256 else None,
            filename=file_name_of(export),
            failure=export.failure or None,
        )


class ExportListAnswer(Schema):
    """A page of exports, newest first, in OpenAI's list shape."""

    object: Literal["list"] = "list"
    data: list[ExportAnswer]
    first_id: str | None
    last_id: str | None
    has_more: bool
