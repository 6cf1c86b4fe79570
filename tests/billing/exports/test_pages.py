"""Exports on pages: asked for from a screen with its filters, followed to their end, and only by those who may."""

from __future__ import annotations

import csv
import html
import io
import re
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.test import Client

from accounts.models import AuditEntry, MemberRole, Organisation
from billing.exports.models import Export
from billing.services.exports import ExportWish, create_export, write_next_export
from tests.billing.kit import make_organisation
from tests.billing.test_receipt_pages import client_of
from tests.routing.pages import scenes
from tests.routing.pages.conftest import html_of, signed_in, words_of

PAGE = "/app/exports/"


def export_link_of(client: Client, page: str) -> str:
    found = re.search(r'href="(/app/exports/new\?[^"]+)"', html_of(client.get(page)))
    assert found, page
    return html.unescape(found.group(1))


def sent_as_it_stands(client: Client, address: str, **changed: str) -> Any:
    """Send the form at an address with what it holds."""
    form = html_of(client.get(address)).split('action="/app/exports/new"')[1].split("</form>")[0]
    values = {
        name.group(1): html.unescape(value.group(1))
        for tag in re.findall(r"<input[^>]+>", form)
        for name, value in [(re.search(r'name="([^"]+)"', tag), re.search(r'value="([^"]*)"', tag))]
        if name and value
    }
    for name, options in re.findall(r'<select name="([^"]+)"[^>]*>(.*?)</select>', form, re.DOTALL):
        chosen = re.search(r'value="([^"]+)" selected', options) or re.search(r'value="([^"]+)"', options)
        assert chosen, name
        values[name] = chosen.group(1)
    return client.post("/app/exports/new", values | changed)


@pytest.mark.parametrize(
    ("screen", "kind", "row_count", "zone"),
    [
        ("/app/usage/?since=2026-11-03&until=2026-11-03&model=model-tiny", "usage", 1, "Asia/Kathmandu"),
        ("/app/receipts/?state=credited", "receipts", 2, "Asia/Kolkata"),
        ("/app/wallet/?kind=top_up", "ledger", 2, "Asia/Kolkata"),
    ],
)
def test_a_screens_export_has_its_filters_and_its_zone(
    customer: Organisation, screen: str, kind: str, row_count: int, zone: str
) -> None:
    client = client_of(customer)
    # The usage page counts days of the reporting zone, the lists those of the viewer's.
    client.cookies["zone"] = "Asia%2FKolkata"
    answer = sent_as_it_stands(client, export_link_of(client, screen))
    export = Export.objects.get()
    assert answer["Location"] == f"{PAGE}{export.public_id}/"
    assert (export.kind, export.state, export.row_count, export.zone) == (kind, "completed", row_count, zone)
    page = words_of(client.get(answer["Location"]))
    assert f"Rows {row_count}" in page
    assert bytes(export.sha256 or b"").hex() in page
    file: Any = client.get(f"{PAGE}{export.public_id}/file")
    assert len(list(csv.reader(io.StringIO(b"".join(file.streaming_content).decode())))) == row_count + 1
    assert file["Content-Disposition"].endswith(f'{zone.replace("/", "-")}.csv"')
    assert "Completed" in words_of(client.get(PAGE))


def test_a_form_that_cannot_be_meant_comes_back_with_its_mistake(customer: Organisation) -> None:
    client = client_of(customer)
    for changed, said in (
        ({"zone": "Mars"}, "no time zone"),
        ({"since": "2026-02-02", "until": "2026-02-01"}, "before the first"),
        ({"of": "journal"}, "Select a valid choice"),
        ({"state": "credited"}, "no filter"),
    ):
        answer = sent_as_it_stands(client, "/app/exports/new?of=usage", **changed)
        assert (answer.status_code, said in words_of(answer)) == (422, True), changed
    assert not Export.objects.exists()


