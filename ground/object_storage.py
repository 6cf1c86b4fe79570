"""Blobs in an S3 bucket, or a store that speaks its protocol: a storage of Django's, written and read in flat memory.

``django-storages`` fetches an object whole before its first byte can be read, which a range of a large file must not
cost. Credentials come as boto3 finds them: environment, shared file, or the machine's role.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

import boto3  # type: ignore[import-untyped]  # it comes without types
from boto3.exceptions import Boto3Error  # type: ignore[import-untyped]
from boto3.s3.transfer import TransferConfig  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]
from django.core.files.base import File
from django.core.files.storage import Storage
from django.utils.deconstruct import deconstructible

from ground.errors import ServerBusy

_PART_BYTES: Final = 8 * 1024 * 1024
# Bytes that are read and dropped rather than asked for anew: a request costs as much.
_SKIPPED_MAX_BYTES: Final = 512 * 1024
_BUFFER_BYTES: Final = 64 * 1024
# How often a stream that broke off is taken up again where it stood.
_REOPENED_MAX_COUNT: Final = 3
_MISSING: Final = frozenset({"404", "NoSuchKey", "NotFound"})
# Two parts at a time: a writer's memory is that of four parts at most.
_TRANSFER: Final = TransferConfig(
    multipart_threshold=2 * _PART_BYTES, multipart_chunksize=_PART_BYTES, max_concurrency=2, max_io_queue=4
)


@deconstructible
class ObjectStorage(Storage):
    """One bucket; keys are the blobs' names behind a prefix."""

    def __init__(self, *, bucket: str, prefix: str = "", endpoint_url: str = "", region: str = "") -> None:
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._endpoint_url = endpoint_url or None
        self._region = region or None
        self._clients: dict[int, Any] = {}
        self._lock = threading.Lock()

    @property
    def _client(self) -> Any:  # noqa: ANN401 -- boto3 has no types
        """Give the process's client, made after any fork; it may be used by many threads."""
        with self._lock:
            if os.getpid() not in self._clients:
                self._clients = {
                    os.getpid(): boto3.session.Session().client(
                        "s3",
                        endpoint_url=self._endpoint_url,
                        region_name=self._region,
                        config=Config(
                            retries={"mode": "standard", "max_attempts": 4},
                            connect_timeout=5,
                            read_timeout=60,
                            max_pool_connections=32,
                            # Other stores than Amazon's have no host name for each bucket, nor its newer checksums.
                            s3={"addressing_style": "path"} if self._endpoint_url else {},
                            request_checksum_calculation="when_required",
                            response_checksum_validation="when_required",
                        ),
                    )
                }
            return self._clients[os.getpid()]

    def _key(self, name: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + name}

    def _open(self, name: str, mode: str = "rb") -> File[bytes]:
        assert mode == "rb", "a blob is written once, by a writer"
        return cast("File[bytes]", io.BufferedReader(_ObjectReader(self._client, self._key(name)), _BUFFER_BYTES))

    def _save(self, name: str, content: File[bytes]) -> str:
        with _translated(name):
            path = getattr(content, "temporary_file_path", None)
            if path is not None:
                self._client.upload_file(path(), **self._key(name), Config=_TRANSFER)
            else:
                self._client.put_object(**self._key(name), Body=content.read())
        return name

    def exists(self, name: str) -> bool:
        """Say whether there is a blob of this name."""
        try:
            self.size(name)
        except FileNotFoundError:
            return False
        return True

    def size(self, name: str) -> int:
        """Give a blob's length in bytes."""
        with _translated(name):
            return int(self._client.head_object(**self._key(name))["ContentLength"])

    def delete(self, name: str) -> None:
        """Remove a blob; one that is gone already is no error."""
        with _translated(name):
            self._client.delete_object(**self._key(name))

    def listdir(self, path: str) -> tuple[list[str], list[str]]:
        """Give the folders and the blobs under a folder, none where there is no such folder."""
        prefix = f"{self._prefix}{path.strip('/')}/"
        folders: list[str] = []
        files: list[str] = []
        with _translated(path):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=prefix, Delimiter="/"):
                folders += [found["Prefix"][len(prefix) : -1] for found in page.get("CommonPrefixes", ())]
                files += [found["Key"][len(prefix) :] for found in page.get("Contents", ())]
        return folders, files

    def copy_blob(self, name: str, second_name: str) -> None:
        """Give a blob a second name, inside the store.

        Raises:
            FileNotFoundError: There is no such blob.
            FileExistsError: The second name is taken.
        """
        if self.exists(second_name):
            raise FileExistsError(second_name)
        with _translated(name):
            self._client.copy(self._key(name), **self._key(second_name), Config=_TRANSFER)


class _ObjectReader(io.RawIOBase):
    """An object, read from any place on: one request gives what is read one after another."""

    def __init__(self, client: Any, key: dict[str, str]) -> None:  # noqa: ANN401 -- boto3 has no types
        super().__init__()
        self._client, self._object = client, key
        with _translated(key["Key"]):
            self._size_bytes = int(client.head_object(**key)["ContentLength"])
        self._position = 0
        self._body: Any = None
        self._body_position = 0

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def seekable(self) -> bool:
        """Say that it can be read from any place on."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place; nothing is asked for before it is read."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size_bytes}[whence]
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 -- as io has it
        """Read some bytes from where it stands; none at the end."""
        view = memoryview(buffer)
        wanted_bytes = min(len(view), self._size_bytes - self._position)
        if wanted_bytes <= 0:
            return 0
        content = self._read(wanted_bytes)
        view[: len(content)] = content
        self._position += len(content)
        return len(content)

    def close(self) -> None:
        """Let go of the connection."""
        self._drop()
        super().close()

    def _read(self, wanted_bytes: int) -> bytes:
        for is_last in (*[False] * _REOPENED_MAX_COUNT, True):
            try:
                self._go_on()
                content: bytes = self._body.read(wanted_bytes)
            except (BotoCoreError, OSError):
                content = b""
            if content:
                self._body_position += len(content)
                return content
            # It broke off, or was left alone for so long that the store hung up.
            self._drop()
            if is_last:
                break
        raise ServerBusy("The store of files does not answer. Send the same request again.")

    def _go_on(self) -> None:
        ahead_bytes = self._position - self._body_position
        if self._body is not None and 0 <= ahead_bytes <= _SKIPPED_MAX_BYTES:
            while self._body_position < self._position:
                skipped = self._body.read(self._position - self._body_position)
                if not skipped:
                    raise OSError("the stream ended before its end")
                self._body_position += len(skipped)
            return
        self._drop()
        with _translated(self._object["Key"]):
            found = self._client.get_object(**self._object, Range=f"bytes={self._position}-")
        self._body, self._body_position = found["Body"], self._position

    def _drop(self) -> None:
        if self._body is not None:
            with contextlib.suppress(Exception):
                self._body.close()
            self._body = None


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """Say of a blob that is not there what a disk says; what else goes wrong passes, and nothing was done."""
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] in _MISSING:
            raise FileNotFoundError(name) from None
        raise ServerBusy("The store of files does not answer. Send the same request again.") from error
    except (BotoCoreError, Boto3Error) as error:
        raise ServerBusy("The store of files does not answer. Send the same request again.") from error
