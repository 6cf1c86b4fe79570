from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config.embedded_postgres import EmbeddedPostgres
from tests.faults.product import Product

StartProduct = Callable[..., Product]


@pytest.fixture(scope="module")
def start_product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartProduct]:
    """Start products that are stopped, and searched for leftovers, at the end of the module."""
    started: list[tuple[Product, Path]] = []

    def start(**environment: str) -> Product:
        folder = tmp_path_factory.mktemp("product")
        product = Product(folder, **environment)
        started.append((product, folder))
        product.start()
        product.cut_small()
        return product

    yield start
    try:
        for product, _ in started:
            product.stop()
    finally:
        for product, _ in started:
            EmbeddedPostgres(product.state / "postgres").destroy()
