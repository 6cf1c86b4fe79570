"""Reads of routing over all organisations, for the house's own people alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q

from ground.errors import NotFound
from ground.ids import is_public_id
from routing.models import Batch, ProviderAccount, ProviderJob
from routing.risks import at_risk
from routing.selectors import EVERY_BATCH, BatchFilter, BatchPage

_SHOWN_UNCLEAR = 50


def any_batch_page(
    *, after: str | None, limit: int, customer: str = "", risk: str = "", chosen: BatchFilter = EVERY_BATCH
) -> BatchPage:
    """Give a page of all batches, the last accepted first.

    Args:
        after: Public id of the last batch of the page before.
        limit: How many a page has.
        customer: Part of an organisation's name, slug or id.
        risk: What they are at risk of (:mod:`routing.risks`).
        chosen: The other filters.

    Raises:
        NotFound: There is no batch ``after``.
    """
    batches = chosen.applied_to(Batch.objects.select_related("organisation"))
    if customer:
        batches = batches.filter(
            Q(organisation__name__icontains=customer)
            | Q(organisation__slug__icontains=customer)
            | Q(organisation__public_id__icontains=customer)
        )
    if risk:
        batches = at_risk(batches, risk)
    if after is not None:
        batches = batches.filter(pk__lt=any_batch_by_id(after).pk)
    page = list(batches.defer("plan").order_by("-pk")[: limit + 1])
    return BatchPage(batches=tuple(page[:limit]), has_more=len(page) > limit)


def any_batch_by_id(public_id: str) -> Batch:
    """Give a batch of whatever organisation.

    Raises:
        NotFound: There is none with this id.
    """
    batch = None
    if is_public_id(public_id, "batch_"):
        files = ("output_file", "error_file", "results_file")
        batch = Batch.objects.select_related("organisation", "api_key", *files).filter(public_id=public_id).first()
    if batch is None:
        raise NotFound("There is no such batch.")
    return batch


def jobs_with_origin(batch: Batch) -> list[ProviderJob]:
    """Give a batch's provider jobs in the order they were intended, each with its sub-lane, account and origin."""
    return list(
        ProviderJob.objects.filter(batch=batch)
        .select_related("sub_lane", "account", "moved_from__sub_lane")
        .defer("rows", "moved_from__rows", "sub_lane__pins", "moved_from__sub_lane__pins")
        .order_by("sub_lane__number", "number")
    )


def unclear_jobs() -> list[ProviderJob]:
    """Give the jobs that wait for a person to decide whether they were sent, the longest waiting first; 50 at most."""
    waiting = ProviderJob.objects.filter(unclear_since__isnull=False).select_related("batch", "sub_lane", "account")
    return list(waiting.defer("rows", "batch__plan", "sub_lane__pins").order_by("unclear_since", "pk")[:_SHOWN_UNCLEAR])


def refused_accounts() -> list[ProviderAccount]:
    """Give the accounts that their providers refuse themselves, the longest first; there are few accounts."""
    return list(
        ProviderAccount.objects.filter(refused_since__isnull=False)
        .defer("api_key_encrypted", "notice_secret_encrypted")
        .order_by("refused_since", "pk")
    )


def provider_accounts() -> list[ProviderAccount]:
    """Give all accounts by provider and kind, without their keys; there are few."""
    accounts = ProviderAccount.objects.defer("api_key_encrypted", "notice_secret_encrypted")
    return list(accounts.annotate(has_notice_secret=~Q(notice_secret_encrypted=b"")).order_by("provider", "kind"))


def provider_account(provider: str, kind: str) -> ProviderAccount:
    """Give the account of a provider for one kind of organisation.

    Raises:
        NotFound: There is none.
    """
    for account in provider_accounts():
        if (account.provider, account.kind) == (provider, kind):
            return account
    raise NotFound("There is no such account.")


def any_job_by_token(token: str) -> ProviderJob:
    """Give a job of whatever organisation, with its batch, sub-lane and account.

    Raises:
        NotFound: There is none with this token.
    """
    job = (
        ProviderJob.objects.filter(token=token)
        .select_related("batch__organisation", "sub_lane", "account")
        .defer("rows", "batch__plan", "sub_lane__pins")
        .first()
    )
    if job is None:
        raise NotFound("There is no such job.")
    return job


_WHY_WORDS = {
    "failed_rows": "They failed there",
    "not_sent": "Taken from there before they were sent",
    "provider_unreachable": "The provider could not be reached",
    "provider_timed_out": "The provider did not answer in time",
    "provider_unavailable": "The provider was out of order",
    "provider_model_gone": "The provider no longer has the model",
    "provider_account_refused": "The provider refused our account",
    "provider_quota_exhausted": "Our quota there was used up",
    "provider_refused": "The provider refused the job",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedWork:
    """Rows that went from one lane to another."""

    model_slug: str
    from_lane_id: str
    to_lane_id: str
    why: str
    row_count: int

    @property
    def why_words(self) -> str:
        """Give the reason in words; a fault that has none here stands as it is."""
        return _WHY_WORDS.get(self.why, self.why)


def moved_work(jobs: Sequence[ProviderJob]) -> tuple[MovedWork, ...]:
    """Give what moved between the lanes of a batch, summed; a row that moved twice counts twice.

    Args:
        jobs: All of a batch, from :func:`jobs_with_origin`.
    """
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for job in jobs:
        origin = job.moved_from
        if origin is not None:
            why = origin.fault or ("failed_rows" if job.attempt_number > origin.attempt_number else "not_sent")
            counts[job.sub_lane.model_slug, origin.sub_lane.lane_id, job.sub_lane.lane_id, why] += job.row_count
    return tuple(
        MovedWork(model_slug=model, from_lane_id=origin, to_lane_id=target, why=why, row_count=row_count)
        for (model, origin, target, why), row_count in sorted(counts.items())
    )
