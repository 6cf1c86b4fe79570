"""Which URLs an endpoint may have, and which addresses may be connected to."""

from __future__ import annotations

import pytest

from ground.errors import InvalidRequest
from webhooks.domain.addresses import is_allowed
from webhooks.domain.receivers import read_receiver

REFUSED = {
    "plain HTTP": ["http://example.com/hook", "HTTP://example.com/hook"],
    "IP address": [
        *("https://127.0.0.1/", "https://127.1/", "https://2130706433/", "https://0x7f000001/", "https://0177.0.0.1/"),
        *("https://0x7f.0.0.1/", "https://017700000001/", "https://0/", "https://0.0.0.0/", "https://1.2.3/"),
        *("https://4294967295/", "https://256.256.256.256/", "https://1.2.3.4.5/", "https://[::1]/", "https://[::]/"),
        *("https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[::127.0.0.1]/"),
        *("https://[64:ff9b::7f00:1]/", "https://[64:ff9b:1::a9fe:a9fe]/", "https://[2002:7f00:1::]/"),
        *("https://[2001:0:7f00:1::]/", "https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/"),
        *("https://[fd00:ec2::254]/", "https://[fec0::1]/", "https://[::ffff:0:127.0.0.1]/", "https://[v1.x]/"),
        *("https://[127.0.0.1]/", "https://169.254.169.254/", "https://100.100.100.200/", "https://192.0.0.192/"),
        *("https://168.63.129.16/", "https://10.0.0.5/", "https://172.16.0.1/", "https://192.168.1.1/"),
        *("https://224.0.0.1/", "https://240.0.0.1/", "https://198.18.0.1/", "https://192.0.2.1/", "https://8.8.8.8/"),
        *("https://2130706433/x", "https://[::ffff:127.0.0.1]/x", "https://0x7f.1/x", "https://127.0.0.1./"),
        "https://0x/",
    ],
    "not a public name": [
        *("https://localhost/", "https://LOCALHOST./", "https://localhost./x", "https://foo.localhost/", "https://db/"),
        *("https://redis/", "https://metadata.google.internal/", "https://a.internal/", "https://a.local/"),
        *("https://kubernetes.default.svc/", "https://router.home.arpa/", "https://x.test/", "https://x.onion/"),
    ],
    "user name or password": [
        *("https://user:pw@example.com/", "https://example.com@127.0.0.1/", "https://127.0.0.1:80@example.com:443/"),
        "https://@example.com/",
    ],
    "printable ASCII": [
        *("https://example.com\\@127.0.0.1/", "https://127.0.0.1\\@example.com/", "https://1.1.1.1 &@127.0.0.1/"),
        *(
            "https://①②⑦.⓪.⓪.①/",
            "https://127。0。0。1/",
            "https://exam\u200bple.com/",
            "https://example.com:\uff14\uff14\uff13/",
        ),
        *("https://example.com/a\r\nX: y", "https://exa\tmple.com/", "https://exa\nmple.com/", " https://example.com/"),
        *("\x00https://example.com/", "https://example.com\x00.evil.com/", "https://bücher.example.com/"),
    ],
    "fragment": ["https://example.com#@127.0.0.1/", "https://example.com/#a"],
    "port": [
        *("https://example.com:0/", "https://example.com:22/", "https://example.com:25/", "https://example.com:6379/"),
        *(
            "https://example.com:99999/",
            "https://example.com:-1/",
            "https://example.com:80:80/",
            "https://example.com:/",
        ),
        *("https://postgres:5432/", "https://example.com:80/", "https://example.com:0x1bb/", "https://[::1/"),
    ],
    "valid name": [
        *("https://xn--/", "https://-example.com/", "https://a..b/", "https://a_b.com/", "https://example.com../"),
        *("https://.example.com/", f"https://{'a' * 64}.com/", f"https://{'a.' * 126}com/", "https://ex%61mple.com/"),
    ],
    "no host": ["https:///path", "https://", "https://:443/"],
    "whole URL": [
        "//example.com/",
        "example.com/hook",
        "",
        "/hook",
        "javascript:alert(1)",
        "data:text/plain,hi",
        "https:/x",
    ],
    "begin with https": [
        *("ftp://example.com/", "file:///etc/passwd", "gopher://127.0.0.1:6379/_x", "dict://127.0.0.1:11211/"),
        *(
            "ldap://127.0.0.1/",
            "unix:///var/run/docker.sock",
            "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
            "httpss://a.com",
        ),
    ],
    "encoded control character": [
        *("https://example.com/%0d%0aX:y", "https://example.com/%00", "https://example.com/a%zz"),
        *("https://example.com/?a=%7f", "https://example.com/%"),
    ],
    "longer than": ["https://example.com/" + "a" * 2_029],
    "Lanehouse itself": ["https://app.lanehouse.example.com/", "https://API.example.org./v1"],
}
OWN = ["app.lanehouse.example.com", ".example.org", "*"]


