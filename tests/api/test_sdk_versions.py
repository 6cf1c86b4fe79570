"""The same calls by the official SDK's 1.x, 2.x and 3.x: all see the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import openai
import pytest

from tests.api import sdk_talk
from tests.harness.world import Tenant

ROOT: Final = Path(__file__).resolve().parents[2]
BAD, MISSING = "BadRequestError", "NotFoundError"
SEEN: Final[dict[str, Any]] = {
    "files": {
        "names": ["upload", "rows.jsonl", "from disk.jsonl"],
        "seconds_kept": 3_600,
        "facts": ["file", "batch", "processed", True],
        "listed": True,
        "content": [True, True],
        "waited_for": True,
        "deleted": [True, "file", True],
        "quote": ["ready", True],
        "second_deletion": [MISSING, 404, "not_found", "file_id", True],
    },
    "refusals": {
        "window": [BAD, 400, "invalid_value", "completion_window", True],
        "pairs": [BAD, 400, "invalid_value", "metadata", True],
        "long_value": [BAD, 400, "invalid_value", "metadata", True],
        "no_file": [MISSING, 404, "not_found", "input_file_id", True],
        "no_batch": [MISSING, 404, "not_found", "batch_id", True],
        "no_cancel": [MISSING, 404, "not_found", "batch_id", True],
        "no_content": [MISSING, 404, "not_found", "file_id", True],
        "empty": [BAD, 400, "empty_file", "file", True],
        "purpose": [BAD, 400, "invalid_value", "purpose", True],
        "key": ["AuthenticationError", 401, "invalid_api_key", None, True],
        "limits_are_numbers": True,
        "request_ids": [True, True],
    },
    "retries": {"sent": ["0", "1", "2", "0", "1", "2"], "made": [1, 1]},
    "models": ["gpt-4o-mini", True],
    "batches": {
        "begun": ["validating", "in_progress", "in_progress", "in_progress", "validating"],
        "quote_of_the_file": True,
        "cancelling": "cancelling",
        "ended": {
            "by_file": "completed",
            "by_body": "completed",
            "by_metadata": "completed",
            "stopped": "cancelled",
            "wrong": "failed",
        },
        "counts": [{"total": 3, "completed": 2, "failed": 1}],
        "usage_adds_up": True,
        "output": ["a", "c"],
        "errors": ["b"],
        "purpose": "batch_output",
        "output_days": 30,
        "output_seconds": 7_200,
        "why": [["duplicate_custom_id", 4, "custom_id"]],
        "metadata": [None, True],
        "times": [True, True],
        "listed": True,
    },
}


def test_the_current_sdk_meets_what_it_expects(live_api: str, tenant: Tenant, run: Callable[[], None]) -> None:
    assert openai.__version__.startswith("3.")
    assert sdk_talk.talk(live_api, tenant.key_text, run) == SEEN


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openai-1", "openai-2"])
def test_older_sdks_meet_the_same(live_api: str, tenant: Tenant, run: Callable[[], None], name: str) -> None:
    folder = subprocess.run(["scripts/install_sdk", name], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with subprocess.Popen(
        [sys.executable, sdk_talk.__file__, live_api, tenant.key_text],
        env={**os.environ, "PYTHONPATH": folder.strip()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as talking:
        assert talking.stdin is not None
        assert talking.stdout is not None
        while (said := talking.stdout.readline()) == "run\n":
            run()
            talking.stdin.write("done\n")
            talking.stdin.flush()
    assert json.loads(said) == SEEN
