"""The product's own web server: what only real HTTP can do to a body."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest
from django.conf import settings

from accounts.models import User
from accounts.services.organisations import revoke_api_key
from catalog.domain.records import Rotation
from catalog.services.rotation import rotate_lane
from routing.models import Quote, StoredFile
from tests.api.uploads import FILE, part, uploaded
from tests.api.world import Api, lines_of, row
from tests.harness.clock import Clock
from tests.harness.database import ROOT, TestServer
from tests.harness.world import Tenant

FORM_TYPE = "multipart/form-data; boundary=edge"
FORM_BEGIN = b'--edge\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'


@contextmanager
def serving(test_server: TestServer, **more: str) -> Iterator[tuple[str, int]]:
    """The web server as the supervisor starts it, on the tests' database; give its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "config.web", "--port", str(port)),
    ]
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings.test",
        "DATABASE_URL": test_server.app_dsn,
        "LANEHOUSE_STATE_DIR": str(settings.STATE_DIR),
        "LANEHOUSE_GATE_PLACES": "12",
        "LANEHOUSE_GATE_UPLOAD_PLACES": "9",
        **more,
    }
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        assert any(b"Uvicorn running" in line for line in process.stdout), "the server did not start"
        # A full pipe would stop it.
        threading.Thread(target=process.stdout.read, daemon=True).start()
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


def test_an_endless_form_is_no_file_to_quote_and_is_refused_for_its_length(
    http: HTTPConnection, tenant: Tenant
) -> None:
    headers = {**tenant.headers, "Content-Type": FORM_TYPE}
    http.request("POST", "/v1/quotes/model", iter([b" " * 1_048_576] * 11), headers, encode_chunked=True)
    error = answer_of(http.getresponse(), 413)["error"]
    assert (error["code"], "/v1/files" in error["message"]) == ("payload_too_large", True)


def head_of(tenant: Tenant, *lines: str, path: str = "/v1/quotes/model") -> bytes:
    started = (f"POST {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {tenant.key_text}", *lines)
    return ("\r\n".join(started) + "\r\n\r\n").encode()


def error_of(said: bytes, status: int) -> str:
    """Read a refusal that ends its connection."""
    head, _, content = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), said
    code: str = json.loads(content)["error"]["code"]
    return code


LINE = lines_of(row("a"))


@pytest.mark.parametrize(
    ("header", "sent"),
    [
        pytest.param(f"Content-Length: {2 * len(LINE)}", LINE, id="half of what was declared"),
        pytest.param("Transfer-Encoding: chunked", b"%x\r\n%b\r\n" % (len(LINE), LINE), id="no last chunk"),
        pytest.param("Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n" % (len(LINE), LINE), id="no end of the last"),
        pytest.param("Transfer-Encoding: chunked", b"%x\r\n%b" % (2 * len(LINE), LINE), id="half a chunk"),
        pytest.param("Transfer-Encoding: chunked", b"%x\r\n%b\r\nzz\r\n" % (len(LINE), LINE), id="no chunk at all"),
    ],
)
def test_a_file_that_breaks_off_at_a_line_is_never_priced(
    address: tuple[str, int], tenant: Tenant, header: str, sent: bytes
) -> None:
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(head_of(tenant, header) + sent)
        connection.shutdown(socket.SHUT_WR)
        said = connection.makefile("rb").read()
    assert error_of(said, 400) == "body_incomplete"
    assert Quote.objects.count() == 0


def test_an_upload_that_breaks_off_stores_nothing(address: tuple[str, int], tenant: Tenant) -> None:
    # Longer than is kept in memory, so a thread is reading it when it breaks off.
    head = head_of(tenant, "Content-Length: 20000000", f"Content-Type: {FORM_TYPE}", path="/v1/files")
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(head + FORM_BEGIN + LINE)
        connection.shutdown(socket.SHUT_WR)
        said = connection.makefile("rb").read()
    assert error_of(said, 400) == "body_incomplete"
    assert StoredFile.objects.count() == 0


def test_who_says_that_nothing_more_comes_is_answered(address: tuple[str, int], tenant: Tenant) -> None:
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(head_of(tenant, f"Content-Length: {len(LINE)}") + LINE)
        connection.shutdown(socket.SHUT_WR)
        assert connection.makefile("rb").read().startswith(b"HTTP/1.1 201")


