"""Deleting files: from now on they are not found, the audit log says who did it, and the sweep removes the bytes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from accounts.audit import record
from accounts.models import Organisation
from ground import clock
from ground.errors import InvalidRequest, NotFound
from routing.models import ENDED_STATUSES, Batch, StoredFile
from routing.selectors import file_by_id


def delete_file(*, organisation: Organisation, public_id: str) -> StoredFile:
    """Delete a file. Its row stays as the record of what was there.

    A batch's output and error file hold rows of its results, so these go with the first of them.

    Raises:
        NotFound: The organisation has no such file.
    """
    stored = file_by_id(organisation=organisation, public_id=public_id)
    with transaction.atomic():
        files = [stored]
        of_batches = Batch.objects.select_related("results_file")
        batch = of_batches.filter(Q(output_file=stored) | Q(error_file=stored)).first()
        if batch is not None and batch.results_file is not None:
            files.append(batch.results_file)
        _delete(files, clock.now())
        record(
            "file.deleted",
            object_type="file",
            object_id=stored.public_id,
            organisation=organisation,
            changes={"file": (_words_of(stored), None)},
        )
    return stored


@transaction.atomic
def delete_batch_files(*, organisation: Organisation, public_id: str) -> Batch:
    """Delete all that a batch was given and put out: its output, error and results file, and its copy of the input.

    Receipt, counts and charge stay; the uploaded file it was made of is the customer's own and is deleted as such.
    Asked again, it changes nothing.

    Raises:
        NotFound: The organisation has no such batch.
        InvalidRequest: It has not ended.
    """
    batch = Batch.objects.select_for_update().filter(organisation=organisation, public_id=public_id).first()
    if batch is None:
        raise NotFound(f"There is no batch {public_id[:60]!r}.", param="batch_id")
    if batch.status not in ENDED_STATUSES:
        raise InvalidRequest(
            f"The batch is {batch.status}; its files can be deleted when it has ended.", param="batch_id"
        )
    if batch.files_deleted_at is not None:
        return batch
    batch.files_deleted_at = clock.now()
    batch.save(update_fields=["files_deleted_at"])
    files = files_of(batch)
    _delete(list(files.values()), batch.files_deleted_at)
    record(
        "batch.files_deleted",
        object_type="batch",
        object_id=batch.public_id,
        organisation=organisation,
        changes={kind: (_words_of(stored), None) for kind, stored in files.items()},
    )
    return batch


def files_of(batch: Batch) -> dict[str, StoredFile]:
    """Give the files that a batch put out, by kind; they may be deleted."""
    named = {"output": batch.output_file, "error": batch.error_file, "results": batch.results_file}
    return {kind: stored for kind, stored in named.items() if stored is not None}


def _delete(files: Sequence[StoredFile], at: datetime) -> None:
    StoredFile.objects.filter(pk__in=[stored.pk for stored in files], deleted_at=None).update(deleted_at=at)


def _words_of(stored: StoredFile) -> str:
    """Give what the audit log says of a file: nothing that a customer wrote."""
    return f"{stored.public_id}, {stored.size_bytes} bytes, SHA-256 {bytes(stored.sha256).hex()}"
