"""The product's own web server: what only real HTTP can do to a body."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest
from django.conf import settings

from accounts.models import User
from accounts.services.organisations import revoke_api_key
from catalog.domain.records import Rotation
from catalog.services.rotation import rotate_lane
from routing.models import Quote
from tests.api.uploads import FILE, uploaded
from tests.api.world import Api, lines_of, row
from tests.harness.clock import Clock
from tests.harness.database import ROOT, TestServer
from tests.harness.world import Tenant


@contextmanager
def serving(test_server: TestServer) -> Iterator[tuple[str, int]]:
    """Granian as the supervisor starts it, on the tests' database; give its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port)),
        *("--workers", "1", "--http", "1", "--blocking-threads", "16", "--no-ws", "config.serving:application"),
    ]
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings.test",
        "DATABASE_URL": test_server.app_dsn,
        "LANEHOUSE_STATE_DIR": str(settings.STATE_DIR),
        "LANEHOUSE_GATE_PLACES": "12",
        "LANEHOUSE_GATE_UPLOAD_PLACES": "9",
    }
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        assert any(b"Started worker" in line for line in process.stdout), "the server did not start"
        yield ("127.0.0.1", port)
        process.terminate()


@pytest.fixture(scope="module")
def address(test_server: TestServer) -> Iterator[tuple[str, int]]:
    with serving(test_server) as address:
        yield address


@pytest.fixture
def http(address: tuple[str, int], db: None) -> Iterator[HTTPConnection]:
    connection = HTTPConnection(*address, timeout=20)
    yield connection
    connection.close()


def answer_of(response: HTTPResponse, status: int) -> dict[str, Any]:
    content = response.read()
    assert response.status == status, content
    answer: dict[str, Any] = json.loads(content)
    return answer


def quote_status(http: HTTPConnection, tenant: Tenant) -> int:
    http.request("POST", "/v1/quotes/model", lines_of(row("a")), tenant.headers)
    response = http.getresponse()
    response.read()
    return response.status


def test_two_servers_see_a_rotation_and_a_revoked_key_at_the_next_call(
    http: HTTPConnection, test_server: TestServer, tenant: Tenant, clock: Clock
) -> None:
    operator = User.objects.create_user(email="operator@example.com", name="Operator", created_at=clock.now())
    with serving(test_server) as second, closing(HTTPConnection(*second, timeout=20)) as other:
        assert [quote_status(each, tenant) for each in (http, other)] == [201, 201]
        rotate_lane("gpt-4o-mini", "openai-direct", Rotation.OUT, "its only lane", operator)
        assert [quote_status(each, tenant) for each in (http, other)] == [400, 400]
        rotate_lane("gpt-4o-mini", "openai-direct", Rotation.IN, "well again", operator)
        assert [quote_status(each, tenant) for each in (http, other)] == [201, 201]
        revoke_api_key(organisation=tenant.organisation, public_id=tenant.api_key.public_id, at=clock.now())
        assert [quote_status(each, tenant) for each in (http, other)] == [401, 401]


def test_a_file_in_chunks_is_quoted_whole(http: HTTPConnection, tenant: Tenant) -> None:
    chunks = [lines_of(row(f"r{number}")) for number in range(50)]
    http.request("POST", "/v1/quotes/model", iter(chunks), tenant.headers, encode_chunked=True)
    assert answer_of(http.getresponse(), 201)["row_count"] == 50


def test_a_command_in_chunks_is_read(http: HTTPConnection, api: Api) -> None:
    quote_id = api.quote(row("a"))["id"]
    headers = {**api.tenant.headers, "Content-Type": "application/json"}
    http.request(
        "POST", "/v1/batches", iter([b'{"quote_id":', f'"{quote_id}"}}'.encode()]), headers, encode_chunked=True
    )
    assert answer_of(http.getresponse(), 200)["quote_id"] == quote_id


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("multipart/form-data; boundary*=bogus''%ff", 415),
        ("application/json; charset=hex", 200),
        ("a; charset=%00", 415),
    ],
)
def test_a_malformed_content_type_is_answered_as_any(
    http: HTTPConnection, api: Api, content_type: str, status: int
) -> None:
    quote_id = api.quote(row("a"))["id"]
    body = json.dumps({"quote_id": quote_id}).encode()
    # Django raises at the first before there is a request, and would read the address by the second.
    http.request("POST", "/v1/batches?a=%C3%A9", body, {**api.tenant.headers, "Content-Type": content_type})
    answer_of(http.getresponse(), status)


