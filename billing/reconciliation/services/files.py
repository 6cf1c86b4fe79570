"""Taking a provider's report: its bytes are kept with their hash before anything is read of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import date, datetime

from django.db import IntegrityError, transaction

from accounts.audit import record
from accounts.models import User
from accounts.zones import zone_named
from billing.reconciliation.closed import refusing_what_is_closed
from billing.reconciliation.domain.mapped import checked_mapping
from billing.reconciliation.domain.records import ColumnMapping, Format, UnreadableFile
from billing.reconciliation.domain.registry import REPORTS
from billing.reconciliation.domain.values import BadValue, number_of, text_of
from billing.reconciliation.models import ColumnMappingRow, FileState, InvoiceFile, ProviderInvoice
from ground import clock
from ground.blobs import BlobWriter, WrittenBlob, delete_blob
from ground.errors import InvalidRequest, NotFound, PayloadTooLarge
from ground.ids import new_public_id
from ground.wake import wake

FILE_MAX_BYTES = 2 * 1024**3
_PARQUET_MAGIC = b"PAR1"
# What takes a name: a file that was refused or cancelled may be handed in again.
_TAKEN = (FileState.DRAFT, FileState.UPLOADED, FileState.READ, FileState.REPLACED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is said of a file when it is handed in: whose bill it is, which month, how it is read."""

    provider: str
    provider_account: str
    period: date
    report_format: Format
    file_name: str
    mapping: ColumnMapping | None = None
    invoice_number: str = ""
    stated_total_micro_usd: int | None = None
    request_parameters: str = ""
    fetched_at: datetime | None = None


class FileTakenBefore(InvalidRequest):
    """The same bytes were handed in for this invoice before; ``file`` is that one."""

    code = "invoice_file_taken"

    def __init__(self, file: InvoiceFile) -> None:
        super().__init__(
            f"This file was handed in before, as {file.public_id} ({file.file_name}).",
            param="file",
            extra={"file_id": file.public_id, "invoice_id": file.invoice.public_id},
        )
        self.file = file


def take_file(
    report: Report, chunks: Iterable[bytes], *, by: User | None, begin: Callable[[bytes], None] = lambda _sha256: None
) -> InvoiceFile:
    """Keep a report's bytes and ask for them to be read; it counts for its invoice once that has succeeded.

    A CSV without a mapping waits as a draft for :func:`map_file`.

    Args:
        report: What is said of the file.
        chunks: Its bytes.
        by: Who hands it in.
        begin: Called with its SHA-256 when all of it is there, before anything is kept.

    Raises:
        InvalidRequest: What is said of it cannot be.
        PayloadTooLarge: It is longer than 2 GiB.
        FileTakenBefore: The same bytes were taken for this invoice.
        PeriodClosed: The month is closed.
    """
    _check(report)
    public_id = new_public_id("invf_", clock.now())
    head = b""
    with BlobWriter(f"invoices/{public_id}") as writer:
        for chunk in chunks:
            # The first chunk may be a single byte.
            head = (head + chunk)[: len(_PARQUET_MAGIC)] if len(head) < len(_PARQUET_MAGIC) else head
            writer.write(chunk)
            if writer.size_bytes > FILE_MAX_BYTES:
                raise PayloadTooLarge("A report may have up to 2 GiB.", param="file")
        if not writer.size_bytes:
            raise InvalidRequest("The file is empty.", param="file", code="empty_file")
        begin(writer.digest())
        _refuse_if_taken(report, writer.digest())
        blob = writer.save()
    try:
        with refusing_what_is_closed(report.period), transaction.atomic():
            return _written(report, public_id, blob, by=by, is_parquet=head == _PARQUET_MAGIC)
    except BaseException:
        delete_blob(blob.name)
        raise


def stated_total_of(text: str) -> int:
    """Give the total that a person says an invoice has, in micro-USD.

    Raises:
        InvalidRequest: It is no amount in USD with up to six decimals, below a million million.
    """
    try:
        total = number_of(text, name="The total", code="invalid_amount")
    except BadValue:
        raise InvalidRequest("The total is an amount in USD, such as 1234.56.", param="total") from None
    if abs(total) >= 10**12 or total != round(total, 6):
        raise InvalidRequest("The total is an amount in USD with up to six decimals.", param="total")
    return int(total.scaleb(6))


@transaction.atomic
def ask_to_cancel(file_public_id: str) -> InvoiceFile:
    """Ask that a file is read no further; what was read of it goes with the next piece. One that is read stays."""
    files = InvoiceFile.objects.filter(public_id=file_public_id)
    ended_count = files.filter(state=FileState.DRAFT).update(state=FileState.CANCELLED)
    asked_count = files.filter(state=FileState.UPLOADED, is_cancel_asked=False).update(is_cancel_asked=True)
    if ended_count or asked_count:
        record("invoice.file_cancelled", object_type="invoice_file", object_id=file_public_id)
    wake("billing.read_invoices")
    return file_by_id(file_public_id)