def test_an_unfinished_export_is_followed_until_its_end_and_can_be_cancelled(
    customer: Organisation, settings: Any
) -> None:
    settings.EXPORT_ROWS_AT_ONCE = 1
    client = client_of(customer)
    export = create_export(customer, ExportWish(kind="receipts", file_format="jsonl"))
    address = f"{PAGE}{export.public_id}/"
    region = {"HX-Request": "true", "HX-Target": "export"}
    poll = re.search(r'hx-get="([^"]+)"', html_of(client.get(address)))
    assert poll
    assert client.get(poll.group(1), headers=region).status_code == 204
    assert client.get(f"{address}file").status_code == 404
    write_next_export()
    assert "hx-get" not in html_of(client.get(poll.group(1), headers=region))
    other = create_export(customer, ExportWish(kind="receipts", file_format="jsonl"))
    assert client.post(f"{PAGE}{other.public_id}/cancel")["Location"] == f"{PAGE}{other.public_id}/"
    other.refresh_from_db()
    assert other.state == "cancelled"


def test_exports_are_for_those_who_read_money_and_for_their_own_desk(customer: Organisation) -> None:
    own = create_export(customer, ExportWish(kind="focus", file_format="csv"))
    house = create_export(None, ExportWish(kind="journal", file_format="beancount"))
    for role, status in ((MemberRole.BILLING, 200), (MemberRole.DEVELOPER, 403), (MemberRole.VIEWER, 403)):
        client = client_of(customer, role)
        for tail in ("", "new", f"{own.public_id}/", f"{own.public_id}/file", f"{own.public_id}/metadata"):
            answer = client.get(PAGE + tail)
            answer.close()
            assert answer.status_code == status, (role, tail)
        assert client.get("/fin/exports/").status_code == 404
        assert client.get(f"{PAGE}{house.public_id}/").status_code == (404 if status == 200 else 403)
    stranger = client_of(make_organisation())
    for tail in ("", "file", "metadata"):
        assert stranger.get(f"{PAGE}{own.public_id}/{tail}").status_code == 404
    assert stranger.post(f"{PAGE}{own.public_id}/cancel").status_code == 404
    assert own.public_id not in html_of(stranger.get(PAGE))
    finance: Any = signed_in(scenes.staff("finance", name="Fin Olu"))
    assert finance.get(f"/fin/exports/{own.public_id}/").status_code == 404
    assert "Journal for beancount" in words_of(finance.get("/fin/exports/"))
    assert b"".join(finance.get(f"/fin/exports/{house.public_id}/file").streaming_content).startswith(b"option")
    assert signed_in(scenes.staff("support", name="Sup Olu")).get("/fin/exports/").status_code == 403


def test_finances_screens_lead_to_exports_with_their_filters_and_sums(customer: Organisation) -> None:
    finance: Any = signed_in(scenes.staff("finance", name="Fin Olu"))
    finance.cookies["zone"] = "Asia%2FKolkata"
    screen = f"/fin/ledger/?text={customer.slug}&account_kind=customer_wallet&least_micro_usd=0.01&until=2999-01-01"
    found = re.search(r'href="(/fin/exports/new\?[^"]+)"', html_of(finance.get(screen)))
    assert found
    asked = dict(parse_qsl(html.unescape(found.group(1)).partition("?")[2]))
    assert (asked["least_micro_usd"], asked["zone"]) == ("10000", "Asia/Kolkata")
    answer = finance.post("/fin/exports/new", asked | {"written_as": "csv"})
    export = Export.objects.get()
    assert answer["Location"] == f"/fin/exports/{export.public_id}/"
    # 10 and 5 USD came in, 0.021615 went out; what moved less than a cent is left out.
    assert (export.row_count, export.totals) == (3, {"debit_usd": "0.021615", "credit_usd": "15.000000"})
    entry = AuditEntry.objects.get(action="export.made")
    assert (entry.object_id, entry.actor_name, entry.is_staff) == (export.public_id, "Fin Olu", True)
    assert "/fin/exports/new?of=breaks" in html_of(finance.get("/fin/breaks/")).replace("&amp;", "&")
