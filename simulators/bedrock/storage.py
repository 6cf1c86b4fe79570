"""The simulator's own way into its S3: the service's role, whom no fault strikes."""

from contextlib import closing
from pathlib import Path

import boto3  # type: ignore[import-untyped]  # it comes without types
from botocore.client import Config  # type: ignore[import-untyped]
from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from simulators.bedrock.objects import OWN_KEY
from simulators.bedrock.requests import S3Place

_CHUNK_BYTES = 1 << 20
# One session reads the service model once.
_SESSION = boto3.session.Session()


class StorageError(Exception):
    """S3 refused; the text says why."""


class Storage:
    """Reads input objects and writes outputs."""

    def __init__(self, url: str) -> None:
        """Talk to the S3 at `url`."""
        self._client = _SESSION.client(
            "s3",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id=OWN_KEY,
            aws_secret_access_key=OWN_KEY,
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
        )

    def fetch(self, place: S3Place, path: Path, max_bytes: int) -> None:
        """Copy an object to `path`.

        Raises:
            StorageError: there is no such object, or it is larger than `max_bytes`.
        """
        try:
            found = self._client.get_object(Bucket=place.bucket, Key=place.key)
        except ClientError as error:
            raise StorageError(f"The input s3://{place.bucket}/{place.key} cannot be read: {error}") from error
        with closing(found["Body"]) as body, path.open("wb") as target:
            if found["ContentLength"] > max_bytes:
                raise StorageError(f"The input is larger than the allowed maximum of {max_bytes} bytes.")
            for chunk in body.iter_chunks(_CHUNK_BYTES):
                target.write(chunk)

    def put(self, place: S3Place, content: bytes | Path) -> None:
        """Write an object.

        Raises:
            StorageError: there is no such bucket.
        """
        try:
            if isinstance(content, bytes):
                self._client.put_object(Bucket=place.bucket, Key=place.key, Body=content)
            else:
                with content.open("rb") as source:
                    self._client.put_object(Bucket=place.bucket, Key=place.key, Body=source)
        except ClientError as error:
            raise StorageError(f"The output s3://{place.bucket}/{place.key} cannot be written: {error}") from error

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
