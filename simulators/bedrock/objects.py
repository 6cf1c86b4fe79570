"""S3 on a loopback port: moto's server, with every object also on disk, so that a killed process loses none."""

import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import orjson
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import S3Backend, s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server

from simulators.faults import Fault, FaultKind

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

OWN_KEY = "SIMULATOR"
_REGION = "us-east-1"
_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)/")
_OBJECT_CALLS = {"GET": "get_object", "HEAD": "head_object", "PUT": "put_object", "DELETE": "delete_object"}
_BUCKET_CALLS = {"GET": "list_objects", "HEAD": "head_bucket", "PUT": "create_bucket", "DELETE": "delete_bucket"}
_POST_CALLS = {
    "delete": "delete_objects",
    "uploads": "create_multipart_upload",
    "uploadId": "complete_multipart_upload",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Faults and counters of S3 calls, by access key and operation (``s3.get_object``)."""

    take: Callable[[str, str], Fault | None]
    count: Callable[[str, str, str], None]


class ObjectServer:
    """S3 in this process. moto's objects are the process's own: one server at a time."""

    def __init__(self, directory: Path, host: str, port: int, hooks: Hooks) -> None:
        """Bring back what is under `directory` and listen on `port` (0: a free one).

        Raises:
            OSError: the port is taken.
        """
        self._kept = KeptObjects(directory)
        self._kept.restore()
        with socket.create_server((host, port)) as listening:
            application = _Application(self._kept, hooks)
            fd = listening.fileno()
            self._server = make_server(host, port, application, threaded=True, request_handler=_Quiet, fd=fd)
        self.port = self._server.port
        self.url = f"http://{host}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="s3", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening and forget what is in memory; the disk keeps it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        _backend().reset()


class KeptObjects:
    """Objects on disk: a folder for each bucket, a file for each object, its key in the first line."""

    def __init__(self, directory: Path) -> None:
        """Keep objects under `directory`."""
        self._directory = directory
        self._lock = threading.Lock()
        directory.mkdir(parents=True, exist_ok=True)

    def restore(self) -> None:
        """Put everything that is on disk into moto."""
        backend = _backend()
        for folder in sorted(self._directory.iterdir()):
            backend.create_bucket(folder.name, _REGION)
            for path in sorted(folder.iterdir()):
                if path.suffix:
                    path.unlink()
                    continue
                name, _, content = path.read_bytes().partition(b"\n")
                backend.put_object(folder.name, orjson.loads(name), content)

    def keep(self, bucket: str, key: str) -> None:
        """Bring the disk to what moto has under `key`, or of the whole bucket if the key is empty."""
        with self._lock:
            backend, folder = _backend(), self._directory / bucket
            if bucket not in backend.buckets:
                shutil.rmtree(folder, ignore_errors=True)
                return
            folder.mkdir(exist_ok=True)
            if key:
                self._keep_object(backend, bucket, key)
                return
            held = {_file_name(each) for each in backend.buckets[bucket].keys}
            for path in folder.iterdir():
                if path.name not in held:
                    path.unlink()

    def _keep_object(self, backend: S3Backend, bucket: str, key: str) -> None:
        path = self._directory / bucket / _file_name(key)
        found = backend.get_object(bucket, key)
        if found is None:
            path.unlink(missing_ok=True)
            return
        fresh = path.with_suffix(".new")
        fresh.write_bytes(orjson.dumps(key) + b"\n" + found.value)
        fresh.replace(path)


class _Application:
    """moto's application, with faults in front of it and the disk behind it."""

    def __init__(self, kept: KeptObjects, hooks: Hooks) -> None:
        self._kept = kept
        self._hooks = hooks
        self._moto = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        credential = _CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
        access_key = credential[1] if credential else "anonymous"
        if access_key == OWN_KEY:
            return self._run(environ, start_response, None)[1]
        operation = _operation_of(environ)
        fault = self._hooks.take(access_key, operation)
        try:
            status, body = self._run(environ, start_response, fault)
        except ConnectionError:
            self._hooks.count(access_key, operation, str(fault.kind if fault else FaultKind.CUT_BEFORE))
            raise
        self._hooks.count(access_key, operation, status)
        return body

    def _run(
        self, environ: "WSGIEnvironment", start_response: "StartResponse", fault: Fault | None
    ) -> tuple[str, Iterable[bytes]]:
        """The HTTP status (or how the connection was cut) and the body."""
        kind = None if fault is None else fault.kind
        if fault is not None and kind in {FaultKind.HTTP_ERROR, FaultKind.HTML_PAGE}:
            return _replaced(environ, start_response, fault)
        if fault is not None and kind is FaultKind.SLOW:
            time.sleep(1.0 if fault.delay_seconds is None else fault.delay_seconds)
        if kind is FaultKind.CUT_BEFORE:
            _cut(environ)
        started: list[str] = []

        def started_response(status: str, headers: list[tuple[str, str]], *rest: object) -> object:
            started.append(status[:3])
            return start_response(status, headers, *rest)  # type: ignore[arg-type]  # handed on as it came

        body = self._moto(environ, started_response)
        if environ["REQUEST_METHOD"] in {"PUT", "POST", "DELETE"} and started[0].startswith("2"):
            self._kept.keep(*_place_of(environ))
        if kind is FaultKind.CUT_AFTER:
            _cut(environ)
        if fault is not None and kind is FaultKind.CUT_MIDWAY:
            return str(kind), _half(environ, b"".join(body), fault.after_bytes)
        return started[0], body


class _Quiet(WSGIRequestHandler):
    """A handler that writes no lines about its calls."""

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002  # the base class names it so
        """Say nothing."""


def _backend() -> S3Backend:
    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


def _file_name(key: str) -> str:
    return sha256(key.encode()).hexdigest()


def _place_of(environ: "WSGIEnvironment") -> tuple[str, str]:
    """Bucket and key of a path-style call; WSGI hands the path over as Latin-1."""
    bucket, _, key = environ["PATH_INFO"].encode("latin-1").decode().lstrip("/").partition("/")
    return bucket, key


def _operation_of(environ: "WSGIEnvironment") -> str:
    method, asked = environ["REQUEST_METHOD"], parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    if method == "POST":
        name = next((name for member, name in _POST_CALLS.items() if member in asked), "post_object")
    elif method == "PUT" and "uploadId" in asked:
        name = "upload_part"
    else:
        name = (_OBJECT_CALLS if _place_of(environ)[1] else _BUCKET_CALLS).get(method, method.lower())
    return f"s3.{name}"


def _replaced(environ: "WSGIEnvironment", start_response: "StartResponse", fault: Fault) -> tuple[str, Iterable[bytes]]:
    """An error instead of the call."""
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    is_page = fault.kind is FaultKind.HTML_PAGE
    status_code = fault.status_code or (502 if is_page else 503)
    message = fault.message or "Please reduce your request rate."
    body = f"<Error><Code>{fault.code or 'SlowDown'}</Code><Message>{message}</Message></Error>".encode()
    headers = [("Content-Type", "text/html" if is_page else "application/xml"), ("Connection", "close")]
    if is_page:
        body = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
    if fault.retry_after_seconds is not None:
        headers.append(("Retry-After", f"{fault.retry_after_seconds:g}"))
    start_response(f"{status_code} Error", [*headers, ("Content-Length", str(len(body)))])
    return str(status_code), [body]


def _cut(environ: "WSGIEnvironment") -> None:
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    raise ConnectionResetError


def _half(environ: "WSGIEnvironment", body: bytes, after_bytes: int | None) -> Iterator[bytes]:
    yield body[: len(body) // 2 if after_bytes is None else after_bytes]
    _cut(environ)