@pytest.mark.parametrize(("words", "url"), [(words, url) for words, urls in REFUSED.items() for url in urls])
def test_a_hostile_url_is_refused_with_a_sentence(words: str, url: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        read_receiver(url, own_hosts=OWN)
    assert (refusal.value.code, refusal.value.param) == ("invalid_url", "url")
    wanted = {"port": ("port",), "plain HTTP": ("plain HTTP",), "not a public name": ("public name", "IP address")}
    assert any(word in refusal.value.message for word in wanted.get(words, (words,))), refusal.value.message


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("HTTPS://EXAMPLE.com/", "https://example.com/"),
        ("https://example.com", "https://example.com/"),
        ("https://example.com./", "https://example.com/"),
        ("https://example.com:443/a", "https://example.com/a"),
        ("https://example.com:8443/a?b=c", "https://example.com:8443/a?b=c"),
        ("https://example.com?@127.0.0.1/", "https://example.com/?@127.0.0.1/"),
        ("https://xn--bcher-kva.example.com/<script>", "https://xn--bcher-kva.example.com/<script>"),
        ("https://127.0.0.1.nip.io/", "https://127.0.0.1.nip.io/"),
        ("https://example.com/" + "a" * 2_028, "https://example.com/" + "a" * 2_028),
    ],
)
def test_a_good_url_is_stored_in_its_normal_form(url: str, stored: str) -> None:
    assert read_receiver(url).url == stored


def test_what_the_operator_listed_may_be_inside_and_plain_but_only_exactly_that() -> None:
    listed = {"127.0.0.1:9105", "[::1]:9105", "db:80"}
    assert read_receiver("http://127.0.0.1:9105/hooks", listed=listed).is_listed
    assert read_receiver("http://[::1]:9105/", listed=listed).is_listed
    assert read_receiver("http://db/", listed=listed).authority == "db"
    for url in ("http://127.0.0.1:9106/", "http://127.0.0.1/", "http://127.1:9105/", "http://localhost:9105/"):
        with pytest.raises(InvalidRequest):
            read_receiver(url, listed=listed)
    with pytest.raises(InvalidRequest):
        read_receiver("http://user@127.0.0.1:9105/", listed=listed)


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.255"),  # noqa: S104 -- never bound to
        *("169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.31.196.1"),
        *("192.52.193.1", "192.88.99.1", "192.168.0.1", "192.175.48.1", "198.18.0.1", "198.19.255.255", "198.51.100.1"),
        *("203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16"),
        *("::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:7f00:1", "64:ff9b::7f00:1"),
        *(
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::8.8.8.8",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:7f00:1::",
            "2001:db8::1",
        ),
        *("2001:1ff::1", "2002:7f00:1::", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0"),
        *("fec0::1", "ff02::1", "2620:4f:8000::1", "2606:4700:4700::1111%eth0", "", "localhost", "127.1", "0x7f000001"),
    ],
)
def test_an_address_inside_or_reserved_is_not_connected_to(address: str) -> None:
    assert not is_allowed(address)


@pytest.mark.parametrize(
    "address",
    [
        *("172.32.0.1", "172.15.255.255", "8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.1", "192.0.1.1"),
        *("168.63.129.15", "223.255.255.255", "2606:4700:4700::1111", "2001:4860:4860::8888", "2a00:1450:4001::1"),
        *("2001:200::1", "::ffff:8.8.8.8"),
    ],
)
def test_a_public_address_is_connected_to(address: str) -> None:
    assert is_allowed(address)
