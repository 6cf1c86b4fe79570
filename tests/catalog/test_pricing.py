"""New rates: drafted, compared, approved by another person; what was quoted and charged keeps its rates."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from accounts.models import AuditEntry, StaffRole, User
from catalog.domain.records import TokenKind
from catalog.models import Card, RateVersion
from catalog.pricing.models import RateDraft
from catalog.pricing.selectors import rate_page
from catalog.pricing.services import decide_draft, draft_rates, import_prices, lane_named
from catalog.selectors import current_catalog
from ground import clock as product_clock
from ground.errors import InvalidRequest
from simulators.running import RunningSimulator
from tests.billing.kit import broken_rule
from tests.harness.clock import Clock
from tests.harness.world import Tenant, keep_models_in_service, make_tenant
from tests.routing.conftest import simulator  # noqa: F401 -- a fixture
from tests.routing.pages.conftest import html_of, signed_in, words_of
from tests.routing.pages.scenes import accepted, finished, member, rows, staff

FILE = Path(__file__).with_name("price-file.jsonl").read_bytes()
IN, OUT = TokenKind.INPUT, TokenKind.OUTPUT


@pytest.fixture
def drafter(clock: Clock) -> User:
    clock.freeze(product_clock.now().replace(microsecond=0))
    return staff(StaffRole.OPERATOR)


@pytest.fixture
def approver(clock: Clock) -> User:
    return staff(StaffRole.FINANCE, name="Fay Finance")


def draft(by: User, input_rate: int, output_rate: int, card: Card = Card.SELL, **more: Any) -> RateDraft:
    lane = lane_named("gpt-4o", "openai-direct")
    published = {IN: input_rate, TokenKind.CACHED_INPUT: input_rate // 2, OUT: output_rate}
    return draft_rates(lane, card, published, reason="new contract", drafted_by=by, **more)


def sold() -> tuple[int, int]:
    card = current_catalog().lanes["gpt-4o", "openai-direct"].rate_card
    assert card is not None
    return card.sell.input_rate_micro_usd_per_mtok, card.sell.output_rate_micro_usd_per_mtok


def test_rates_hold_from_their_approval_by_another_person(drafter: User, approver: User, clock: Clock) -> None:
    assert sold() == (1_250_000, 5_000_000)
    made = draft(drafter, 1_500_001, 6_000_000, discount_basis_points=1_000)
    assert sold() == (1_250_000, 5_000_000)
    with pytest.raises(InvalidRequest, match="somebody else"):
        decide_draft(made.public_id, approves=True, reason="my own", decided_by=drafter)
    clock.advance(minutes=5)
    for _ in range(2):
        decided = decide_draft(made.public_id, approves=True, reason="contract seen", decided_by=approver)
    # 1,500,001 less 10 % is 1,350,000.9.
    assert sold() == (1_350_001, 5_400_000)
    assert decided.version is not None
    assert (decided.version.valid_from, RateVersion.objects.filter(draft=made).count()) == (product_clock.now(), 1)
    entry = AuditEntry.objects.get(action="rates.approved")
    assert entry.changes["sell input"] == [1_250_000, 1_350_001]
    with pytest.raises(InvalidRequest, match="decided before"):
        decide_draft(made.public_id, approves=False, reason="too late", decided_by=approver)


def test_rates_of_a_later_day_leave_no_gap_and_overlap_with_nothing(
    drafter: User, approver: User, clock: Clock, owner_cursor: psycopg.Cursor
) -> None:
    start = product_clock.now() + timedelta(days=3)
    made = draft(drafter, 2_000_000, 5_000_000, valid_from=start)
    with pytest.raises(InvalidRequest, match="begins at that instant"):
        draft(drafter, 3_000_000, 5_000_000, valid_from=start)
    decide_draft(made.public_id, approves=True, reason="contract seen", decided_by=approver)
    with pytest.raises(InvalidRequest, match="begins at that instant"):
        draft(drafter, 3_000_000, 5_000_000, valid_from=start)
    with pytest.raises(InvalidRequest, match="now or later"):
        draft(drafter, 3_000_000, 5_000_000, valid_from=product_clock.now() - timedelta(seconds=1))
    with pytest.raises(InvalidRequest, match="already"):
        draft(drafter, 1_250_000, 5_000_000)
    version = RateVersion.objects.get(draft=made)
    doubled = (
        "INSERT INTO catalog_rateversion (lane_id, card, origin, valid_from, made_at, made_in_transaction) SELECT"
        f" lane_id, card, origin, valid_from, made_at, 0 FROM catalog_rateversion WHERE id = {version.pk}"
    )
    assert broken_rule(owner_cursor, doubled) == "rate_version_is_one_per_start"
    assert sold() == (1_250_000, 5_000_000)
    before, _ = rate_page(at=start - timedelta(microseconds=1), after=None, limit=9, text="gpt-4o", card="sell")
    then, _ = rate_page(at=start, after=None, limit=9, text="gpt-4o", card="sell")
    ours = {row.version.lane.lane_id: row for row in before if row.version.lane.model.slug == "gpt-4o"}["openai-direct"]
    after = {row.version.lane.lane_id: row for row in then if row.version.lane.model.slug == "gpt-4o"}["openai-direct"]
    assert (ours.rates["input"], ours.valid_to) == (1_250_000, start)
    assert (after.rates["input"], after.version.valid_from, after.valid_to) == (2_000_000, start, None)
    assert after.margin_basis_points == 0
    clock.advance(days=3)
    assert sold() == (2_000_000, 5_000_000)


@pytest.mark.parametrize(
    ("input_rate", "output_rate", "is_extraordinary"),
    [
        (12_500_000, 5_000_000, False),
        (12_500_001, 5_000_000, True),
        (1_250_000, 499_999, True),
        (1_250_000, 500_000, False),
        (1_000_000_001, 5_000_000, True),
    ],
)
def test_rates_far_from_the_live_ones_are_stopped_until_another_person_confirms_them(
    drafter: User,
    approver: User,
    owner_cursor: psycopg.Cursor,
    input_rate: int,
    output_rate: int,
    is_extraordinary: bool,  # noqa: FBT001 -- pytest gives it by name
) -> None:
    made = draft(drafter, input_rate, output_rate)
    assert made.is_extraordinary is is_extraordinary
    if is_extraordinary:
        with pytest.raises(InvalidRequest) as refused:
            decide_draft(made.public_id, approves=True, reason="in a hurry", decided_by=approver)
        assert refused.value.code == "extraordinary"
        approve = (
            "UPDATE catalog_ratedraft SET state = 'approved', decided_at = now(), decided_by_id = {by},"
            " version_id = (SELECT min(id) FROM catalog_rateversion), is_confirmed = {confirmed}"
        )
        unconfirmed, own = (
            approve.format(by=approver.pk, confirmed=False),
            approve.format(by=drafter.pk, confirmed=True),
        )
        assert broken_rule(owner_cursor, unconfirmed) == "extraordinary_rates_are_confirmed"
        assert broken_rule(owner_cursor, own) == "rates_are_approved_by_another_person"
    decide_draft(made.public_id, approves=True, reason="seen", decided_by=approver, confirms_extraordinary=True)
    assert sold() == (input_rate, output_rate)


def test_a_price_file_drafts_what_it_says_otherwise(drafter: User) -> None:
    report = import_prices(FILE, name="prices.jsonl", drafted_by=drafter)
    assert (report.drafts, report.bad_lines) == ((), ())
    assert report.unchanged_count > 3
    dearer = FILE.replace(
        b'"batch_input_rate_micro_usd_per_mtok": 1250000', b'"batch_input_rate_micro_usd_per_mtok": 1300000'
    )
    dearer += (
        b'{"provider": "openai", "model_id": "nobody-has-it", "input_rate_micro_usd_per_mtok": 1}\n'
        b'{"provider": "openai", "model_id": "x", "input_rate_micro_usd_per_mtok": 0.0025}\n'
        b"no json\n"
        b'{"provider": "open\\u0000ai", "model_id": "x"}\n'
        b'{"provider": "openai", "model_id": "\\ud800"}\n'
        # No rate can be above a million USD, and the lines before are drafted all the same.
        b'{"provider": "openai", "model_id": "gpt-4.1-mini-2025-04-14", "input_rate_micro_usd_per_mtok": 1000000000001,'
        b' "output_rate_micro_usd_per_mtok": 1, "batch_input_rate_micro_usd_per_mtok": 1000000000001,'
        b' "batch_output_rate_micro_usd_per_mtok": 1}\n'
    )
    changed = import_prices(dearer, name="prices.jsonl", drafted_by=drafter)
    assert [(each.lane.model.slug, each.card) for each in changed.drafts] == [
        ("gpt-4o", "provider_batch"),
        ("gpt-4o", "sell"),
    ]
    assert changed.drafts[0].published["input"] == 1_300_000
    assert "prices.jsonl, line" in changed.drafts[0].reason
    lines = FILE.count(b"\n")
    assert [bad.line for bad in changed.bad_lines] == [lines + 2, lines + 3, lines + 4, lines + 5, lines + 6]
    assert "0.0025" in changed.bad_lines[0].message
    assert changed.bad_lines[-1].message == "A rate is 0 to 1,000,000 USD per million tokens."
    assert changed.unknown_count == report.unknown_count + 1
    again = import_prices(dearer, name="prices.jsonl", drafted_by=drafter)
    assert (again.drafts, again.waiting_count) == ((), 2)


def test_a_rate_change_rewrites_no_quote_receipt_or_export(
    drafter: User,
    approver: User,
    simulator: RunningSimulator,  # noqa: F811 -- the fixture
    clock: Clock,
) -> None:
    keep_models_in_service()
    tenant = make_tenant()
    batch = accepted(tenant, "gpt-4o", count=3)
    finished(batch, simulator, clock)
    quote = (
        Client()
        .post("/v1/quotes/model", rows("gpt-4o", count=2), content_type="application/jsonl", headers=tenant.headers)
        .json()
    )
    before = _papers(tenant, batch.receipt_id, quote["id"])
    made = draft(drafter, 9_000_000, 20_000_000)
    decide_draft(made.public_id, approves=True, reason="contract seen", decided_by=approver)
    assert sold() == (9_000_000, 20_000_000)
    assert _papers(tenant, batch.receipt_id, quote["id"]) == before


def _papers(tenant: Tenant, receipt_id: str, quote_id: str) -> list[bytes]:
    admin = signed_in(
        User.objects.filter(memberships__organisation=tenant.organisation).first() or member(tenant.organisation)
    )
    api = Client(headers=tenant.headers)
    month = f"{product_clock.now():%Y-%m}"
    answers = [
        api.get(f"/v1/quotes/{quote_id}"),
        api.get(f"/v1/receipts/{receipt_id}"),
        admin.get(f"/app/receipts/{receipt_id}/csv"),
        admin.get(f"/app/receipts/{receipt_id}/json"),
        admin.get(f"/app/wallet/statements/{month}/?format=csv"),
        admin.get(f"/app/wallet/statements/{month}/?format=json"),
    ]
    assert [answer.status_code for answer in answers] == [200] * 6
    return [b"".join(answer) for answer in answers]


def test_the_pages_take_a_draft_to_its_approval(drafter: User, approver: User) -> None:
    operator, finance = signed_in(drafter), signed_in(approver)
    assert "gpt-4o" in words_of(operator.get("/ops/rates/?text=gpt-4o&card=sell"))
    form = {
        "model": "gpt-4o",
        "lane": "openai-direct",
        "card": "sell",
        "input": "1.3",
        "output": "600",
        "reason": "new",
    }
    wrong = operator.post("/ops/rates/new/", {**form, "lane": "nowhere", "discount_percent": "0"})
    assert (wrong.status_code, "There is no such lane" in words_of(wrong)) == (422, True)
    sent = operator.post("/ops/rates/new/", {**form, "discount_percent": "0"})
    made = RateDraft.objects.get()
    assert sent["Location"] == f"/ops/rates/drafts/{made.public_id}/"
    assert made.published == {"input": 1_300_000, "output": 600_000_000}
    assert operator.get(f"{sent['Location']}decide/").status_code == 403
    assert "These rates are extraordinary" in words_of(finance.get(sent["Location"]))
    decision = {"approves": "yes", "reason": "seen"}
    stopped = finance.post(f"{sent['Location']}decide/", decision)
    assert (stopped.status_code, "Confirm that it is meant" in words_of(stopped)) == (422, True)
    confirmed = {**decision, "confirms_extraordinary": "on"}
    assert finance.post(f"{sent['Location']}decide/", confirmed).status_code == 302
    assert sold() == (1_300_000, 600_000_000)
    upload = SimpleUploadedFile("prices.jsonl", FILE.replace(b" 1250000", b" 1300000"))
    report = operator.post("/ops/rates/import/", {"price_file": upload})
    assert "differ from the live rates" in words_of(report)
    assert "prices.jsonl, line" in html_of(operator.get("/ops/rates/drafts/"))
