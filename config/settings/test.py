"""What the tests must have otherwise: fast hashing, plain static files, no pool, and a state directory of their own."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from config import env
from config.settings.base import *  # noqa: F403
from config.settings.base import DATABASES, STORAGES

SECRET_KEY = "only-for-tests"  # noqa: S105 -- guards nothing
ENCRYPTION_KEYS = ("VGVzdHMgb25seTogMzIgYnl0ZXMgZm9yIEZlcm5ldC4=",)
if env.text("LANEHOUSE_STATE_DIR"):
    STATE_DIR = env.path("LANEHOUSE_STATE_DIR", Path())
else:
    STATE_DIR = Path(tempfile.mkdtemp(prefix="lanehouse-test-state-"))
    atexit.register(shutil.rmtree, STATE_DIR, ignore_errors=True)
STORAGES["default"] = {
    "BACKEND": "django.core.files.storage.FileSystemStorage",
    "OPTIONS": {"location": STATE_DIR / "blobs", "base_url": None},
}
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "testserver"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True
# Tests clone databases; a pool would hold connections to the template.
DATABASES["default"]["OPTIONS"].pop("pool", None)
DATABASES["default"]["CONN_HEALTH_CHECKS"] = False
POLL_MIN_SECONDS = 0
REPORT_SECONDS = 0
