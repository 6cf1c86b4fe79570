"""Send the bundled sample through the public API and show what comes back: quote, progress, results, receipt, webhook.

A client like any other: it knows an address and a key, and uses the official SDK where the API is OpenAI's. Only that
some rows fail at first is arranged with the stand-in provider.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from openai import OpenAI, OpenAIError
from openai.types import Batch

SAMPLE: Final = Path(__file__).resolve().parents[2] / "sample" / "support-tickets.jsonl"
EVENT_TYPE: Final = "batches.completed"
_FLAKY_TEXT: Final = "This is urgent."
_PATIENCE_SECONDS: Final = 300
_WEBHOOK_PATIENCE_SECONDS: Final = 75
_BAR_WIDTH: Final = 24
_SHOWN_RESULTS: Final = 3
_ENDED: Final = {"completed", "failed", "expired", "cancelled"}


class Command(BaseCommand):
    """Print the sample's journey."""

    help = "Send the bundled sample through the public API and show quote, progress, results, receipt and webhook."

    def handle(self, *_args: Any, **_options: Any) -> None:  # noqa: ANN401 -- Django's signature
        """Go the whole way once."""
        self._url = os.environ["LANEHOUSE_URL"]
        self._key = os.environ["LANEHOUSE_API_KEY"]
        secret = self._endpoint()
        self._make_flaky()
        quote = self._call("POST", "/v1/quotes/model", SAMPLE.read_bytes())
        self._show_quote(quote)
        with OpenAI(base_url=f"{self._url}/v1", api_key=self._key) as client:
            batch = client.batches.create(
                input_file_id=quote["id"],
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={"name": "support tickets"},
                extra_body={"quote_id": quote["id"]},
            )
            self._say(f"\nAccepted as {batch.id}; {_usd(quote['estimate']['reservation_micro_usd'])} are held.")
            batch = self._watch(client, batch)
            if batch.status != "completed":
                raise CommandError(f"The batch ended {batch.status}.")
            self._show_results(batch)
            self._show_receipt(self._call("GET", f"/v1/batches/{batch.id}/receipt"))
            self._show_addresses(batch.id)
            if secret:
                self._show_webhook(client, batch.id, secret)

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()

    def _call(self, method: str, path: str, body: bytes | None = None, content_type: str = "application/jsonl") -> Any:  # noqa: ANN401 -- JSON
        return _http(
            method, self._url + path, body, {"Authorization": f"Bearer {self._key}", "Content-Type": content_type}
        )

    def _endpoint(self) -> str:
        """Make the sample's webhook endpoint anew and give its secret; empty where no receiver runs."""
        url = os.environ.get("LANEHOUSE_SAMPLE_RECEIVER_URL", "")
        if not url:
            return ""
        for endpoint in self._call("GET", "/v1/webhook_endpoints")["data"]:
            if endpoint["url"] == url:
                self._call("DELETE", f"/v1/webhook_endpoints/{endpoint['id']}")
        wanted = json.dumps({"url": url, "name": "Sample receiver", "event_types": [EVENT_TYPE]}).encode()
        secret: str = self._call("POST", "/v1/webhook_endpoints", wanted, "application/json")["signing_secret"]
        return secret

    def _make_flaky(self) -> None:
        """Let the stand-in Anthropic fail the urgent rows, so that there is something to heal."""
        simulator = os.environ.get("LANEHOUSE_SIMULATOR_ANTHROPIC_URL", "")
        if simulator:
            _http("DELETE", f"{simulator}/_sim/faults", None, {})
            fault = {"kind": "row_error", "contains": _FLAKY_TEXT, "status_code": 529}
            _http("POST", f"{simulator}/_sim/faults", json.dumps(fault).encode(), {"Content-Type": "application/json"})

    def _show_quote(self, quote: dict[str, Any]) -> None:
        estimate = quote["estimate"]
        self._say(
            f"\nQuote {quote['id']} in {quote['timings_ms']['total']:.1f} ms for {quote['row_count']:,} rows"
            f" of {quote['model_count']} models ({SAMPLE.name}):"
        )
        self._say(
            f"  {_usd(estimate['total_micro_usd'])} estimated, at most {_usd(estimate['ceiling_micro_usd'])}"
            f" ({_usd(estimate['sync_charge_micro_usd'])} if sent one by one)"
            f" for about {estimate['input_tokens']:,} tokens in and {estimate['output_tokens']:,} out"
        )
        for lane in quote["lanes"]:
            self._say(f"  {lane['row_count']:>5,} rows of {lane['model']} on {lane['lane_id']} ({lane['region']})")
        for explanation in quote["explanation"]:
            self._say(f"  why: {explanation['text']}")

    def _watch(self, client: OpenAI, batch: Batch) -> Batch:
        started = time.monotonic()
        shown = ""
        while time.monotonic() - started < _PATIENCE_SECONDS:
            batch = client.batches.retrieve(batch.id)
            lanes: list[dict[str, Any]] = (batch.model_extra or {})["lanes"]
            line = "  " + "  ".join(_lane_progress(lane) for lane in lanes) + f"  {batch.status}"
            if line != shown:
                shown = line
                self._say(line)
            if batch.status in _ENDED:
                return batch
            time.sleep(0.5)
        raise CommandError(f"The batch is still {batch.status} after {_PATIENCE_SECONDS} s.")

    def _show_results(self, batch: Batch) -> None:
        assert batch.request_counts is not None, "every batch has counts"
        self._say(
            f"\nResults: {batch.request_counts.completed:,} rows succeeded, {batch.request_counts.failed} failed."
        )
        lines = self._lines(f"/v1/batches/{batch.id}/results")
        moved = sum(line["lanehouse"]["re_dispatch_count"] > 0 for line in lines)
        self._say(f"  one file, in the order of the input; {moved} rows failed on their first lane and were healed")
        for line in lines[:_SHOWN_RESULTS]:
            text = line["response"]["body"]["choices"][0]["message"]["content"]
            self._say(f"  {line['custom_id']} on {line['lanehouse']['lane_id']}: {text[:70]!r}")

    def _lines(self, path: str) -> list[dict[str, Any]]:
        request = urllib.request.Request(self._url + path)  # noqa: S310 -- our own address
        request.add_header("Authorization", f"Bearer {self._key}")
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 -- our own address
            return [json.loads(line) for line in answer]

    def _show_receipt(self, receipt: dict[str, Any]) -> None:
        self._say(f"\nReceipt {receipt['id']}:")
        for line in receipt["lines"]:
            tokens = (
                f"{line['tokens']:>9,} tokens x {_rate(line['rate_micro_usd_per_mtok'])} $/Mtok"
                if line["tokens"] is not None
                else ""
            )
            self._say(
                f"  {line['model']:<28} {line['lane_id']:<18} {line['kind']:<18} {tokens:<35}"
                f" {_usd(line['amount_micro_usd']):>11}"
            )
        self._say(f"  {'total':<102} {_usd(receipt['total_micro_usd']):>11}")
        self._say(
            f"  held {_usd(receipt['reserved_micro_usd'])}, given back {_usd(receipt['released_micro_usd'])},"
            f" quoted {_usd(receipt['estimate_total_micro_usd'])}"
        )

    def _show_addresses(self, batch_id: str) -> None:
        self._say(f"\nLook at it: {self._url}/app/batches/{batch_id}/")
        for name in ("CUSTOMER", "OPERATOR", "FINANCE", "FINANCE_2"):
            login = os.environ.get(f"LANEHOUSE_{name}_LOGIN", "")
            password = os.environ.get(f"LANEHOUSE_{name}_PASSWORD", "")
            self._say(f"  {name.lower():<9} {login:<28} {password}")
        self._say(f"API key: {self._key}")

    def _show_webhook(self, client: OpenAI, batch_id: str, secret: str) -> None:
        """Wait for the gathered event and check its signature as the SDK does."""
        received = os.environ["LANEHOUSE_SAMPLE_RECEIVER_URL"].replace("/hooks", "/received")
        started = time.monotonic()
        while time.monotonic() - started < _WEBHOOK_PATIENCE_SECONDS:
            calls = [call for call in _http("GET", received, None, {}) if batch_id in call["body"]]
            if calls:
                call = calls[-1]
                try:
                    client.webhooks.verify_signature(call["body"], call["headers"], secret=secret)
                except (OpenAIError, ValueError) as error:
                    raise CommandError(f"The webhook's signature is not right: {error}") from error
                event = json.loads(call["body"])
                self._say(
                    f"\nWebhook {event['id']} ({event['type']}) arrived and its signature holds:"
                    f" {len(event['data']['batches'])} batch(es).\nStop with Ctrl-C."
                )
                return
            time.sleep(1)
        raise CommandError("The webhook did not arrive.")


