"""Wallets: opening and topping up."""

from __future__ import annotations

import hashlib
from datetime import datetime

from django.db import transaction

from accounts.audit import record
from accounts.models import Organisation, User
from billing.domain.records import TopUp
from billing.errors import PostingConflict
from ground.errors import InvalidRequest
from ground.functions import call


@transaction.atomic
def open_wallet(organisation: Organisation) -> None:
    """Give an organisation its balance row and its accounts. Doing it again changes nothing."""
    call("billing_open_wallet", [organisation.pk], "bigint")


@transaction.atomic
def record_top_up(
    organisation: Organisation,
    *,
    reference: str,
    amount_micro_usd: int,
    effective_at: datetime,
    recorded_by: User | None,
) -> TopUp:
    """Record money that came in, once per reference; what the organisation owes is paid first.

    Args:
        organisation: Whose wallet it is.
        reference: The payment's own reference, unique within the organisation.
        amount_micro_usd: What came in, in micro-USD, above zero.
        effective_at: When it came in; not compared when the call is repeated.
        recorded_by: The operator; None for what no person recorded.

    Raises:
        InvalidRequest: The amount or the reference cannot be.
        PostingConflict: The reference stands for another amount.
    """
    reference = reference.strip()
    if not 0 < len(reference) <= 200 or "\0" in reference:  # noqa: PLR2004 -- the column's width
        raise InvalidRequest(
            "A top-up needs a reference of at most 200 characters, none of them NUL.", param="reference"
        )
    if amount_micro_usd <= 0:
        raise InvalidRequest("A top-up must be above zero.", param="amount_micro_usd")
    outcome, transaction_id, wallet_micro_usd, receivable_micro_usd = call(
        "billing_record_top_up",
        [
            organisation.pk,
            reference,
            amount_micro_usd,
            effective_at,
            hashlib.sha256(str(amount_micro_usd).encode()).digest(),
            recorded_by.pk if recorded_by else None,
        ],
        "bigint text bigint timestamptz bytea bigint",
    )
    if outcome == "conflict":
        raise PostingConflict("This reference was recorded before with another amount.", param="reference")
    if outcome == "recorded":
        record(
            "top_up.recorded",
            object_type="top_up",
            object_id=reference,
            organisation=organisation,
            changes={
                "wallet_micro_usd": (None, wallet_micro_usd),
                "receivable_micro_usd": (None, receivable_micro_usd),
            },
            user=recorded_by,
        )
    return TopUp(
        transaction_id=transaction_id,
        wallet_micro_usd=wallet_micro_usd,
        receivable_micro_usd=receivable_micro_usd,
        replayed=outcome == "replayed",
    )
