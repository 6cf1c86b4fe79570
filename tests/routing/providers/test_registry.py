from __future__ import annotations

import os
import subprocess
import sys

from tests.harness.database import ROOT

_SAYS_WHAT_IS_IMPORTED = """
import sys
import django
django.setup()
import config.urls
from routing.providers.registry import import_adapters
sdks = {"openai", "anthropic", "botocore"}
print(sorted(sdks & set(sys.modules)))
import_adapters()
print(sorted(sdks & set(sys.modules)))
"""


def test_a_web_process_imports_no_sdk_and_an_engine_all() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SAYS_WHAT_IS_IMPORTED],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings.test"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n") == ["[]", "['anthropic', 'botocore', 'openai']", ""]
