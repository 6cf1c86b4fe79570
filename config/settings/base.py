"""All settings. Nothing exists only in production; differences come from the environment (docs/operations.md)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import dj_database_url

from config import env
from config.schedule import SECONDS_BETWEEN
from ground.connections import PooledConnection

BASE_DIR = Path(__file__).resolve().parent.parent.parent
STATE_DIR = env.path("LANEHOUSE_STATE_DIR", BASE_DIR / ".lanehouse")

DEBUG = False
SECRET_KEY = env.text("LANEHOUSE_SECRET_KEY", "set-LANEHOUSE_SECRET_KEY")
ALLOWED_HOSTS = list(env.words("LANEHOUSE_ALLOWED_HOSTS", ("127.0.0.1", "localhost", "[::1]")))
CSRF_TRUSTED_ORIGINS = list(env.words("LANEHOUSE_TRUSTED_ORIGINS"))
# Secrets at rest (provider keys, webhook secrets): Fernet keys, newest first.
ENCRYPTION_KEYS = env.words("LANEHOUSE_ENCRYPTION_KEYS")

INSTALLED_APPS = [
    "console",
    "routing",
    "billing",
    "catalog",
    "webhooks",
    "accounts",
    "ground",
    "django_htmx",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
]
MIDDLEWARE = [
    "config.middleware.RequestIdMiddleware",
    "config.gate.GateMiddleware",
    "config.load.ReportMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "config.middleware.PageHeadersMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "config.middleware.ActingMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]
ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.context.navigation",
            ],
            "libraries": {},
            "loaders": [
                ("django.template.loaders.cached.Loader", ["django.template.loaders.filesystem.Loader"]),
            ],
            "builtins": ["django.templatetags.static"],
        },
    }
]

# The application role; migrations run with DATABASE_URL set to the owner's (docs/operations.md).
DATABASE_URL = env.text("DATABASE_URL", "postgresql://lanehouse_app@127.0.0.1:5432/lanehouse")
DATABASE_POOL_MAX_SIZE = env.integer("LANEHOUSE_DATABASE_POOL_MAX_SIZE", 12)


def _database(url: str) -> dict[str, Any]:
    """Give Django's entry for a database address: a pool for threads, or (size 0) one kept connection for prefork."""
    settings: dict[str, Any] = {**dj_database_url.parse(url, conn_health_checks=True)}
    options = {**(settings.get("OPTIONS") or {})}
    options.setdefault("connect_timeout", 5)
    settings["CONN_MAX_AGE"] = 0 if DATABASE_POOL_MAX_SIZE else 300
    if DATABASE_POOL_MAX_SIZE:
        pool = {"min_size": 1, "max_size": DATABASE_POOL_MAX_SIZE, "timeout": 5, "connection_class": PooledConnection}
        options.setdefault("pool", pool)
    settings["OPTIONS"] = options
    return settings


