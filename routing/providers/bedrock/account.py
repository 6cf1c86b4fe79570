"""What a Bedrock account needs beyond a key, read from the account's fields. Pure."""

from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from ground.errors import ProviderError
from routing.providers.base import Fault, ProviderAccount

_NEEDED = ("region", "bucket", "role")


@dataclass(frozen=True, slots=True, kw_only=True)
class BedrockAccount:
    """Where jobs are made, where their files lie, and as whom. ``prefix`` ends in ``/`` where it is not empty."""

    control_url: str
    storage_url: str
    region: str
    bucket: str
    prefix: str
    role_arn: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(repr=False)


def read_account(account: ProviderAccount) -> BedrockAccount:
    """Read an account: ``base_url`` is the control plane's with the rest as its query, the key has two or three parts.

    ``https://bedrock.us-east-1.amazonaws.com/?region=us-east-1&bucket=ours&role=arn:aws:iam::1:role/batch``, and
    where they differ ``&prefix=some/folder`` and ``&storage=https://...`` (S3's own URL).
    ``api_key`` is ``<access key id>:<secret access key>`` or with ``:<session token>`` behind it.

    Raises:
        ProviderError: ``account_refused``, permanent: something is missing; the message names it.
    """
    parts = urlsplit(account.base_url)
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    missing = [name for name in _NEEDED if not given.get(name)]
    if missing:
        raise _incomplete(f"base_url does not name {', '.join(missing)}")
    key_id, _, secrets = account.api_key.partition(":")
    secret, _, session_token = secrets.partition(":")
    if not key_id or not secret:
        raise _incomplete("api_key is not of the form id:secret")
    prefix = given.get("prefix", "").strip("/")
    return BedrockAccount(
        control_url=f"{parts.scheme}://{parts.netloc}",
        storage_url=given.get("storage") or f"https://s3.{given['region']}.amazonaws.com",
        region=given["region"],
        bucket=given["bucket"],
        prefix=f"{prefix}/" if prefix else "",
        role_arn=given["role"],
        access_key_id=key_id,
        secret_access_key=secret,
        session_token=session_token or None,
    )


def _incomplete(reason: str) -> ProviderError:
    return ProviderError(f"Bedrock: the account is incomplete: {reason}.", code=Fault.ACCOUNT_REFUSED, permanent=True)
