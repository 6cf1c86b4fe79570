"""An export's file over HTTP, streamed, with its hash."""

from __future__ import annotations

import base64

from django.http import FileResponse, HttpResponseBase

from accounts.audit import record_reading
from billing.exports.models import Export
from billing.exports.reading import file_name_of, file_of
from billing.exports.scope import CONTENT_TYPES, ExportFormat
from ground.blobs import READ_CHUNK_BYTES, open_blob
from ground.connections import give_back


class _Download(FileResponse):
    """A file in chunks as large as blobs are read in; closed with the answer, also where nobody read it."""

    block_size = READ_CHUNK_BYTES


def download(export: Export) -> HttpResponseBase:
    """Give an export's file.

    Raises:
        NotFound: It has none yet, or no more.
    """
    blob = open_blob(file_of(export))
    digest = bytes(export.sha256 or b"")
    record_reading(
        "export.downloaded", object_type="export", object_id=export.public_id, organisation=export.organisation
    )
    # The rest needs the disk and the reader only.
    give_back()
    answer = _Download(
        blob,
        as_attachment=True,
        filename=file_name_of(export),
        content_type=CONTENT_TYPES[ExportFormat(export.file_format)],
    )
    answer["ETag"] = f'"{digest.hex()}"'
    answer["Repr-Digest"] = f"sha-256=:{base64.b64encode(digest).decode()}:"
    return answer
