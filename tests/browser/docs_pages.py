"""The customers' documentation."""

from __future__ import annotations

from console.guide import GUIDE
from tests.browser.cases import PageCase

OF_DOCS = (
    PageCase(name="documentation", url_name="console:docs", seen_by="nobody", make=lambda _world: "/docs/"),
    *(
        PageCase(
            name=f"documentation of {page.name}",
            url_name="console:docs-page",
            seen_by="admin" if page.name == "errors" else "nobody",
            make=lambda _world, name=page.name: f"/docs/{name}",  # type: ignore[misc]
            others={"viewer": 200, "operator": 200},
        )
        for page in GUIDE[1:]
    ),
)
