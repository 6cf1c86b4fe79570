"""What a long file takes does not grow with what its rows say, also where all that is wrong with it is reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ground.errors import RowErrors
from routing.domain.jsonl.table import MAXIMUM_ROWS_BY_FILE, FileLimits
from routing.domain.long_files import LongFile, make_long_quote_plan
from routing.domain.offering import Pricing, QuoteSettings
from routing.domain.scoring import WorkflowProfile
from tests.routing.domain.sample import AT, HOUSE, SONNET_SLUG, jsonl, row
from tests.routing.engine.test_memory import Peak

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROW_COUNT = 20_000
ROW_BYTES = 10_000
# The pieces that are read at once, and about 200 bytes a row; the file has 200 MB.
MOST_MEGABYTES = 40
BLOCK_BYTES = 1024 * 1024
PRICING = Pricing(
    catalog=HOUSE,
    workflow=WorkflowProfile(),
    settings=QuoteSettings(limits=FileLimits(maximum_rows=MAXIMUM_ROWS_BY_FILE)),
    at=AT,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of 200 MB over two models, one of which looks at what every row asks."""
    found = tmp_path / "rows.jsonl"
    messages = [{"role": "user", "content": "lorem ipsum " * (ROW_BYTES // 12)}]
    with found.open("wb") as file:
        for number in range(ROW_COUNT):
            slug = "gpt-4o-mini" if number % 2 else SONNET_SLUG
            file.write(jsonl(row(f"row-{number}", model=slug, messages=messages)))
    return found


def read_in_place(path: Path) -> LongFile:
    def read(offset: int, size_bytes: int) -> bytes:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size_bytes)

    def blocks() -> Iterator[bytes]:
        with path.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                yield block

    return LongFile(blocks=blocks, read=read)


def test_a_long_file_is_priced_in_flat_memory(path: Path) -> None:
    peak = Peak()
    assert make_long_quote_plan(read_in_place(path), PRICING).row_count == ROW_COUNT
    assert peak.grown_megabytes() < MOST_MEGABYTES


def test_a_long_file_with_a_mistake_at_its_end_is_refused_in_flat_memory(path: Path) -> None:
    with path.open("ab") as file:
        file.write(jsonl(row("row-7")))
    peak = Peak()
    with pytest.raises(RowErrors) as caught:
        make_long_quote_plan(read_in_place(path), PRICING)
    assert caught.value.duplicates[0].rows == (7, ROW_COUNT)
    assert peak.grown_megabytes() < MOST_MEGABYTES
