"""A worker that cannot come to its end is ended, with what it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
# A worker told to stop, which never does: as one that waits for a lock a killed child has held.
STUCK = """
import os, subprocess, sys, time
import config.celery as ours
ours.LONGEST_SHUTDOWN_SECONDS = 0.2
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
ours.end_at_last()
time.sleep(600)
"""


def test_a_stuck_worker_is_killed_with_its_children() -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings.test"}
    with subprocess.Popen(
        [sys.executable, "-c", STUCK], cwd=ROOT, env=environment, stdout=subprocess.PIPE, start_new_session=True
    ) as worker:
        assert worker.stdout is not None
        child = psutil.Process(int(worker.stdout.readline()))
        assert worker.wait(30) == -signal.SIGKILL
        psutil.wait_procs([child], timeout=30)
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