DATABASES: dict[str, Any] = {"default": _database(DATABASE_URL)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "accounts.User"
LOGIN_URL = "accounts:login"
LOGIN_REDIRECT_URL = "console:home"
LOGOUT_REDIRECT_URL = "accounts:login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
# Mails are files until a server is named.
EMAIL_HOST = env.text("LANEHOUSE_SMTP_HOST", "")
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if EMAIL_HOST else 'filebased'}.EmailBackend"
EMAIL_FILE_PATH = STATE_DIR / "mail"
EMAIL_PORT = env.integer("LANEHOUSE_SMTP_PORT", 587)
EMAIL_HOST_USER = env.text("LANEHOUSE_SMTP_USER", "")
EMAIL_HOST_PASSWORD = env.text("LANEHOUSE_SMTP_PASSWORD", "")
EMAIL_USE_TLS = True
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.text("LANEHOUSE_MAIL_FROM", "Lanehouse <no-reply@localhost>")
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
# Behind TLS these are set; the start script serves plain HTTP on loopback.
HTTPS = env.flag("LANEHOUSE_HTTPS", default=False)
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_PRELOAD = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_REFERRER_POLICY = "same-origin"
# W002 asks for X-Frame-Options: the pages' policy says frame-ancestors 'none', which browsers prefer.
SILENCED_SYSTEM_CHECKS = ["security.W002"]
APPEND_SLASH = False

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "/static/"
STATIC_ROOT = STATE_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Where files and payloads lie: on disk, or in a bucket that every host reaches.
S3_BUCKET = env.text("LANEHOUSE_S3_BUCKET")
STATE_DIR_IS_SHARED = env.flag("LANEHOUSE_STATE_DIR_IS_SHARED", default=False)
_S3_OPTIONS = {
    "bucket": S3_BUCKET,
    "prefix": env.text("LANEHOUSE_S3_PREFIX"),
    "endpoint_url": env.text("LANEHOUSE_S3_ENDPOINT_URL"),
    "region": env.text("LANEHOUSE_S3_REGION"),
}
STORAGES: dict[str, Any] = {
    "default": {"BACKEND": "ground.object_storage.ObjectStorage", "OPTIONS": _S3_OPTIONS}
    if S3_BUCKET
    else {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": STATE_DIR / "blobs", "base_url": None},
    },
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = False

# The broker carries wake-ups without content; PostgreSQL is the truth. Empty: switched off, sweeps do the work.
CELERY_BROKER_URL = env.text("CELERY_BROKER_URL")
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_CREATE_MISSING_QUEUES = False
CELERY_TASK_DEFAULT_QUEUE = "engine"
CELERY_TASK_ROUTES: dict[str, dict[str, str]] = {"webhooks.deliver_due": {"queue": "deliveries"}}
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None


def broker_options(url: str) -> dict[str, Any]:
    """Give the transport's options for a broker address."""
    if not url.startswith("pgmq:"):
        return {}
    return {
        # Without it the transport takes DATABASE_URL before this address (seen in its source).
        "conn_string": url.replace("pgmq:", "postgresql:", 1),
        "wait_time_seconds": 0,
        "use_notify": True,
        # With the transport's 250 ms a wake-up soon after a sweep's waited for the next poll: 0.9 s (measured).
        "notify_throttle_interval_ms": 0,
        "init_extension": False,
        "visibility_timeout": 60,
        "pool_size": 2,
        "pool_timeout": 0.25,
    }


CELERY_BROKER_TRANSPORT_OPTIONS = broker_options(CELERY_BROKER_URL)

# What follows are the product's own numbers (docs/operations.md says what each does).
CONTROL_PLANE_FEE_MICRO_USD = env.integer("LANEHOUSE_FEE_MICRO_USD", 20_000)
HOLD_MARGIN_BASIS_POINTS = env.integer("LANEHOUSE_HOLD_MARGIN_BASIS_POINTS", 1_000)
QUOTE_LIFETIME = timedelta(seconds=env.integer("LANEHOUSE_QUOTE_LIFETIME_SECONDS", 1_800))
QUOTE_BODY_MAX_BYTES = env.integer("LANEHOUSE_QUOTE_BODY_MAX_BYTES", 10 * 1024 * 1024)
# Threads of a web process, and requests that it works on at once: bodies that still come in, bodies that are there, and
# files that go out apart (config.gate).
WEB_THREADS = env.integer("LANEHOUSE_WEB_THREADS", 64)
GATE_PLACES = env.integer("LANEHOUSE_GATE_PLACES", 48)
GATE_UPLOAD_PLACES = env.integer("LANEHOUSE_GATE_UPLOAD_PLACES", 16)
GATE_BODY_PLACES = env.integer("LANEHOUSE_GATE_BODY_PLACES", 24)
GATE_DOWNLOAD_PLACES = env.integer("LANEHOUSE_GATE_DOWNLOAD_PLACES", 12)
# The least pace of bodies, both ways: so long without a byte, and another second for each so many bytes.
BODY_GRACE_SECONDS = env.integer("LANEHOUSE_BODY_GRACE_SECONDS", 15)
BODY_LEAST_BYTES_PER_SECOND = env.integer("LANEHOUSE_BODY_LEAST_BYTES_PER_SECOND", 16 * 1024)
# Up to this a body is whole in memory before a thread is taken: the longest direct quote, as a form. All that are still
# coming in may hold so much together.
BODY_KEPT_MAX_BYTES = QUOTE_BODY_MAX_BYTES + 64 * 1024
BODIES_MAX_BYTES = env.integer("LANEHOUSE_BODIES_MAX_BYTES", 256 * 1024 * 1024)
# How often a web process reports how its quotes and its gate do; 0: never. Who reads it at /metrics, by what token.
REPORT_SECONDS = 5
METRICS_TOKEN = env.text("LANEHOUSE_METRICS_TOKEN")
# Files that one process parses and prices at once; more only take the interpreter from each other.
QUOTE_PLACES = env.integer("LANEHOUSE_QUOTE_PLACES", 2)
# Above this the body is spooled; the quote's body limit is checked before.
DATA_UPLOAD_MAX_MEMORY_SIZE = QUOTE_BODY_MAX_BYTES + 1
# Batches that were charged less are told of together, each 30 s; dearer ones at once.
LOW_COST_BELOW_MICRO_USD = env.integer("LANEHOUSE_LOW_COST_BELOW_MICRO_USD", 1_000_000)
# Adjustments up to this are posted at once; above it a second person approves.
ADJUSTMENT_APPROVAL_ABOVE_MICRO_USD = env.integer("LANEHOUSE_ADJUSTMENT_APPROVAL_ABOVE_MICRO_USD", 50_000_000)
BATCH_WINDOW = timedelta(hours=24)
FILE_LIFETIME = timedelta(days=30)
FILE_MAX_BYTES = env.integer("LANEHOUSE_FILE_MAX_BYTES", 1024 * 1024 * 1024)
# A provider's gzipped report may unpack to so much.
REPORT_UNPACKED_MAX_BYTES = env.integer("LANEHOUSE_REPORT_UNPACKED_MAX_BYTES", 2 * 1024 * 1024 * 1024)
# Up to so many rows an export is written while its caller waits; more are a worker's.
EXPORT_ROWS_AT_ONCE = env.integer("LANEHOUSE_EXPORT_ROWS_AT_ONCE", 10_000)
STORED_QUOTES_MAX_BYTES = env.integer("LANEHOUSE_STORED_QUOTES_MAX_BYTES", 50 * 1024 * 1024 * 1024)
STORED_FILES_MAX_BYTES = env.integer("LANEHOUSE_STORED_FILES_MAX_BYTES", 100 * 1024 * 1024 * 1024)
SWEEP_INTERVAL_SECONDS = 1.0
# For pages, which do not read this floor's modules.
TASK_SECONDS_BETWEEN = SECONDS_BETWEEN
LEASE_SECONDS = env.integer("LANEHOUSE_LEASE_SECONDS", 60)
POLL_MIN_SECONDS = env.integer("LANEHOUSE_POLL_MIN_SECONDS", 1)
POLL_MAX_SECONDS = env.integer("LANEHOUSE_POLL_MAX_SECONDS", 60)
# How often live pages ask, in milliseconds; 0: each page decides by what it shows.
PAGE_POLL_MILLISECONDS = env.integer("LANEHOUSE_PAGE_POLL_MILLISECONDS", 0)
# Only for tests: where a process kills itself, once (ground.fault_points).
FAULT_POINTS = env.words("LANEHOUSE_FAULT_POINT")
PROVIDER_TIMEOUT_SECONDS = env.integer("LANEHOUSE_PROVIDER_TIMEOUT_SECONDS", 60)
# What customers may subscribe to; this app's callers publish them. Receivers inside the network, by exact host:port.
WEBHOOK_EVENT_TYPES = (
    *("batches.completed", "batch.completed", "batch.failed", "batch.expired", "batch.cancelled"),
    "wallet.balance_low",
)
WEBHOOK_ALLOWED_RECEIVERS = env.words("LANEHOUSE_WEBHOOK_ALLOWED_RECEIVERS")

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "filters": {"masks": {"()": "config.logs.Masks"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["masks"]}},
    "root": {"handlers": ["stderr"], "level": env.text("LANEHOUSE_LOG_LEVEL", "INFO")},
    "loggers": {
        # Masked where it is said, so that no handler hears more: its lines name addresses.
        "django.request": {"filters": ["masks"]},
        "httpx2": {"level": "WARNING"},
        "openai": {"level": "WARNING"},
        "botocore": {"level": "WARNING"},
        # Each sweep is a task each second; what fails is an error and still said.
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
    },
}
