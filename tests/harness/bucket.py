"""A bucket of a stand-in S3 (moto) as the place of all blobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3  # type: ignore[import-untyped]
from django.conf import settings
from django.core.files.storage import default_storage
from django.test import override_settings
from moto.server import ThreadedMotoServer

BUCKET = "lanehouse-blobs"
PREFIX = "house"


@contextmanager
def blobs_in_a_bucket(*, url: str, bucket: str = BUCKET) -> Iterator[Any]:
    """Let blobs lie in a bucket of the store at ``url``, and give a client of it."""
    backend = {
        "BACKEND": "ground.object_storage.ObjectStorage",
        "OPTIONS": {"bucket": bucket, "prefix": PREFIX, "endpoint_url": url, "region": "us-east-1"},
    }
    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
    client.create_bucket(Bucket=BUCKET)
    with override_settings(STORAGES={**settings.STORAGES, "default": backend}):
        yield client
        default_storage._client.close()  # type: ignore[attr-defined]  # a storage of ours
    for key in keys_in(client):
        client.delete_object(Bucket=BUCKET, Key=key)
    client.close()


def keys_in(client: Any) -> list[str]:
    """Give the keys of everything in the bucket."""
    return [found["Key"] for found in client.list_objects_v2(Bucket=BUCKET).get("Contents", ())]


@contextmanager
def running_store() -> Iterator[str]:
    """Run a stand-in S3 on a thread and give its address."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
