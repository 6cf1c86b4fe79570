"""The network side alone: what a hostile or broken receiver can do, and what it cannot."""

from __future__ import annotations

import datetime as dt
import gzip
import socket
import ssl
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.webhooks.receivers import raw_server, receiving, status
from webhooks.domain.records import Answer, Outcome, Parcel
from webhooks.sender import BODY_KEPT_BYTES, Courier, Resolve, resolve_name

NAME = "hooks.example.com"
Script = Callable[[socket.socket, threading.Event], None]


def send(
    url: str,
    *,
    listed: tuple[str, ...] = (),
    deadline_seconds: float = 5.0,
    resolve: Resolve = resolve_name,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    parcel = Parcel(url=url, event_id="evt_1", payload=b"{}", keys=(b"k" * 32,))
    with Courier(listed=listed, deadline_seconds=deadline_seconds, resolve=resolve, tls=tls) as courier:
        return courier.send(parcel).result()


def script(*parts: bytes, pause_seconds: float = 0.0, then: Script | None = None) -> Script:
    """Read the request, then write the parts, then go on."""

    def run(connection: socket.socket, ended: threading.Event) -> None:
        connection.recv(65_536)
        for part in parts:
            connection.sendall(part)
            if ended.wait(pause_seconds):
                return
        if then is not None:
            then(connection, ended)

    return run


def hang(_connection: socket.socket, ended: threading.Event) -> None:
    ended.wait()


def one_byte_at_a_time(text: bytes) -> Script:
    return script(*(bytes([byte]) for byte in text), pause_seconds=0.1)


def endless(part: bytes) -> Script:
    def run(connection: socket.socket, ended: threading.Event) -> None:
        while not ended.is_set():
            connection.sendall(part)

    return run


@pytest.mark.parametrize(
    "behaviour",
    [
        hang,
        script(then=hang),
        one_byte_at_a_time(b"HTTP/1.1 200 OK\r\nx-slow: " + b"a" * 1_000),
        script(b"HTTP/1.1 199 Early\r\n\r\n", then=hang),
    ],
    ids=["reads-nothing", "answers-nothing", "drips-its-head", "only-informs"],
)
def test_no_receiver_holds_an_attempt_beyond_the_deadline(behaviour: Script) -> None:
    with raw_server(behaviour) as server:
        started = time.monotonic()
        answer = send(server.url, listed=(server.authority,), deadline_seconds=0.6)
        lasted_seconds = time.monotonic() - started
    assert (answer.failure, answer.status_code) == (Outcome.TIMEOUT, None)
    assert 0.5 <= lasted_seconds < 3
    assert 550 <= answer.duration_ms < 3_000


def test_who_pours_interim_answers_is_cut_long_before_the_deadline() -> None:
    with raw_server(script(then=endless(b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000))) as server:
        answer = send(server.url, listed=(server.authority,), deadline_seconds=60)
    assert (answer.failure, answer.status_code) == (Outcome.PROTOCOL, None)


def test_a_stuck_look_up_holds_neither_the_attempt_nor_the_end_of_the_courier() -> None:
    released = threading.Event()

    def stuck(_host: str, _port: int) -> list[str]:
        released.wait(30)
        return []

    started = time.monotonic()
    answer = send(f"https://{NAME}/", resolve=stuck, deadline_seconds=0.3)
    lasted_seconds = time.monotonic() - started
    released.set()
    assert answer.failure is Outcome.TIMEOUT
    assert lasted_seconds < 3


def test_tls_that_never_comes_ends_at_the_deadline() -> None:
    with raw_server(hang) as server:
        url = f"https://{server.authority}/"
        assert send(url, listed=(server.authority,), deadline_seconds=0.5).failure is Outcome.TIMEOUT


@pytest.mark.parametrize(
    "behaviour",
    [
        script(b"HTTP/1.1 200 OK\r\n\r\n", then=endless(b"x" * 65_536)),
        script(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n", then=endless(b"y" * 65_536)),
        script(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", then=endless(b"1000\r\n" + b"z" * 4_096 + b"\r\n")
        ),
    ],
    ids=["until-closed", "by-length", "in-chunks"],
)
def test_an_endless_body_is_read_to_its_first_bytes(behaviour: Script) -> None:
    with raw_server(behaviour) as server:
        answer = send(server.url, listed=(server.authority,), deadline_seconds=20)
    assert answer.status_code == 200
    assert len(answer.body) == BODY_KEPT_BYTES
    assert answer.duration_ms < 10_000


def test_a_body_that_drips_after_a_good_head_is_a_success() -> None:
    with raw_server(script(b"HTTP/1.1 202 Accepted\r\ncontent-length: 9\r\n\r\nok", then=hang)) as server:
        answer = send(server.url, listed=(server.authority,), deadline_seconds=0.5)
    assert (answer.status_code, answer.body, answer.failure) == (202, "ok", None)


def test_a_compressed_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    with receiving(status(200, bomb, content_encoding="gzip")) as receiver:
        send(receiver.url, listed=(receiver.authority,))
        tracemalloc.start()
        answer = send(receiver.url, listed=(receiver.authority,))
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert answer.status_code == 200
    assert len(answer.body) <= BODY_KEPT_BYTES
    assert peak_bytes < 10_000_000


@pytest.mark.parametrize(
    "bytes_back",
    [
        b"SSH-2.0-OpenSSH_9.7\r\n",
        b"-ERR unknown command 'POST'\r\n",
        b"HTTP/1.1 000 None\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 " + b"2" * 200_000,
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: 1\r\n" % number for number in range(200_000)),
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"",
    ],
    ids=["ssh", "redis", "status-0", "long-status", "many-headers", "negative-length", "two-lengths", "nothing"],
)
def test_what_is_no_http_is_told_so_and_not_shown(bytes_back: bytes) -> None:
    with raw_server(script(bytes_back)) as server:
        answer = send(server.url, listed=(server.authority,))
    assert answer.failure in {Outcome.PROTOCOL, Outcome.CONNECT}
    assert (answer.status_code, answer.body) == (None, "")
    assert "SSH" not in answer.detail


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        authority = f"127.0.0.1:{listener.getsockname()[1]}"
    answer = send(f"http://{authority}/", listed=(authority,))
    assert (answer.failure, answer.detail) == (Outcome.CONNECT, "The connection could not be made.")


def test_foreign_text_is_kept_harmless() -> None:
    with receiving(status(500, b"\x1b[31mred\x00\xff\r\nend", x_odd="a\x1bb")) as receiver:
        answer = send(receiver.url, listed=(receiver.authority,))
    assert answer.body == "\ufffd[31mred\ufffd\ufffd\nend"
    assert ("x-odd", "a\ufffdb") in answer.headers or answer.failure is Outcome.PROTOCOL


def test_a_name_without_an_address_is_a_failure_of_dns() -> None:
    def none(_host: str, _port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    assert send(f"https://{NAME}/", resolve=none).failure is Outcome.DNS


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["::1"], ["10.0.0.1"], ["169.254.169.254"], ["8.8.8.8", "127.0.0.1"], ["8.8.8.8", "fd00::1"]],
)
def test_a_name_that_leads_inside_opens_no_socket_and_tells_nothing(addresses: list[str]) -> None:
    with raw_server(hang) as server:
        answer = send(f"https://{NAME}:8443/", resolve=lambda _host, _port: addresses)
    assert server.connections == 0
    assert (answer.failure, answer.detail, answer.address) == (Outcome.BLOCKED, "The address is not allowed.", "")


def test_an_endpoint_whose_url_is_allowed_no_longer_is_not_sent_to() -> None:
    with receiving() as receiver:
        assert send(receiver.url).failure is Outcome.BLOCKED
    assert receiver.requests == []


def make_certificate(folder: Path, name: str, *, days: int = 1) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Give a server's context with a certificate for ``name``, and a client's that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=10))
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = folder / f"{name}.pem"
    pem.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    return server, ssl.create_default_context(cafile=str(pem))


