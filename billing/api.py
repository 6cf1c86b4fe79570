"""``/v1/wallet`` and ``/v1/receipts``."""

from __future__ import annotations

from typing import Annotated, Any, cast

from django.http import HttpRequest
from ninja import Query, Router

from accounts.selectors import Caller
from billing import selectors
from billing.models import Receipt
from billing.schemas import ReceiptAnswer, ReceiptListAnswer, WalletAnswer

router = Router(tags=["billing"])


@router.get("/wallet", response=WalletAnswer)
def get_wallet(request: HttpRequest) -> WalletAnswer:
    """Give the caller's wallet."""
    return WalletAnswer.of(selectors.wallet(_caller(request).organisation))


@router.get("/receipts", response=ReceiptListAnswer)
def list_receipts(
    request: HttpRequest, after: str | None = None, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> ReceiptListAnswer:
    """Give a page of the caller's receipts, newest first."""
    page, has_more = selectors.receipts(_caller(request).organisation, after=after, limit=limit)
    return ReceiptListAnswer(
        data=[ReceiptAnswer.of(receipt) for receipt in page],
        first_id=page[0].public_id if page else None,
        last_id=page[-1].public_id if page else None,
        has_more=has_more,
    )


@router.get("/receipts/{receipt_id}", response=ReceiptAnswer)
def get_receipt(request: HttpRequest, receipt_id: str) -> ReceiptAnswer:
    """Give one of the caller's receipts."""
    return ReceiptAnswer.of(selectors.receipt_by_id(_caller(request).organisation, receipt_id))


def receipt_answer(receipt: Receipt) -> dict[str, Any]:
    """Give a receipt, its lines loaded, as every endpoint shows it."""
    return ReceiptAnswer.of(receipt).model_dump()


def _caller(request: HttpRequest) -> Caller:
    return cast("Caller", request.auth)  # type: ignore[attr-defined]  # django-ninja adds it