def map_file(file_public_id: str, mapping: ColumnMapping, *, save_as: str, by: User | None) -> InvoiceFile:
    """Give a draft its mapping and ask for it to be read; with a name the mapping is kept for the next file.

    Raises:
        NotFound: There is no such file.
        InvalidRequest: The mapping cannot be followed, or the file is no draft any more.
    """
    _check_mapping(mapping)
    with transaction.atomic():
        file = InvoiceFile.objects.select_for_update().filter(public_id=file_public_id).first()
        if file is None:
            raise NotFound("There is no such file.")
        if file.state != FileState.DRAFT:
            raise InvalidRequest("This file has its mapping already.", code="file_is_mapped")
        file.mapping, file.state, file.due_at = asdict(mapping), FileState.UPLOADED, clock.now()
        file.save()
        record(
            "invoice.file_mapped",
            object_type="invoice_file",
            object_id=file_public_id,
            changes={"mapping_kept_as": (None, text_of(save_as)[:80] or None)},
            user=by,
        )
        if save_as:
            ColumnMappingRow.objects.update_or_create(
                name=text_of(save_as)[:80],
                defaults={"mapping": asdict(mapping), "saved_by": by, "saved_at": clock.now()},
            )
    wake("billing.read_invoices")
    return file_by_id(file_public_id)


def file_by_id(file_public_id: str) -> InvoiceFile:
    """Give a file with its invoice.

    Raises:
        NotFound: There is none.
    """
    file = InvoiceFile.objects.select_related("invoice", "uploaded_by").filter(public_id=file_public_id).first()
    if file is None:
        raise NotFound("There is no such file.")
    return file


def _check(report: Report) -> None:
    if not 0 < len(report.provider) <= 40 or not 0 < len(report.provider_account) <= 80:  # noqa: PLR2004 -- the columns' widths
        raise InvalidRequest("Say whose bill it is: a provider, and our account there.", param="provider_account")
    if "\0" in report.provider + report.provider_account + report.file_name + report.invoice_number:
        raise InvalidRequest("Names hold no NUL.", param="provider_account")
    if report.period.day != 1:
        raise InvalidRequest("The period is a month: its first day.", param="period")
    if report.mapping is not None:
        _check_mapping(report.mapping)


def _check_mapping(mapping: ColumnMapping) -> None:
    try:
        checked_mapping(mapping)
    except UnreadableFile as error:
        raise InvalidRequest(error.message, param="mapping") from error
    # Matching hands the name to PostgreSQL, which has fewer than the files of this machine.
    if zone_named(mapping.zone) is None:
        raise InvalidRequest(f"There is no time zone {mapping.zone[:60]!r}.", param="mapping")


def _refuse_if_taken(report: Report, sha256: bytes) -> None:
    found = (
        InvoiceFile.objects.select_related("invoice")
        .filter(
            invoice__provider=report.provider,
            invoice__provider_account=report.provider_account,
            invoice__period=report.period,
            sha256=sha256,
            state__in=_TAKEN,
        )
        .first()
    )
    if found is not None:
        raise FileTakenBefore(found)


def _written(report: Report, public_id: str, blob: WrittenBlob, *, by: User | None, is_parquet: bool) -> InvoiceFile:
    at = clock.now()
    is_draft = report.report_format is Format.MAPPED_CSV and report.mapping is None
    invoice, _ = ProviderInvoice.objects.get_or_create(
        provider=report.provider,
        provider_account=report.provider_account,
        period=report.period,
        defaults={"public_id": new_public_id("inv_", at), "created_at": at},
    )
    if report.invoice_number or report.stated_total_micro_usd is not None:
        invoice.number = text_of(report.invoice_number)[:120] or invoice.number
        invoice.stated_total_micro_usd = report.stated_total_micro_usd
        invoice.save(update_fields=["number", "stated_total_micro_usd"])
    try:
        with transaction.atomic():
            file = InvoiceFile.objects.create(
                public_id=public_id,
                invoice=invoice,
                report_format=report.report_format,
                has_money=REPORTS[report.report_format].has_money,
                is_parquet=is_parquet,
                state=FileState.DRAFT if is_draft else FileState.UPLOADED,
                file_name=text_of(report.file_name) or "report",
                size_bytes=blob.size_bytes,
                sha256=blob.sha256,
                blob_name=blob.name,
                mapping=None if report.mapping is None else asdict(report.mapping),
                request_parameters=text_of(report.request_parameters),
                fetched_at=report.fetched_at,
                uploaded_by=by,
                uploaded_at=at,
                due_at=None if is_draft else at,
            )
            record(
                "invoice.file_taken",
                object_type="invoice_file",
                object_id=public_id,
                changes={"sha256": (None, blob.sha256.hex()), "name": (None, file.file_name)},
                user=by,
            )
    except IntegrityError:
        # Handed in twice at once: the constraint decides who was first.
        _refuse_if_taken(report, blob.sha256)
        raise
    wake("billing.read_invoices")
    return file