def test_the_judged_address_is_connected_to_under_the_name_and_looked_up_once(tmp_path: Path) -> None:
    server_tls, client_tls = make_certificate(tmp_path, NAME)
    names: list[str | None] = []
    server_tls.sni_callback = lambda _socket, name, _context: names.append(name)
    looked_up: list[str] = []

    def resolve(host: str, _port: int) -> list[str]:
        looked_up.append(host)
        return ["127.0.0.1"] if len(looked_up) == 1 else ["10.0.0.1"]

    with receiving(tls=server_tls) as receiver:
        port = receiver.server.server_address[1]
        answer = send(f"https://{NAME}:{port}/in", listed=(f"{NAME}:{port}",), resolve=resolve, tls=client_tls)
    assert (answer.status_code, answer.address) == (200, "127.0.0.1")
    assert names == looked_up == [NAME]
    assert receiver.requests[0].headers["host"] == f"{NAME}:{port}"


@pytest.mark.parametrize(("certified", "days"), [("other.example.com", 1), (NAME, -1)], ids=["other-name", "expired"])
def test_a_bad_certificate_is_a_failure_of_tls_with_its_cause(tmp_path: Path, certified: str, days: int) -> None:
    server_tls, client_tls = make_certificate(tmp_path, certified, days=days)
    with receiving(tls=server_tls) as receiver:
        port = receiver.server.server_address[1]
        answer = send(
            f"https://{NAME}:{port}/",
            listed=(f"{NAME}:{port}",),
            resolve=lambda _host, _port: ["127.0.0.1"],
            tls=client_tls,
        )
    assert answer.failure is Outcome.TLS
    assert "certificate" in answer.detail
    assert receiver.requests == []


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    server_tls, _ = make_certificate(tmp_path, "127.0.0.1")
    with receiving(tls=server_tls) as receiver:
        answer = send(f"https://{receiver.authority}/", listed=(receiver.authority,))
    assert answer.failure is Outcome.TLS


def test_plain_http_where_tls_is_wanted_is_a_failure_of_tls() -> None:
    with receiving() as receiver:
        answer = send(f"https://{receiver.authority}/", listed=(receiver.authority,))
    assert answer.failure is Outcome.TLS


def test_the_second_address_is_tried_when_the_first_is_away() -> None:
    with receiving() as receiver:
        authority = f"{NAME}:{receiver.server.server_address[1]}"
        answer = send(f"http://{authority}/", listed=(authority,), resolve=lambda _host, _port: ["::1", "127.0.0.1"])
    assert (answer.status_code, answer.address) == (200, "127.0.0.1")
