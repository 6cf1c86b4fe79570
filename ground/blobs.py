"""Blobs: write-once bytes, named by id, through Django's storages (disk by default, S3 by setting).

A blob is written before the row that names it. A name that is taken is never overwritten, so what a killed step left
behind is an orphan that nobody reads.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self, cast

from django.conf import settings
from django.core.files.base import ContentFile, File
from django.core.files.storage import default_storage

READ_CHUNK_BYTES = 256 * 1024
# Small writes are gathered: hashing and writing them one by one would cost twice as much.
_WRITE_BYTES = 256 * 1024
# A megabyte in pieces of this size is written in a quarter of the time of one piece, and 8 MB in a tenth (ext4).
_PIECE_BYTES = 64 * 1024
# A temporary file that nobody has written to for this long belongs to a killed process.
_ABANDONED_SECONDS = 86_400


_SAVERS_COUNT = 8
_ASIDE_MAX_BYTES = 4 * 1024 * 1024
_pool_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBlob:
    """What was written, under the name it really got; ``sha256`` is empty where none was asked for."""

    name: str
    size_bytes: int
    sha256: bytes


def write_small(name: str, content: bytes) -> str:
    """Write bytes that are in memory already and give the blob's name; without a hash, and not flushed to the disk.

    On a disk by plain calls: what Django's storage does around them takes four times as long as writing a small blob.

    Raises:
        FileExistsError: There is such a blob.
    """
    try:
        path = default_storage.path(name)
    except NotImplementedError:
        return default_storage.save(name, ContentFile(content))
    descriptor = _create(path)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left[:_PIECE_BYTES]) :]
    except OSError:
        Path(path).unlink()
        raise
    finally:
        os.close(descriptor)
    return name


def _create(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o644)
    except FileNotFoundError:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o644)


class BlobWriter:
    """Writes one blob in flat memory: to a temporary file, flushed to disk, then moved to its name whole."""

    def __init__(self, name: str = "", *, is_hashed: bool = True) -> None:
        folder = _incoming()
        _remove_abandoned(folder)
        self._name = name
        self._digest = hashlib.sha256() if is_hashed else None
        descriptor, self._path = tempfile.mkstemp(dir=folder)
        self._file = os.fdopen(descriptor, "w+b")
        self._gathered: list[bytes] = []
        self._written_bytes = 0
        self.size_bytes = 0

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the temporary file; what :meth:`save` moved stays."""
        self._file.close()
        Path(self._path).unlink(missing_ok=True)

    def write(self, chunk: bytes) -> None:
        """Add bytes."""
        self._gathered.append(chunk)
        self.size_bytes += len(chunk)
        if self.size_bytes - self._written_bytes >= _WRITE_BYTES:
            self._write_gathered()

    def write_all(self, chunks: Iterable[bytes]) -> None:
        """Add the bytes of many chunks."""
        for chunk in chunks:
            self.write(chunk)

    def digest(self) -> bytes:
        """Give the SHA-256 of what was written so far; of a writer that hashes."""
        assert self._digest is not None, "this writer hashes nothing"
        self._write_gathered()
        return self._digest.digest()

    def copied(self, name: str) -> Self:
        """Give a writer of another blob that goes on from what this one has; nothing is hashed twice for it."""
        self._write_gathered()
        self._file.flush()
        copy = type(self)(name, is_hashed=False)
        copy._go_on_from(self._file, self.size_bytes, self._digest)  # noqa: SLF001 -- one of this class
        return copy

    def _go_on_from(self, written: BinaryIO, size_bytes: int, digest: hashlib._Hash | None) -> None:
        while self.size_bytes < size_bytes:
            # Inside the kernel: the bytes do not come by here.
            self.size_bytes += os.sendfile(
                self._file.fileno(), written.fileno(), self.size_bytes, size_bytes - self.size_bytes
            )
        self._file.seek(0, os.SEEK_END)
        self._written_bytes = size_bytes
        self._digest = digest.copy() if digest else None

    def save(self, name: str = "") -> WrittenBlob:
        """Give the blob its name; call once, at the end. A name that is known only then is given here."""
        self._write_gathered()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.seek(0)
        saved = default_storage.save(name or self._name, _Movable(self._file, self._path))
        _make_name_durable(saved)
        return WrittenBlob(
            name=saved, size_bytes=self.size_bytes, sha256=self._digest.digest() if self._digest else b""
        )

    def begin_save(self, name: str) -> SavingBlob:
        """Give the blob its name beside other work: the disk takes its time to flush, and the processor is free.

        Only what is short and goes to a disk: the caller may hold locks meanwhile. Anything else has its name before
        this returns. The writer must not be left before :meth:`SavingBlob.wait` was called.
        """
        if self.size_bytes > _ASIDE_MAX_BYTES or not _is_on_disk():
            saved: Future[WrittenBlob] = Future()
            saved.set_result(self.save(name))
            return SavingBlob(saved.result(), saved)
        self._write_gathered()
        digest = self._digest.digest() if self._digest else b""
        written = WrittenBlob(name=name, size_bytes=self.size_bytes, sha256=digest)
        return SavingBlob(written, _savers().submit(self._save_on_disk, written))

    def _save_on_disk(self, written: WrittenBlob) -> WrittenBlob:
        """Do as :meth:`save` by plain calls, which cost a quarter less; a name that is taken is an error here."""
        path = Path(default_storage.path(written.name))
        self._file.flush()
        os.fchmod(self._file.fileno(), 0o644)
        os.fsync(self._file.fileno())
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(self._path, path)
        except FileExistsError:
            raise
        except OSError:
            # Blobs lie on another disk, or on one without second names.
            return self.save(written.name)
        _make_name_durable(written.name)
        return written

    def _write_gathered(self) -> None:
        block = self._gathered[0] if len(self._gathered) == 1 else b"".join(self._gathered)
        if self._digest:
            self._digest.update(block)
        self._file.write(block)
        self._gathered.clear()
        self._written_bytes = self.size_bytes


