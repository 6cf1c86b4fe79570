"""The customers' documentation: its snippets run as they stand, and its errors are all there are."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from django.utils.html import escape

from config.errors import STATUS
from console.error_codes import EVERY_CODE
from console.guide import GUIDE
from routing.domain.stitching import _ERROR_MESSAGES
from routing.models import Batch, StoredFile
from tests.harness.world import Tenant, do_due_steps
from webhooks.domain.signing import key_of, secret_text, signature_header

ROOT = Path(__file__).resolve().parent.parent.parent
SNIPPETS = ROOT / "docs" / "snippets"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed here")
# Codes of pages and calls of staff, and of providers' notices; no call of a customer gives them.
OF_STAFF = {
    "conflict", "extraordinary", "invalid_signature", "own_request", "unchanged",
    "break_is_decided", "file_is_mapped", "invalid_amount", "invalid_bucket", "invalid_csv", "invalid_quantity",
    "invoice_file_taken", "no_adapter", "nothing_pending", "period_closed", "period_not_asked", "period_not_ready",
    "retired", "second_person_needed", "truncated_file",
}  # fmt: skip
_CODE = re.compile(r"[a-z][a-z_]*(\.[a-z_]+)?")
# Snippets wait as people would; here nobody does.
_IMPATIENT = {
    "sitecustomize.py": "import time\ntime.sleep = lambda seconds, sleep=time.sleep: sleep(0.05)\n",
    "sleep": "#!/bin/sh\nexec /bin/sleep 0.05\n",
    "hurry.mjs": "const wait = globalThis.setTimeout; globalThis.setTimeout = (f) => wait(f, 50);\n",
}


@pytest.fixture
def snippet(tmp_path: Path, live_api: str, tenant: Tenant, run: Callable[[], None]) -> Callable[[str], str]:
    """Run a snippet in a folder of its own while the engine works; give what it printed."""
    work, helpers = tmp_path / "work", tmp_path / "helpers"
    work.mkdir()
    helpers.mkdir()
    for name, text in _IMPATIENT.items():
        (helpers / name).write_text(text)
        (helpers / name).chmod(0o755)
    shutil.copy(SNIPPETS / "requests.jsonl", work)
    commands = {
        ".sh": ["sh", "-eu"],
        ".py": [sys.executable],
        ".mjs": ["node", "--import", str(helpers / "hurry.mjs")],
    }

    def run_snippet(name: str) -> str:
        process = subprocess.Popen(
            [*commands[Path(name).suffix], str(SNIPPETS / name)],
            cwd=work,
            env={
                "PATH": f"{helpers}:{os.environ['PATH']}",
                "PYTHONPATH": str(helpers),
                "LANEHOUSE_URL": live_api.removesuffix("/v1"),
                "LANEHOUSE_API_KEY": tenant.key_text,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            do_due_steps()
            if Batch.objects.exists():
                # Not before: a quote binds for minutes only.
                run()
        printed, _ = process.communicate(timeout=5)
        assert process.returncode == 0, printed
        return printed

    return run_snippet


@pytest.mark.parametrize("name", ["quickstart.sh", "quickstart.py", pytest.param("quickstart.mjs", marks=needs_node)])
def test_a_quickstart_leads_from_requests_to_results(name: str, snippet: Callable[[str], str]) -> None:
    printed = snippet(name)
    assert Batch.objects.get().status == "completed"
    assert "river" in printed
    assert "mountain" in printed


def test_a_quote_is_looked_at_and_accepted(snippet: Callable[[str], str]) -> None:
    printed = snippet("quote_sdk.py")
    assert "gpt-4o-mini on openai-direct 1 requests" in printed
    assert Batch.objects.get().public_id in printed


def test_a_file_is_uploaded_priced_and_deleted(snippet: Callable[[str], str]) -> None:
    printed = snippet("files.sh")
    assert '"status":"ready"' in printed.replace(" ", "")
    assert '"deleted":true' in printed.replace(" ", "")
    assert StoredFile.objects.get().deleted_at is not None


@pytest.mark.parametrize("language", ["py", pytest.param("mjs", marks=needs_node)])
def test_the_signature_samples_take_what_is_ours_and_nothing_else(language: str, tmp_path: Path) -> None:
    secret, body, at = secret_text(b"k" * 32), b'{"type":"batch.completed"}', int(time.time())

    def headers(timestamp: int, payload: bytes = body) -> dict[str, str]:
        keys = [b"o" * 32, key_of(secret)]
        signature = signature_header(event_id="evt_1", timestamp_seconds=timestamp, payload=payload, keys=keys)
        return {"webhook-id": "evt_1", "webhook-timestamp": str(timestamp), "webhook-signature": signature}

    tried = [headers(at), headers(at - 3_600), headers(at, b"other"), {**headers(at), "webhook-signature": "v1,AA=="}]
    (tmp_path / "tried.json").write_text(json.dumps({"tried": tried, "body": body.decode(), "secret": secret}))
    shutil.copy(SNIPPETS / f"webhook_check.{language}", tmp_path)
    script = {
        "py": "import json; from webhook_check import is_ours; t = json.load(open('tried.json'));"
        "print(json.dumps([is_ours(h, t['body'].encode(), t['secret']) for h in t['tried']]))",
        "mjs": "import { isOurs } from './webhook_check.mjs'; import fs from 'node:fs';"
        "const t = JSON.parse(fs.readFileSync('tried.json'));"
        "console.log(JSON.stringify(t.tried.map((h) => isOurs(h, Buffer.from(t.body), t.secret))))",
    }[language]
    command = [sys.executable, "-c"] if language == "py" else ["node", "--input-type=module", "-e"]
    printed = subprocess.run([*command, script], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == [True, False, False, False]


def raised_codes() -> set[str]:
    """Every code that is written where an error is raised."""
    found: set[str] = set()
    for app in ("accounts", "billing", "catalog", "config", "ground", "routing", "webhooks"):
        for path in (ROOT / app).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                given: list[ast.expr] = []
                if isinstance(node, ast.Call):
                    given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
                    if isinstance(node.func, ast.Name) and node.func.id == "fail":
                        given += node.args[:1]
                elif isinstance(node, ast.ClassDef):
                    names = [each for each in node.body if isinstance(each, ast.Assign | ast.AnnAssign)]
                    given = [each.value for each in names if each.value is not None and "code" in ast.unparse(each)[:5]]
                texts = [each.value for each in given if isinstance(each, ast.Constant)]
                found |= {text for text in texts if isinstance(text, str) and _CODE.fullmatch(text)}
    return found


def test_every_code_stands_in_the_table_once_with_its_status() -> None:
    documented = [each.code for each in EVERY_CODE]
    assert len(documented) == len(set(documented))
    assert (raised_codes() | set(_ERROR_MESSAGES)) - OF_STAFF == set(documented) - {"model_not_allowed", *_BY_PYTHON}
    statuses = {each.code: each.statuses for each in EVERY_CODE}
    for kind, status in STATUS.items():
        if kind.code in statuses:
            assert status in statuses[kind.code], kind.code


# Raised with a code that is worked out.
_BY_PYTHON = {"duplicate_custom_id"}


def test_pages_are_public_and_every_code_has_an_anchor(db: None) -> None:
    pages = {page.name: Client().get(f"/docs/{page.name}") for page in GUIDE}
    assert {response.status_code for response in pages.values()} == {200}
    errors = pages["errors"].content.decode()
    assert [each.code for each in EVERY_CODE if f'<tr id="{escape(each.code)}">' not in errors] == []
    assert Client().get("/docs/").status_code == 200
    assert Client().get("/docs/nothing").status_code == 404
    shown = "".join(response.content.decode() for response in pages.values())
    unshown = [path.name for path in SNIPPETS.iterdir() if f"<code>{path.name}</code>" not in shown]
    assert unshown == []
