"""A file of 1,200 rows sent as a batch by the official SDK: ``files.create`` and ``batches.create``, by the client.

Floor: ``orjson.loads`` of each line of the same bytes, in this process, in turns with the calls.
"""

from __future__ import annotations

import openai
import orjson

from bench.files import mixed_rows
from bench.measure import show, spans_ms
from bench.product import running_product

_ROW_COUNT, _BYTES_PER_ROW, _CALL_COUNT = 1_200, 830, 40


def run() -> None:
    """Print both calls together, and each."""
    body = mixed_rows(_ROW_COUNT, bytes_per_row=_BYTES_PER_ROW)
    lines = body.splitlines()
    file_ids: list[str] = []

    def upload() -> None:
        file_ids.append(client.files.create(file=("requests.jsonl", body), purpose="batch").id)

    def create() -> None:
        client.batches.create(input_file_id=file_ids[-1], endpoint="/v1/chat/completions", completion_window="24h")

    def floor() -> None:
        for line in lines:
            orjson.loads(line)

    uploads: list[float] = []
    creates: list[float] = []
    floors: list[float] = []
    with (
        running_product() as product,
        openai.OpenAI(base_url=f"http://127.0.0.1:{product.port}/v1", api_key=product.api_key, max_retries=0) as client,
    ):
        for number in range(_CALL_COUNT + 3):
            spans = [spans_ms(act, count=1, warm_up_count=0) for act in (floor, upload, create)]
            if number >= 3:  # noqa: PLR2004 -- the first ones warm up
                for known, span in zip((floors, uploads, creates), spans, strict=True):
                    known.extend(span)
    together = [sum(pair) for pair in zip(uploads, creates, strict=True)]
    for name, shown in (
        ("files.create + batches.create", together),
        ("files.create", uploads),
        ("batches.create", creates),
    ):
        show(f"SDK, 1,200 rows, 1 MB: {name}", shown, floors, floor_name="orjson.loads a line")