def test_what_is_no_http_is_refused_in_the_envelope(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(b"hello\r\n\r\n")
        assert error_of(connection.makefile("rb").read(), 400) == "malformed_request"


def test_headers_behind_a_chunked_body_are_none(address: tuple[str, int], tenant: Tenant) -> None:
    head = f"POST /v1/quotes/model HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{len(LINE):x}\r\n"
    end = f"\r\n0\r\nAuthorization: Bearer {tenant.key_text}\r\n\r\n"
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(head.encode() + LINE + end.encode())
        assert connection.recv(65_536).startswith(b"HTTP/1.1 401")


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


def test_bodies_that_drip_shut_nobody_out(address: tuple[str, int], http: HTTPConnection, tenant: Tenant) -> None:
    with ExitStack() as open_sockets:
        for _ in range(200):
            dripping = open_sockets.enter_context(socket.create_connection(address, timeout=20))
            dripping.sendall(head_of(tenant, "Content-Length: 1000") + b"{")
        for _ in range(20):
            assert quote_status(http, tenant) == 201
        http.request("GET", "/v1/wallet", headers=tenant.headers)
        assert answer_of(http.getresponse(), 200)["object"] == "wallet"


def test_long_uploads_that_drip_take_no_more_than_their_places(
    address: tuple[str, int], http: HTTPConnection, tenant: Tenant
) -> None:
    head = head_of(tenant, "Content-Length: 20000000", f"Content-Type: {FORM_TYPE}", path="/v1/files")
    with ExitStack() as open_sockets:
        # Two more than there are places: those, and only those, are answered.
        dripping = [open_sockets.enter_context(socket.create_connection(address, timeout=20)) for _ in range(11)]
        for connection in dripping:
            connection.sendall(head + FORM_BEGIN)
        refused: set[socket.socket] = set()
        while len(refused) < 2:
            readable, _, _ = select.select([each for each in dripping if each not in refused], [], [], 20)
            assert readable, "nobody was refused"
            for connection in readable:
                said = connection.recv(65_536)
                assert said.startswith(b"HTTP/1.1 503")
                assert b"retry-after: 1\r\n" in said.lower()
                refused.add(connection)
        http.request("GET", "/healthz")
        assert answer_of(http.getresponse(), 200)["status"] == "ok"
        assert quote_status(http, tenant) == 201


@pytest.fixture(scope="module")
def hasty(test_server: TestServer) -> Iterator[tuple[str, int]]:
    """A server with little patience, and one place for each kind of what takes long."""
    with serving(
        test_server,
        LANEHOUSE_BODY_GRACE_SECONDS="1",
        LANEHOUSE_BODY_LEAST_BYTES_PER_SECOND="1000000",
        LANEHOUSE_GATE_UPLOAD_PLACES="1",
        LANEHOUSE_GATE_DOWNLOAD_PLACES="1",
    ) as address:
        yield address


@pytest.mark.parametrize("header", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
def test_a_body_below_the_least_pace_is_refused(hasty: tuple[str, int], db: None, tenant: Tenant, header: str) -> None:
    with socket.create_connection(hasty, timeout=20) as connection:
        connection.sendall(head_of(tenant, header) + b"1")
        assert error_of(connection.makefile("rb").read(), 408) == "body_too_slow"


def test_a_long_upload_below_the_least_pace_gives_its_place_back(
    hasty: tuple[str, int], db: None, tenant: Tenant
) -> None:
    head = head_of(tenant, "Content-Length: 20000000", f"Content-Type: {FORM_TYPE}", path="/v1/files")
    for _ in range(2):
        with socket.create_connection(hasty, timeout=20) as connection:
            connection.sendall(head + FORM_BEGIN)
            answered = HTTPResponse(connection)
            answered.begin()
            # The second finds the one place free.
            assert answer_of(answered, 408)["error"]["code"] == "body_too_slow"


def test_who_does_not_read_a_file_gives_its_place_back(hasty: tuple[str, int], api: Api) -> None:
    # More than the buffers of both ends hold.
    file_id = uploaded(api, part("purpose", "batch"), part("file", LINE * 200_000, "long.jsonl"))["id"]
    head = head_of(api.tenant, path=f"/v1/files/{file_id}/content").replace(b"POST", b"GET", 1)
    with socket.socket() as idle, closing(HTTPConnection(*hasty, timeout=20)) as other:
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        idle.connect(hasty)
        idle.sendall(head)
        assert idle.recv(12) == b"HTTP/1.1 200"
        statuses: list[int] = []
        while not statuses or statuses[-1] == 503:
            other.request("GET", f"/v1/files/{file_id}/content", headers={**api.tenant.headers, "Range": "bytes=0-9"})
            response = other.getresponse()
            response.read()
            statuses.append(response.status)
        assert (statuses[0], statuses[-1]) == (503, 206)


def test_a_head_without_end_is_refused(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nx-long: " + b"x" * 1_000_000)
        # What was not read may end the connection before the answer is read.
        with suppress(ConnectionResetError):
            assert error_of(connection.makefile("rb").read(), 431) == "head_too_long"