def _http(method: str, url: str, body: bytes | None, headers: dict[str, str]) -> Any:  # noqa: ANN401 -- JSON
    request = urllib.request.Request(url, data=body, method=method, headers=headers)  # noqa: S310 -- an address of ours
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 -- an address of ours
        content = answer.read()
    return json.loads(content) if content else None


def _lane_progress(lane: dict[str, Any]) -> str:
    """Give one sub-lane in a few characters: rows done of rows assigned, rows that moved in or out."""
    done = max(lane["reported_count"], lane["completed_count"] + lane["failed_count"])
    total = lane["row_count"]
    filled = _BAR_WIDTH * done // total if total else 0
    moved = f" -{lane['moved_out_count']}" if lane["moved_out_count"] else ""
    moved += f" +{lane['re_dispatched_count']}" if lane["re_dispatched_count"] else ""
    bar = "#" * filled + "." * (_BAR_WIDTH - filled)
    return f"{lane['lane_id']} [{bar}] {done}/{total}{moved}"


def _rate(rate_micro_usd_per_mtok: int) -> str:
    """Give a rate in US dollars per million tokens, four decimals, without a float."""
    return f"{rate_micro_usd_per_mtok // 1_000_000}.{rate_micro_usd_per_mtok % 1_000_000 // 100:04d}"


def _usd(micro_usd: int) -> str:
    """Give an exact amount in US dollars, six decimals."""
    sign = "-" if micro_usd < 0 else ""
    return f"{sign}${abs(micro_usd) // 1_000_000}.{abs(micro_usd) % 1_000_000:06d}"
