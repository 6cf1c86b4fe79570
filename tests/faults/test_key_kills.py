"""A process is killed between the work of a call with an ``Idempotency-Key`` and its kept answer: both or neither."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from accounts.models import KeptCall
from billing.models import Hold
from ground.fault_points import FaultPoint
from routing.models import Batch
from tests.api.world import Api, row
from tests.faults.product import ROOT
from tests.harness.clock import Clock
from tests.harness.database import TestServer
from tests.harness.world import make_tenant

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]
KEY = "nightly-7"
CALL = """
import os, sys
from pathlib import Path
import django
django.setup()
from django.test import Client
from ground import fault_points
fault_points.arm([sys.argv[1]], Path(sys.argv[2]))
headers = {"Authorization": "Bearer " + os.environ["CALLERS_KEY"], "Idempotency-Key": sys.argv[3]}
Client(headers=headers).post("/v1/batches", sys.argv[4], content_type="application/json")
"""


@pytest.mark.parametrize("point", [FaultPoint.ACCEPT_BEFORE_COMMIT, FaultPoint.ACCEPT_AFTER_COMMIT])
def test_a_kill_before_the_answer_is_kept_leaves_no_work_and_the_next_try_does_it_once(
    test_server: TestServer, clock: Clock, tmp_path: Path, point: FaultPoint
) -> None:
    clock.freeze(clock.now())
    api = Api(make_tenant())
    body = json.dumps({"quote_id": api.quote(row("a"))["id"]})
    killed = subprocess.run(
        [sys.executable, "-c", CALL, point, str(tmp_path), KEY, body],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings.test",
            "DATABASE_URL": test_server.app_dsn,
            "LANEHOUSE_STATE_DIR": str(settings.STATE_DIR),
            "CALLERS_KEY": api.tenant.key_text,
        },
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    # The accept's own transaction was inside that of the kept answer.
    assert (Batch.objects.count(), Hold.objects.count(), KeptCall.objects.get().status_code) == (0, 0, None)

    def again() -> tuple[int, str | None]:
        headers = {"Idempotency-Key": KEY}
        answer = api.client.post("/v1/batches", body, content_type="application/json", headers=headers)
        return answer.status_code, answer.get("idempotent-replayed")

    assert again() == (409, None)
    clock.advance(seconds=60)
    assert [again(), again()] == [(200, None), (200, "true")]
    assert (Batch.objects.count(), Hold.objects.count()) == (1, 1)
