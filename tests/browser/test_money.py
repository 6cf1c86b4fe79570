"""From a batch to its receipt on paper."""

from __future__ import annotations

import io

from playwright.sync_api import expect
from pypdf import PdfReader

from tests.browser.cases import World
from tests.browser.conftest import OpenPage
from tests.browser.money_pages import OF_MONEY
from tests.browser.watched import Viewer, Watched

_WALLET = next(case for case in OF_MONEY if case.name == "wallet")


def paper_of(watched: Watched) -> str:
    """What a dark page prints, as a reader of the paper finds it."""
    document = PdfReader(io.BytesIO(watched.page.pdf(format="A4", print_background=True)))
    return " ".join(" ".join(page.extract_text().split()) for page in document.pages)


def test_a_batch_leads_to_its_receipt_on_paper(world: World, open_page: OpenPage) -> None:
    batch = world.finished(world.accepted("gpt-4o-mini", "gpt-4o", count=3))
    watched = open_page(Viewer(user=world.person("admin"), theme="dark"))
    watched.go("/app/receipts/")
    page = watched.page
    page.locator("[data-rows] tbody th a").click()
    expect(page.get_by_role("heading", name="Receipt", level=1)).to_be_visible()
    paper = paper_of(watched)
    for printed in (
        batch.public_id,
        batch.receipt_id,
        "Acme",
        "Input tokens",
        "Control plane fee",
        "Total",
        "Released",
    ):
        assert printed in paper
    for line in ("$0.000300", "$0.040370", "$0.020000"):
        assert line in paper
    for left_out in ("Batches", "Webhooks", "Copy", "Skip to content", "CSV", "Sign out"):
        assert left_out not in paper


def test_paper_is_light(world: World, open_page: OpenPage) -> None:
    watched = open_page(Viewer(user=world.person("admin"), theme="dark"))
    watched.go(_WALLET.make(world))
    watched.page.emulate_media(media="print", color_scheme="dark")
    ink = watched.page.locator("h1").evaluate("(heading) => getComputedStyle(heading).color")
    assert ink == "rgb(22, 32, 44)"


def test_a_statement_is_filtered_in_place_and_back_leads_back(world: World, open_page: OpenPage) -> None:
    watched = open_page(Viewer(user=world.person("admin")))
    watched.go(_WALLET.make(world))
    page = watched.page
    rows = page.locator("#list tbody tr")
    expect(rows).to_have_count(5)
    page.get_by_label("Kind").select_option("Top-up")
    expect(rows).to_have_count(2)
    assert page.url.endswith("/app/wallet/?kind=top_up&since=&until=")
    page.get_by_role("link", name="Remove filter Kind: Top-up").click()
    expect(rows).to_have_count(5)
    page.go_back()
    expect(rows).to_have_count(2)
    expect(page.locator("#id_kind")).to_have_value("top_up")


def test_a_receipt_is_downloaded_as_csv(world: World, open_page: OpenPage) -> None:
    batch = world.finished(world.accepted(count=3))
    watched = open_page(Viewer(user=world.person("admin")))
    watched.go(f"/app/receipts/{batch.receipt_id}/")
    with watched.page.expect_download() as download:
        watched.page.get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename == f"{batch.receipt_id}_Europe-Berlin.csv"
    assert b"control_plane_fee" in download.value.path().read_bytes()