def test_chunks_over_10_mib_are_refused(http: HTTPConnection, tenant: Tenant) -> None:
    http.request("POST", "/v1/quotes/model", iter([b" " * 1_048_576] * 11), tenant.headers, encode_chunked=True)
    assert answer_of(http.getresponse(), 413)["error"]["code"] == "payload_too_large"


def test_a_file_that_breaks_off_at_a_line_is_never_priced(address: tuple[str, int], tenant: Tenant) -> None:
    first = lines_of(row("a"))
    head = (
        f"POST /v1/quotes/model HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {tenant.key_text}\r\n"
        f"Content-Length: {2 * len(first)}\r\n\r\n"
    )
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(head.encode() + first)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 400")
    assert f"ended after {len(first)} of {2 * len(first)} bytes".encode() in answer
    assert Quote.objects.count() == 0


def test_a_declared_length_over_10_mib_is_refused_before_it_is_sent(address: tuple[str, int], tenant: Tenant) -> None:
    head = (
        f"POST /v1/quotes/model HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {tenant.key_text}\r\n"
        "Content-Length: 99999999999\r\n\r\n"
    )
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("name", ["Authorization", "x-request-id", "Cookie"])
def test_a_huge_header_is_a_refusal_and_the_next_call_is_served(
    http: HTTPConnection, tenant: Tenant, name: str
) -> None:
    http.request("GET", "/v1/wallet", headers={**tenant.headers, name: "x" * 100_000})
    refused = http.getresponse()
    refused.read()
    assert refused.status in {200, 401, 431}
    http.request("GET", "/v1/wallet", headers=tenant.headers)
    assert answer_of(http.getresponse(), 200)["object"] == "wallet"


def test_heads_and_ranges_are_as_long_as_they_say(http: HTTPConnection, api: Api) -> None:
    path = f"/v1/files/{uploaded(api)['id']}/content"
    seen = []
    for method, asked in (("HEAD", {}), ("GET", {"Range": "bytes=5-14"}), ("GET", {"If-None-Match": "*"}), ("GET", {})):
        # On one connection: an answer that is longer or shorter than it says spoils the next.
        http.request(method, path, headers={**api.tenant.headers, **asked})
        response = http.getresponse()
        seen.append((response.status, response.headers["Content-Length"], response.read()))
    assert seen[0] == (200, str(len(FILE)), b"")
    assert seen[1] == (206, "10", FILE[5:15])
    assert (seen[2][0], seen[2][2]) == (304, b"")
    assert seen[3] == (200, str(len(FILE)), FILE)


def whole_answer(connection: socket.socket) -> bytes:
    """Read an answer in chunks to its end; its head and its body may come apart."""
    said = b""
    while not said.endswith(b"\r\n0\r\n\r\n"):
        part = connection.recv(65_536)
        assert part, said
        said += part
    return said


def test_bodies_that_drip_leave_room_for_other_calls_and_health(
    address: tuple[str, int], http: HTTPConnection, tenant: Tenant
) -> None:
    head = (
        f"POST /v1/quotes/model HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {tenant.key_text}\r\n"
        "Content-Length: 1000\r\n\r\n{"
    )
    with ExitStack() as open_sockets:
        # Two more than there are places: those, and only those, are answered.
        dripping = [open_sockets.enter_context(socket.create_connection(address, timeout=20)) for _ in range(11)]
        for connection in dripping:
            connection.sendall(head.encode())
        refused: set[socket.socket] = set()
        while len(refused) < 2:
            readable, _, _ = select.select([each for each in dripping if each not in refused], [], [], 20)
            assert readable, "nobody was refused"
            for connection in readable:
                said = whole_answer(connection)
                assert said.startswith(b"HTTP/1.1 503")
                assert b"retry-after: 1\r\n" in said.lower()
                assert b"server_busy" in said
                refused.add(connection)
        http.request("GET", "/healthz")
        assert answer_of(http.getresponse(), 200)["status"] == "ok"
        http.request("GET", "/v1/wallet", headers=tenant.headers)
        assert answer_of(http.getresponse(), 200)["object"] == "wallet"
        assert quote_status(http, tenant) == 503
    # The server notices in its own time that the others have gone.
    assert 201 in (quote_status(http, tenant) for _ in range(5_000))
