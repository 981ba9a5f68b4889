"""Storage of archived predictions, on a disk or in an S3-compatible store, through Arrow's file systems."""

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from registry.errors import ArchiveError, UsageError
from registry.files.storage import writing
from registry.private import make_folder
from registry.settings import Settings, get_settings

_CHUNK: Final = 1 << 20
AT_ONCE: Final = 64 * 2**20
"""Bytes of one request to a remote store, if a whole file is read."""
_SECONDS: Final = 10.0
"""Longest time for connecting to a store and for each of its answers."""


class Store:
    """A place for folders of files, by its URL. A file's name has the form `folder/file`.

    Files that cannot be read or written raise ArchiveError with the file's URL, a full disk StorageError.
    """

    def __init__(self, url: str, system: fs.FileSystem, path: str) -> None:
        self.url, self._system, self._path = url, system, path

    @property
    def folder(self) -> Path | None:
        """Return the store's folder on this host's disk; None if it is not on a disk."""
        return Path(self._path) if isinstance(self._system, fs.LocalFileSystem) else None

    def has_bucket(self) -> bool:
        """Return whether the store's bucket exists; True for a folder on a disk, which is made when needed."""
        if self.folder is not None:
            return True
        with self._explain_errors(""):
            info = self._system.get_file_info(self._path.split("/", maxsplit=1)[0])
        return bool(info.type != fs.FileType.NotFound)

    def url_of(self, name: str) -> str:
        """Return the URL of a file."""
        return f"{self.url}/{name}"

    def has(self, name: str) -> bool:
        """Return whether the file exists."""
        return self.size(name) is not None

    def size(self, name: str) -> int | None:
        """Return a file's size in bytes; None if it does not exist."""
        with self._explain_errors(name):
            info = self._system.get_file_info(self._place(name))
        return int(info.size) if info.type == fs.FileType.File else None

    def folders(self) -> dict[str, tuple[int, float]]:
        """Map each folder's name to the bytes of its files, and to the seconds since the newest was written."""
        with self._explain_errors(""):
            listed = self._system.get_file_info(fs.FileSelector(self._path, allow_not_found=True, recursive=True))
        now, totals = datetime.now(UTC).timestamp(), dict[str, tuple[int, float]]()
        for info in sorted(listed, key=lambda info: info.type != fs.FileType.File):  # an empty folder counts by itself
            name, _, inner = info.path.removeprefix(self._path).lstrip("/").partition("/")
            size, age = totals.get(name, (0, float("inf")))
            if info.type == fs.FileType.File:
                totals[name] = size + int(info.size), min(age, now - info.mtime.timestamp())
            elif not inner and name not in totals:
                totals[name] = 0, now - info.mtime.timestamp() if info.mtime else age
        return totals

    @contextmanager
    def reading(self, name: str) -> Iterator[Any]:
        """Open the file for reading at any offset."""
        with self._explain_errors(name), self._system.open_input_file(self._place(name)) as stream:
            yield stream

    @contextmanager
    def writing(self, name: str) -> Iterator[Any]:
        """Open a new file, which only its owner may read; it is on the disk after the block."""
        with self._explain_errors(name, writing=True):
            if self.folder is None:
                with self._system.open_output_stream(self._place(name)) as stream:
                    yield stream
                return
            make_folder((self.folder / name).parent)
            with (
                writing(self.folder / name),
                os.fdopen(os.open(self.folder / name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file,
            ):
                yield file
                file.flush()
                os.fsync(file.fileno())

    def move(self, folder: str, to: str, files: Sequence[str]) -> None:
        """Move a folder's files to another folder, in this order, replacing existing files; set their times to now."""
        if self.folder is None:
            # Only copied: when Arrow removes the last file, it stores an empty object named like the folder, which may
            # hide it.
            for file in files:
                with self._explain_errors(f"{folder}/{file}"):
                    self._system.copy_file(self._place(f"{folder}/{file}"), self._place(f"{to}/{file}"))
            return
        with self._explain_errors(to):
            target = self.folder / to
            target.mkdir(exist_ok=True, mode=0o700)
            for file in files:
                os.utime(self.folder / folder / file)
                (self.folder / folder / file).replace(target / file)
                for place in (target, self.folder):
                    entries = os.open(place, os.O_RDONLY)
                    os.fsync(entries)
                    os.close(entries)

    def copy(self, name: str, to: Path, *, linked: bool = True) -> None:
        """Copy a file, which never changes, to a path on this host. linked: make a hard link instead, if possible."""
        if linked and self.folder is not None:
            try:
                os.link(self.folder / name, to)
            except OSError:
                pass  # another disk, or one without links
            else:
                return
        with self.reading(name) as stream, writing(to), to.open("xb") as file:
            shutil.copyfileobj(stream, file, AT_ONCE)

    def remove(self, folder: str) -> None:
        """Remove a folder of files, if it is there."""
        if self.folder is not None:
            shutil.rmtree(self.folder / folder, ignore_errors=True)
            return
        with self._explain_errors(folder):
            if self._system.get_file_info(self._place(folder)).type == fs.FileType.NotFound:
                return
            try:
                self._system.delete_dir(self._place(folder))
            except OSError:
                # Afterwards Arrow stores an empty object named like the prefix, which some stores refuse.
                if self._system.get_file_info(self._place(folder)).type != fs.FileType.NotFound:
                    raise

    def digest(self, name: str) -> tuple[str, int]:
        """Return the SHA-256 of a file, and its size in bytes."""
        digest, size = hashlib.sha256(), 0
        with self.reading(name) as stream:
            while chunk := stream.read(AT_ONCE if self.folder is None else _CHUNK):
                digest.update(chunk)
                size += len(chunk)
        return digest.hexdigest(), size

    def _place(self, name: str) -> str:
        return f"{self._path}/{name}"

    @contextmanager
    def _explain_errors(self, name: str, *, writing: bool = False) -> Iterator[None]:
        place = self.url_of(name) if name else self.url
        try:
            yield
        except OSError as error:
            reason = " ".join(str(error.strerror or error).split())[:200]
            if writing:
                raise ArchiveError(
                    f"{self.url}: cannot be written to ({reason}); give a folder, or a bucket that exists, where this "
                    "account may write: --to, or SHUFFLEBOARD_ARCHIVES"
                ) from None
            if isinstance(error, FileNotFoundError):
                raise ArchiveError(f"{place}: no such file; bring it back, from a backup if it is gone") from None
            raise ArchiveError(f"{place}: cannot be read or written ({reason}); check the store") from None


def store_at(url: str = "", settings: Settings | None = None, *, seconds: float = _SECONDS) -> Store:
    """Return the store at a URL or path; if it is empty, the store of the settings.

    seconds: limit for connecting and for each answer; a shorter limit also means fewer retries.

    Raises UsageError for a URL that is neither a folder nor in S3, or for incomplete credentials.
    """
    settings = settings or get_settings()
    location = url or settings.archives or str(settings.home.expanduser() / "archives")
    parts = urlsplit(location)
    if parts.scheme == "s3":
        keys = (settings.archives_access_key, settings.archives_secret_key)
        if any(keys) != all(keys):
            raise UsageError(
                "only one of SHUFFLEBOARD_ARCHIVES_ACCESS_KEY and SHUFFLEBOARD_ARCHIVES_SECRET_KEY is set; set both"
            )
        if not parts.netloc:
            raise UsageError(f"{location}: names no bucket; give s3://bucket/prefix")
        path = f"{parts.netloc}{parts.path}".rstrip("/")
        return Store(f"s3://{path}", _s3(*keys, settings.archives_endpoint, settings.archives_region, seconds), path)
    if parts.scheme in ("", "file"):
        folder = Path(unquote(parts.path) if parts.scheme else location).expanduser().resolve()
        return Store(folder.as_uri(), fs.LocalFileSystem(), str(folder))
    raise UsageError(f"{location}: neither a folder nor s3://bucket/prefix; correct the URL")


@lru_cache(maxsize=4)
def _s3(access_key: str, secret_key: str, endpoint: str, region: str, seconds: float) -> fs.FileSystem:
    server = urlsplit(endpoint)
    options: dict[str, Any] = {"connect_timeout": seconds, "request_timeout": seconds}
    if seconds < _SECONDS:
        options["retry_strategy"] = fs.AwsStandardS3RetryStrategy(max_attempts=2)
    if endpoint:
        # Many stores but Amazon's refuse a checksum after the content, which Amazon's library sends by default.
        # Archived files are read back and compared in any case.
        os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "WHEN_REQUIRED")
        options |= {"endpoint_override": server.netloc, "scheme": server.scheme}
    if access_key:
        options |= {"access_key": access_key, "secret_key": secret_key}
    if region:
        options["region"] = region
    return cast("fs.FileSystem", fs.S3FileSystem(**options))
