"""The page of the quote path: busy, and with nothing to show."""

from __future__ import annotations

from routing import quote_path
from routing.quote_path import Reporter, observe
from tests.browser.cases import PageCase, World

_PATH = "/ops/quote-path/"
_GATE = {
    kind: {"places": places, "taken": places // 6, "refused_count": 3}
    for kind, places in (("upload", 16), ("body", 24), ("download", 12), ("other", 48))
}


def _busy(_world: World) -> str:
    quote_path.count_waiting()
    for number in range(400):
        observe(dict.fromkeys(quote_path.STEPS, 0.2 + number % 17 * 0.3))
    Reporter().report({"gate": _GATE, "catalog_version": 1, "sla_version": 1, "learned_maps": 12})
    return _PATH


OF_QUOTE_PATH = (
    PageCase(
        name="quote path",
        url_name="routing:quote-path",
        seen_by="operator",
        make=_busy,
        others={"nobody": 302, "admin": 404, "support": 200, "finance": 403},
    ),
    PageCase(
        name="quote path before any process reported",
        url_name="routing:quote-path",
        seen_by="operator",
        make=lambda _world: _PATH,
    ),
)