class SavingBlob:
    """A blob that is being given its name; ``written`` says what it will be."""

    def __init__(self, written: WrittenBlob, saving: Future[WrittenBlob]) -> None:
        self.written = written
        self._saving = saving

    def wait(self) -> None:
        """Wait until it is there whole, and raise what went wrong."""
        saved = self._saving.result()
        assert saved.name == self.written.name, "a name with an id in it is nobody else's"


def wait_quietly(saving: SavingBlob) -> None:
    """Wait until a blob is there or cannot be: whoever is about to remove it must not be overtaken by it."""
    with contextlib.suppress(Exception):
        saving.wait()


def _savers() -> ThreadPoolExecutor:
    global _pool  # noqa: PLW0603 -- one pool a process, made after any fork
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max_workers=_SAVERS_COUNT, thread_name_prefix="save")
        return _pool


def link_blob(name: str, second_name: str) -> None:
    """Give a blob a second name; its bytes are there until both are removed. Copied where the storage cannot link.

    Raises:
        FileNotFoundError: There is no such blob.
    """
    copy_blob = getattr(default_storage, "copy_blob", None)
    if copy_blob is not None:
        copy_blob(name, second_name)
        return
    try:
        source, target = Path(default_storage.path(name)), Path(default_storage.path(second_name))
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(source, target)
    except (FileNotFoundError, FileExistsError):
        raise
    except (NotImplementedError, OSError):
        with BlobWriter(second_name, is_hashed=False) as writer:
            for chunk in chunks_of(open_blob(name)):
                writer.write(chunk)
            writer.save()
    else:
        _make_name_durable(second_name)


def open_blob(name: str) -> BinaryIO:
    """Open a blob for reading; seekable.

    Raises:
        FileNotFoundError: There is no such blob.
    """
    return cast(BinaryIO, default_storage.open(name, "rb"))


def open_on_disk(name: str) -> BinaryIO:
    """Open a blob that will be read here and there, by its descriptor; a storage elsewhere lends it to the disk.

    Raises:
        FileNotFoundError: There is no such blob.
    """
    blob = open_blob(name)
    with contextlib.suppress(OSError):
        blob.fileno()
        return blob
    lent = cast(BinaryIO, tempfile.TemporaryFile(dir=_incoming()))  # noqa: SIM115 -- its reader closes it
    for chunk in chunks_of(blob):
        lent.write(chunk)
    lent.flush()
    return lent


def read_blob(name: str) -> bytes:
    """Read a small blob whole."""
    with open_blob(name) as blob:
        return blob.read()


def size_of_blob(name: str) -> int:
    """Give a blob's length in bytes.

    Raises:
        FileNotFoundError: There is no such blob.
    """
    return default_storage.size(name)


def chunks_of(blob: BinaryIO, *, size_bytes: int | None = None) -> Iterable[bytes]:
    """Give a blob's bytes from where it stands, in chunks, and close it at the end."""
    with blob:
        left_bytes = size_bytes
        while left_bytes is None or left_bytes > 0:
            chunk = blob.read(READ_CHUNK_BYTES if left_bytes is None else min(READ_CHUNK_BYTES, left_bytes))
            if not chunk:
                return
            if left_bytes is not None:
                left_bytes -= len(chunk)
            yield chunk


def delete_blob(name: str) -> None:
    """Remove a blob; one that is gone already is no error."""
    default_storage.delete(name)


def delete_overtaken(folder: str, fence: int) -> None:
    """Remove what killed runs of a step left in its folder; called at the start of a run, with its fence.

    A blob there is named by the fence of the run that wrote it, and a run whose fence has moved can never commit: no
    row names what it wrote. So whenever a run is killed, the next one removes what it left. A blob of the run's own
    fence is left over too: the run has written none yet, so it is of a claim that the database has forgotten.
    """
    try:
        _, files = default_storage.listdir(folder)
    except FileNotFoundError:
        return
    for file in files:
        if int(file.partition(".")[0]) <= fence:
            default_storage.delete(f"{folder}/{file}")


def blob_names(folder: str) -> Iterator[str]:
    """Give the names of all blobs under a folder, at any depth; one folder's names are in memory at a time."""
    try:
        folders, files = default_storage.listdir(folder)
    except FileNotFoundError:
        return
    for file in files:
        yield f"{folder}/{file}"
    for inner in folders:
        yield from blob_names(f"{folder}/{inner}")


def _make_name_durable(name: str) -> None:
    """Flush the folder a blob was moved into; its bytes alone would not be found again after a power cut."""
    try:
        folder = Path(default_storage.path(name)).parent
    except NotImplementedError:
        # A storage without paths answers only when it has the blob.
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_on_disk() -> bool:
    try:
        default_storage.path("")
    except NotImplementedError:
        return False
    return True


def _incoming() -> Path:
    folder: Path = settings.STATE_DIR / "incoming"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _remove_abandoned(folder: Path) -> None:
    oldest = time.time() - _ABANDONED_SECONDS
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < oldest:
                path.unlink()


class _Movable(File):  # type: ignore[type-arg]  # generic in the stubs alone
    """A file that a disk storage may move to its place instead of copying."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        super().__init__(file, name=path)
        self._path = path

    def temporary_file_path(self) -> str:
        """Give the path that may be moved."""
        return self._path
