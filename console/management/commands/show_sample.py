"""Send the bundled sample through the public API and show what comes back: quote, progress, results, receipt.

A client like any other: it knows an address and a key, and uses the official SDK where the API is OpenAI's.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from openai import OpenAI
from openai.types import Batch

SAMPLE: Final = Path(__file__).resolve().parents[2] / "sample" / "support-tickets.jsonl"
_PATIENCE_SECONDS: Final = 300
_BAR_WIDTH: Final = 40
_SHOWN_RESULTS: Final = 3
_ENDED: Final = {"completed", "failed", "expired", "cancelled"}


class Command(BaseCommand):
    """Print the sample's journey."""

    help = "Send the bundled sample through the public API and show the quote, the progress, results and the receipt."

    def handle(self, *_args: Any, **_options: Any) -> None:  # noqa: ANN401 -- Django's signature
        """Go the whole way once."""
        self._url = os.environ["LANEHOUSE_URL"]
        self._key = os.environ["LANEHOUSE_API_KEY"]
        quote = self._call("POST", "/v1/quotes/model", SAMPLE.read_bytes())
        self._show_quote(quote)
        with OpenAI(base_url=f"{self._url}/v1", api_key=self._key) as client:
            batch = client.batches.create(
                input_file_id=quote["id"],
                endpoint="/v1/chat/completions",
                completion_window="24h",
                extra_body={"quote_id": quote["id"]},
            )
            self.stdout.write(f"\nAccepted as {batch.id}; {_usd(quote['estimate']['reservation_micro_usd'])} are held.")
            batch = self._watch(client, batch)
            if batch.status != "completed":
                raise CommandError(f"The batch ended {batch.status}.")
            self._show_results(client, batch)
        self._show_receipt(self._call("GET", f"/v1/batches/{batch.id}/receipt"))
        self._show_addresses(batch.id)

    def _call(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        request = urllib.request.Request(self._url + path, data=body, method=method)  # noqa: S310 -- our own address
        request.add_header("Authorization", f"Bearer {self._key}")
        if body is not None:
            request.add_header("Content-Type", "application/jsonl")
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 -- our own address
            content: dict[str, Any] = json.load(answer)
        return content

    def _show_quote(self, quote: dict[str, Any]) -> None:
        estimate, lane = quote["estimate"], quote["lanes"][0]
        self.stdout.write(
            f"\nQuote {quote['id']} in {quote['timings_ms']['total']:.1f} ms"
            f" for {quote['row_count']} rows of {lane['model']} ({SAMPLE.name}):"
        )
        self.stdout.write(
            f"  {_usd(estimate['total_micro_usd'])} estimated, at most {_usd(estimate['ceiling_micro_usd'])}"
            f" ({_usd(estimate['sync_charge_micro_usd'])} if sent one by one)"
            f" for about {estimate['input_tokens']:,} tokens in and {estimate['output_tokens']:,} out"
        )
        self.stdout.write(f"  lane {lane['lane_id']} of {lane['provider']}, {lane['region']}")
        self.stdout.write(f"  why: {quote['explanation'][0]['text']}")

    def _watch(self, client: OpenAI, batch: Batch) -> Batch:
        started = time.monotonic()
        shown = ""
        while time.monotonic() - started < _PATIENCE_SECONDS:
            batch = client.batches.retrieve(batch.id)
            assert batch.request_counts is not None, "every batch has counts"
            lanes: list[dict[str, Any]] = (batch.model_extra or {})["lanes"]
            total = batch.request_counts.total
            done = sum(max(lane["reported_count"], lane["completed_count"] + lane["failed_count"]) for lane in lanes)
            filled = _BAR_WIDTH * done // total
            line = f"  [{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {done:>4} / {total}  {batch.status}"
            if line != shown:
                shown = line
                self._progress(line)
            if batch.status in _ENDED:
                break
            time.sleep(0.3)
        else:
            raise CommandError(f"The batch is still {batch.status} after {_PATIENCE_SECONDS} s.")
        if sys.stdout.isatty():
            self.stdout.write("")
        return batch

    def _progress(self, line: str) -> None:
        if sys.stdout.isatty():
            self.stdout.write(f"\r{line}", ending="")
            self.stdout.flush()
        else:
            self.stdout.write(line)

    def _show_results(self, client: OpenAI, batch: Batch) -> None:
        assert batch.request_counts is not None, "every batch has counts"
        self.stdout.write(
            f"\nResults: {batch.request_counts.completed} rows succeeded, {batch.request_counts.failed} failed."
        )
        if batch.output_file_id is None:
            return
        for line in client.files.content(batch.output_file_id).text.split("\n")[:_SHOWN_RESULTS]:
            row = json.loads(line)
            text = row["response"]["body"]["choices"][0]["message"]["content"]
            self.stdout.write(f"  {row['custom_id']}: {text[:90]!r}")

    def _show_receipt(self, receipt: dict[str, Any]) -> None:
        self.stdout.write(f"\nReceipt {receipt['id']}:")
        for line in receipt["lines"]:
            tokens = (
                f"{line['tokens']:>9,} tokens x {line['rate_micro_usd_per_mtok'] / 1e6:.4f} $/Mtok"
                if line["tokens"] is not None
                else ""
            )
            self.stdout.write(
                f"  {line['lane_id']:<16} {line['kind']:<18} {tokens:<36} {_usd(line['amount_micro_usd']):>12}"
            )
        self.stdout.write(f"  {'total':<72} {_usd(receipt['total_micro_usd']):>12}")
        self.stdout.write(
            f"  held {_usd(receipt['reserved_micro_usd'])}, given back {_usd(receipt['released_micro_usd'])},"
            f" quoted {_usd(receipt['estimate_total_micro_usd'])}"
        )

    def _show_addresses(self, batch_id: str) -> None:
        self.stdout.write(f"\nLook at it: {self._url}/app/batches/{batch_id}/")
        for name in ("CUSTOMER", "OPERATOR", "FINANCE"):
            login = os.environ.get(f"LANEHOUSE_{name}_LOGIN", "")
            password = os.environ.get(f"LANEHOUSE_{name}_PASSWORD", "")
            self.stdout.write(f"  {name.lower():<9} {login:<28} {password}")
        self.stdout.write(f"API key: {self._key}\nStop with Ctrl-C.")


def _usd(micro_usd: int) -> str:
    """Give an exact amount in US dollars, six decimals."""
    sign = "-" if micro_usd < 0 else ""
    return f"{sign}${abs(micro_usd) // 1_000_000}.{abs(micro_usd) % 1_000_000:06d}"
