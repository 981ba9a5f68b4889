"""Files of a dataset on the hub, downloaded into the hub client's own cache: resumed, checked, and never run."""

import re
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from registry.digests import sha256_file
from registry.errors import IngestError

ATTEMPTS: Final = 5
LONGEST_WAIT: Final = 120.0
"""Seconds that a hub may ask to wait; one that asks for more is not waited for."""
SPARE: Final = 64 << 20
"""Bytes that stay free on the disk beside what is downloaded."""

T = TypeVar("T")


@dataclass(frozen=True)
class Snapshot:
    """Files of one commit. files: path inside the dataset and on this machine, in the order of the former."""

    commit: str
    files: tuple[tuple[str, Path], ...]

    def matching(self, pattern: str) -> list[tuple[Path, str]]:
        """The files of a pattern, each with what its first `*` stands for."""
        found = [(path, _matches(pattern, name)) for name, path in self.files]
        return [(path, match[1] if match.groups() else "") for path, match in found if match is not None]


def download(repository: str, revision: str | None, patterns: Sequence[str]) -> Snapshot:
    """Downloads the files that match the patterns, or takes them from the cache.

    Raises IngestError naming dataset, revision and remedy where the hub refuses, does not answer, has no such file, or
    serves one whose digest is not the hub's own.
    """
    # It takes half a second to load, and most commands do without.
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import OfflineModeIsEnabled

    named = f"{repository}@{revision or 'main'}"
    try:
        info = _answered(named, lambda: HfApi().dataset_info(repository, revision=revision, files_metadata=True))
    except OfflineModeIsEnabled:
        return _cached(named, repository, revision, patterns)
    siblings = [item for item in info.siblings or [] if any(_matches(pattern, item.rfilename) for pattern in patterns)]
    _every_pattern_matches(named, patterns, [item.rfilename for item in info.siblings or []])
    _fits_on_disk(named, sum(item.size or 0 for item in siblings))
    commit = info.sha or revision or "main"
    files = []
    for item in sorted(siblings, key=lambda item: item.rfilename):
        get = partial(hf_hub_download, repository, item.rfilename, repo_type="dataset", revision=commit)
        path = Path(_answered(f"{named} {item.rfilename}", get))
        if item.lfs is not None and sha256_file(path) != item.lfs.sha256:
            _forget(path)  # the cache may hold what was there before
            path = Path(_answered(f"{named} {item.rfilename}", get))
            if sha256_file(path) != item.lfs.sha256:
                _forget(path)
                raise IngestError(
                    f"{named} {item.rfilename}: what was downloaded has not the digest that the hub states; try again"
                )
        files.append((item.rfilename, path))
    return Snapshot(commit, tuple(files))


def _forget(path: Path) -> None:
    """Removes a file from the hub client's cache: the link and what it leads to."""
    path.resolve().unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _cached(named: str, repository: str, revision: str | None, patterns: Sequence[str]) -> Snapshot:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(
            snapshot_download(
                repository, repo_type="dataset", revision=revision, local_files_only=True, allow_patterns=list(patterns)
            )
        )
    except LocalEntryNotFoundError:
        raise IngestError(
            f"{named}: is not in the cache, and HF_HUB_OFFLINE forbids asking the hub; unset it, or fetch elsewhere "
            "with --to FOLDER and here with --from FOLDER"
        ) from None
    return of_folder(named, folder, folder.name, patterns)


def of_folder(named: str, folder: Path, commit: str, patterns: Sequence[str]) -> Snapshot:
    """The files of a folder that match the patterns."""
    there = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    _every_pattern_matches(named, patterns, there)
    wanted = [name for name in there if any(_matches(pattern, name) for pattern in patterns)]
    return Snapshot(commit, tuple((name, folder / name) for name in wanted))


def _matches(pattern: str, name: str) -> re.Match[str] | None:
    """`*` stands for any part of one name."""
    expression = "([^/]*)".join(re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(expression, name)


def _every_pattern_matches(named: str, patterns: Iterable[str], there: Sequence[str]) -> None:
    for pattern in patterns:
        if not any(_matches(pattern, name) for name in there):
            data = [name for name in there if not name.startswith(".") and name != "README.md"]
            listed = ", ".join(data[:8]) + (", …" if len(data) > 8 else "")
            raise IngestError(
                f"{named}: has no file {pattern!r}; it has {listed or 'none'}: name another --revision, or write "
                "a recipe of your own"
            )


def _fits_on_disk(named: str, size: int) -> None:
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE)
    place = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if size + SPARE > free:
        raise IngestError(
            f"{named}: {size >> 20} MiB do not fit on the disk of {cache}, which has {free >> 20} MiB free; make room, "
            "or name another folder with HF_HOME"
        )


def _answered(named: str, ask: Callable[[], T]) -> T:
    """The hub's answer; asked again where it is busy or the connection breaks, as long as it asks to wait."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    for attempt in range(1, ATTEMPTS + 1):
        try:
            return ask()
        except OfflineModeIsEnabled:
            raise
        except HFValidationError:
            raise IngestError(f"{named}: is not the name of a dataset on the hub; give owner/name") from None
        except (HfHubHTTPError, OSError, ValueError) as error:
            # The client says of many a refusal only that the file is not in its cache, and chains the reason.
            cause = error.__cause__ if isinstance(error.__cause__, HfHubHTTPError) else error
            status = (
                cause.response.status_code if isinstance(cause, HfHubHTTPError) and cause.response is not None else None
            )
            passing = status in (408, 429, 500, 502, 503, 504) or (status is None and not _of_disk(error))
            wait = _wait(cause, attempt)
            if not passing or attempt == ATTEMPTS or wait > LONGEST_WAIT:
                raise IngestError(_refusal(named, cause, status, wait)) from None
            time.sleep(wait)
    raise AssertionError


def _of_disk(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno is not None and error.filename is not None


def _wait(error: BaseException, attempt: int) -> float:
    response = getattr(error, "response", None)
    asked = response.headers.get("Retry-After", "") if response is not None else ""
    return float(asked) if asked.isdigit() else 0.5 * 2**attempt


def _refusal(named: str, error: BaseException, status: int | None, wait: float) -> str:
    from huggingface_hub.errors import GatedRepoError, RemoteEntryNotFoundError, RevisionNotFoundError

    if isinstance(error, GatedRepoError) or status == 403:
        return (
            f"{named}: the hub gives it only to those who accepted its terms; accept them there and set HF_TOKEN, "
            "or HF_TOKEN_PATH to a file that holds the token"
        )
    if isinstance(error, RevisionNotFoundError):
        return f"{named}: the hub has no such revision; name another with --revision, such as main"
    if isinstance(error, RemoteEntryNotFoundError):
        return f"{named}: the hub lists the file and does not have it; try again later, or name another --revision"
    if status in (401, 404):
        return f"{named}: the hub has no such dataset, or hides it; check the name, and for a private one set HF_TOKEN"
    if status == 429:
        return f"{named}: the hub answers too many requests (status 429) and asks to wait {wait:.0f} s; try again then"
    reason = " ".join(str(error).split())[:160]
    if status is not None:
        return f"{named}: the hub answered with status {status}; try again later"
    return f"{named}: cannot be downloaded ({reason}); check the connection and HF_ENDPOINT, then try again: it resumes"
