"""Which addresses of the web an endpoint may have: one strict parser, whose result is what is connected to.

Parsers disagree about what the host of a hostile URL is; here a URL has one reading or is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from ground.errors import InvalidRequest

URL_MAX_CHARACTERS = 2048
HTTPS_PORTS = (443, 8443)
_DEFAULT_PORTS = {"https": 443, "http": 80}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?", re.ASCII)
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
# Where the last label is a number, the whole is one spelling or another of an IPv4 address.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_ENCODED = re.compile(r"%(?![0-9A-Fa-f]{2})|%[01][0-9A-Fa-f]|%7[Ff]", re.ASCII)
_HOST_MAX_CHARACTERS = 253
_PORT_MAX = 65_535
_PRIVATE_SUFFIXES = frozenset(
    {
        *("localhost", "local", "localdomain", "internal", "intranet", "private", "lan", "home", "corp", "svc"),
        *("arpa", "test", "invalid", "example", "onion"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Where an endpoint's events go. ``is_listed``: the operator allows this host and port, whatever its address."""

    scheme: str
    host: str
    port: int
    target: str
    is_listed: bool

    @property
    def authority(self) -> str:
        """Give the host, and the port where it is not the scheme's own: also the ``Host`` header."""
        return self.host if self.port == _DEFAULT_PORTS[self.scheme] else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Give the normal form, which is what is stored."""
        return f"{self.scheme}://{self.authority}{self.target}"


def read_receiver(url: str, *, listed: Collection[str] = (), own_hosts: Collection[str] = ()) -> Receiver:
    """Read an endpoint's URL. No name is looked up; that is done, and judged, at each send.

    Args:
        url: as the customer wrote it.
        listed: ``host:port`` that the operator allows, lower case, also with plain HTTP and inside the network.
        own_hosts: our own names, which would be a loop.

    Raises:
        InvalidRequest: ``invalid_url``, with a sentence that says what is wrong.
    """
    if len(url) > URL_MAX_CHARACTERS:
        raise _refused(f"The URL is longer than {URL_MAX_CHARACTERS:,} characters.")
    if any(not "!" <= character <= "~" for character in url) or "\\" in url:
        raise _refused(
            "The URL may hold printable ASCII only: no spaces, no control characters, no backslash; write an"
            " international host in its xn-- form."
        )
    found = _URL.fullmatch(url)
    if found is None:
        raise _refused("Give a whole URL, such as https://example.com/hooks.")
    scheme, authority, path, query, fragment = found.groups(default="")
    scheme = scheme.lower()
    if scheme not in _DEFAULT_PORTS:
        raise _refused("The URL must begin with https://.")
    if "@" in authority:
        raise _refused("The URL may not hold a user name or password.")
    host, port = _host_and_port(authority, scheme)
    is_listed = f"{host}:{port}" in listed
    if not is_listed:
        _check(scheme, host, port, own_hosts)
    if fragment:
        raise _refused("The URL may not have a fragment ('#').")
    if _ENCODED.search(path + query):
        raise _refused("The URL's path or query holds an encoded control character or a stray '%'.")
    return Receiver(scheme=scheme, host=host, port=port, target=(path or "/") + query, is_listed=is_listed)


def _host_and_port(authority: str, scheme: str) -> tuple[str, int]:
    if "[" not in authority and ":" in authority and not authority.rpartition(":")[2].isdecimal():
        raise _refused("The URL's port is not a number.")
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise _refused("The URL's host or port is malformed.")
    host, port = found[1].lower(), int(found[2]) if found[2] else _DEFAULT_PORTS[scheme]
    if not 1 <= port <= _PORT_MAX:
        raise _refused(f"The URL's port must lie between 1 and {_PORT_MAX}.")
    if not host:
        raise _refused("The URL has no host.")
    return host.removesuffix("."), port


def _check(scheme: str, host: str, port: int, own_hosts: Collection[str]) -> None:
    """Refuse what is not a public name on a port for HTTPS."""
    if scheme != "https":
        raise _refused("The URL must begin with https://; plain HTTP would show your events to everyone on the way.")
    labels = host.split(".")
    if host.startswith("[") or _NUMBER.fullmatch(labels[-1]):
        raise _refused("The URL's host must be a name, not an IP address in any spelling.")
    if len(host) > _HOST_MAX_CHARACTERS or not all(map(_LABEL.fullmatch, labels)):
        raise _refused("The URL's host is not a valid name.")
    if port not in HTTPS_PORTS:
        raise _refused(f"The URL's port must be {' or '.join(map(str, HTTPS_PORTS))}.")
    if len(labels) == 1 or labels[-1] in _PRIVATE_SUFFIXES:
        raise _refused("The URL's host is not a public name, so it cannot be reached from here.")
    if any(host == own or (own.startswith(".") and f".{host}".endswith(own)) for own in own_hosts):
        raise _refused("The URL leads back to Lanehouse itself.")


def _refused(sentence: str) -> InvalidRequest:
    return InvalidRequest(sentence, code="invalid_url", param="url")
