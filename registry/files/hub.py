"""Downloads of a dataset's or a model's files from the hub into its client's cache: resumed, checked, never run."""

import errno
import hashlib
import logging
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from registry.errors import IngestError, ModelError, ShuffleboardError
from registry.files.attended import DOCUMENT, PASSING, HubError, RefusedError, attend, say
from registry.files.remembered import remember_sha256
from registry.files.storage import explain
from registry.process_log import log

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

ATTEMPTS: Final = 3
"""Attempts before a hub that is busy or breaks off is given up."""
LONG_WAIT: Final = 5.0
"""Shortest wait that is reported, in seconds."""
LONGEST_WAIT: Final = 60.0
"""Longest wait that a hub may request, in seconds."""
SPARE: Final = 64 << 20
"""Bytes that must stay free on the disk after a download."""
LOGGED_FROM: Final = 64 << 20
"""Smallest download whose progress is logged, in bytes."""
_COMMIT: Final = re.compile("[0-9a-f]{40}")

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """A dataset or a model on the hub, at a branch, a tag or a commit; None is the main branch."""

    kind: Literal["dataset", "model"]
    repository: str
    revision: str | None = None

    @property
    def named(self) -> str:
        """Return the source's name in messages."""
        return f"{self.repository}@{self.revision or 'main'}"

    @property
    def page(self) -> str:
        """Return the source's page on the hub, where its terms can be accepted."""
        from huggingface_hub import constants

        folder = "datasets/" if self.kind == "dataset" else ""
        return f"{constants.ENDPOINT}/{folder}{self.repository}"

    def error(self, problem: str, file: str = "") -> ShuffleboardError:
        """Return an error about the source or a file of it."""
        kind = IngestError if self.kind == "dataset" else ModelError
        return kind(f"{self.named}{file and ' ' + file}: {problem}")


@dataclass(frozen=True)
class Snapshot:
    """The files of one commit.

    files: (path in the repository, path on this machine), sorted. created: day on which the repository was created;
    None if it is not known.
    """

    commit: str
    files: tuple[tuple[str, Path], ...]
    created: str | None = None

    def matching(self, pattern: str) -> list[tuple[Path, str, str]]:
        """Return (path on this machine, text matched by the first `*`, path in the repository) of files that match."""
        candidates = [(path, _matches(pattern, name), name) for name, path in self.files]
        return [
            (path, match[1] if match.groups() else "", name) for path, match, name in candidates if match is not None
        ]


def download(source: Source, patterns: Sequence[str], *, optional: bool = False) -> Snapshot:
    """Download the files that match the patterns, or take them from the cache.

    optional: whether a pattern may match nothing. Weights are downloaded last, so a folder with weights is complete.
    Raises IngestError or ModelError naming source, revision and remedy if the hub refuses, does not answer, has no such
    file, answers with another commit, or serves a file that does not match the hub's digest; StorageError if the disk
    is full.
    """
    # Importing it takes half a second, and most commands do not need it.
    from huggingface_hub import HfApi
    from huggingface_hub.errors import OfflineModeIsEnabled

    def ask() -> Any:
        return HfApi().repo_info(
            source.repository, revision=source.revision, repo_type=source.kind, files_metadata=True
        )

    try:
        info = _ask_hub(source, ask)
    except OfflineModeIsEnabled:
        return _take_cached(source, patterns)
    available = [item.rfilename for item in info.siblings or []]
    if not optional:
        _require_matches(source.error, patterns, available)
    selected = [item for item in info.siblings or [] if any(_matches(pattern, item.rfilename) for pattern in patterns)]
    commit = info.sha or source.revision or "main"
    if source.revision is not None and _COMMIT.fullmatch(source.revision) and commit != source.revision:
        raise source.error(
            f"the hub answered with commit {commit}, whose content may be another; check HF_ENDPOINT, or take it as it "
            f"is with --revision {commit}"
        )
    selected.sort(key=lambda item: (item.rfilename.endswith(".safetensors"), item.rfilename))
    lacking = sum(item.size or 0 for item in selected if not _is_cached(source, item.rfilename, commit))
    _require_space(source, lacking)
    files = []
    done = 0
    for item in selected:
        new = not _is_cached(source, item.rfilename, commit)
        files.append((item.rfilename, _download_file(source, item, commit)))
        if new and lacking >= LOGGED_FROM:
            done += item.size or 0
            log.info("downloaded", source=source.named, file=item.rfilename, bytes=done, of_bytes=lacking)
    created = f"{info.created_at:%Y-%m-%d}" if info.created_at is not None else None
    return Snapshot(commit, tuple(sorted(files)), created)


def _download_file(source: Source, item: "RepoSibling", commit: str) -> Path:
    """Return one file of a commit; a cached file that does not match the hub's digest is downloaded again."""
    from huggingface_hub import hf_hub_download

    get = partial(hf_hub_download, source.repository, item.rfilename, repo_type=source.kind, revision=commit)
    for _ in range(2):
        # Several times the file's size: the client starts again if a connection breaks and the hub cannot resume.
        most = sys.maxsize if item.size is None else 4 * item.size + (1 << 20)
        path = Path(_ask_hub(source, get, item.rfilename, most))
        problem = _describe_difference(item, path)
        if problem is None:
            return path
        path.resolve().unlink(missing_ok=True)  # the cache may contain the damaged file: remove the link and its target
        path.unlink(missing_ok=True)
    raise source.error(
        f"what was downloaded {problem}; try again later, or check HF_ENDPOINT if the hub is a mirror", item.rfilename
    )


def _describe_difference(item: "RepoSibling", path: Path) -> str | None:
    """Describe how a downloaded file differs from the hub's list: in length or digest; None if it does not."""
    size = path.stat().st_size
    if item.size is not None and size != item.size:
        return f"has {size} bytes, and the hub lists {item.size}"
    if item.lfs is not None:
        same = remember_sha256(path) == item.lfs.sha256
    elif _COMMIT.fullmatch(item.blob_id or "") is not None:
        same = _git_digest(path) == item.blob_id
    else:
        same = True
    return None if same else "has not the digest that the hub states"


def _git_digest(path: Path) -> str:
    """Return Git's digest of a file's content, which the hub states for small files."""
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as stream:
        while part := stream.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def _is_cached(source: Source, file: str, commit: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(source.repository, file, None, commit, source.kind), str)


def cached_folder(source: Source) -> Path | None:
    """Return the folder of the source in the hub client's cache, which may lack files; None if it is not cached."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(
            snapshot_download(source.repository, repo_type=source.kind, revision=source.revision, local_files_only=True)
        )
    except (LocalEntryNotFoundError, HFValidationError):
        return None


def _take_cached(source: Source, patterns: Sequence[str]) -> Snapshot:
    folder = cached_folder(source)
    if folder is None:
        elsewhere = ", or fetch elsewhere with --to FOLDER and here with --from FOLDER"
        raise source.error(
            "is not in the cache, and HF_HUB_OFFLINE forbids asking the hub; unset it"
            + (elsewhere if source.kind == "dataset" else ", or copy the cache (HF_HOME) of a machine that has it")
        )
    return snapshot_folder(source.error, folder, folder.name, patterns, optional=source.kind == "model")


def snapshot_folder(
    error: Callable[[str], ShuffleboardError],
    folder: Path,
    commit: str,
    patterns: Sequence[str],
    *,
    optional: bool = False,
) -> Snapshot:
    """Return the files of a folder that match the patterns. error: creates an error from a problem."""
    available = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    if not optional:
        _require_matches(error, patterns, available)
    selected = [name for name in available if any(_matches(pattern, name) for pattern in patterns)]
    return Snapshot(commit, tuple((name, folder / name) for name in selected))


def _matches(pattern: str, name: str) -> re.Match[str] | None:
    """Match a path with a pattern, in which `*` matches any text without a slash."""
    expression = "([^/]*)".join(re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(expression, name)


def _require_matches(
    error: Callable[[str], ShuffleboardError], patterns: Iterable[str], available: Sequence[str]
) -> None:
    for pattern in patterns:
        if not any(_matches(pattern, name) for name in available):
            data = [name for name in available if not name.startswith(".") and name != "README.md"]
            listed = ", ".join(data[:8]) + (", …" if len(data) > 8 else "")
            raise error(
                f"has no file {pattern!r}; it has {listed or 'none'}: name another --revision, or write a recipe of "
                "your own"
            )


def _require_space(source: Source, size: int) -> None:
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE)
    place = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if size and size + SPARE > free:
        raise source.error(
            f"{size >> 20} MiB do not fit on the disk of {cache}, which has {free >> 20} MiB free; make room, or name "
            "another folder with HF_HOME"
        )


def _ask_hub(source: Source, ask: Callable[[], T], file: str = "", most: int = DOCUMENT) -> T:
    """Return the hub's answer, repeating requests while the hub is busy or the connection breaks.

    It always ends, and reports the reason for waiting.
    """
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    # The client would log each of its own attempts; they are reported here instead.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return attend(f"{source.named}{file and ' ' + file}", ask, most)
        except OfflineModeIsEnabled:
            raise
        except HFValidationError:
            raise source.error(f"is not the name of a {source.kind} on the hub; give owner/name") from None
        except (KeyError, TypeError, AttributeError, JSONDecodeError) as error:
            raise source.error(
                f"the answer is not that of a hub ({type(error).__name__}: {error}); check that HF_ENDPOINT names one",
                file,
            ) from None
        except httpx2.TooManyRedirects:
            raise source.error("the hub redirects without end; check HF_ENDPOINT and the proxy", file) from None
        except (HubError, HfHubHTTPError, httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            if isinstance(error, HubError) and not isinstance(error, RefusedError):
                raise source.error(f"{error}; {_TO_CHECK}", file) from None
            if full := explain(error):
                raise full from None
            # The client reports many refusals only as a file that is missing in its cache, with the real error as the
            # cause.
            cause = error.__cause__ if isinstance(error.__cause__, HfHubHTTPError) else error
            status = (
                error.status
                if isinstance(error, RefusedError)
                else cause.response.status_code
                if isinstance(cause, HfHubHTTPError) and cause.response is not None
                else None
            )
            passing = status in PASSING or (status is None and not _is_disk_error(error))
            wait = _wait(cause, attempt)
            if not passing or attempt == ATTEMPTS or wait > LONGEST_WAIT:
                tries = f" (tried {attempt} times)" if attempt > 1 else ""
                raise source.error(_refusal(source, cause, status, wait, tries), file) from None
            if wait >= LONG_WAIT:
                why = f"the hub answered with status {status} and asks to wait"
                say(f"{source.named}{file and ' ' + file}: {why}; try {attempt + 1} of {ATTEMPTS} in {wait:.0f} s")
            time.sleep(wait)
    raise AssertionError


def _is_disk_error(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EROFS, errno.ENOENT, errno.ENOTDIR)


def _wait(error: BaseException, attempt: int) -> float:
    requested = error.wait if isinstance(error, RefusedError) else None
    return 0.5 * 2**attempt if requested is None else requested


_TO_CHECK: Final = "check the connection, the proxy and HF_ENDPOINT, then try again: it resumes"


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__


def _refusal(source: Source, error: BaseException, status: int | None, wait: float, tries: str) -> str:
    from huggingface_hub.errors import GatedRepoError, RemoteEntryNotFoundError, RevisionNotFoundError

    token = "HF_TOKEN, or HF_TOKEN_PATH to a file that holds the token"  # noqa: S105 - the names of variables
    if source.kind == "model":
        token += ", wherever models are registered and for every worker"
    if isinstance(error, GatedRepoError) or status == 403:
        return f"the hub gives it only to those who accepted its terms; accept them on {source.page} and set {token}"
    if isinstance(error, RevisionNotFoundError):
        return (
            f"the hub has no such revision{_suggest(source.revision or '', _revisions(source))}; name another with "
            "--revision, such as main"
        )
    if isinstance(error, RemoteEntryNotFoundError):
        return "the hub lists the file and does not have it; try again later, or name another --revision"
    if status in (401, 404):
        meant = _suggest(source.repository, _names(source))
        return (
            f"the hub has no such {source.kind}, or hides it{meant}; check the name, and for a private or gated one "
            f"accept its terms there and set {token}"
        )
    if status == 429:
        return f"the hub answers too many requests (status 429) and asks to wait {wait:.0f} s; try again then{tries}"
    if status is not None and status < 500:
        return f"the hub refuses it (status {status}); its page may say why: {source.page}"
    if status is not None:
        return f"the hub answered with status {status}; try again later{tries}"
    return (
        f"cannot be downloaded ({_reason(error)}); check the connection and HF_ENDPOINT, then try again: it "
        f"resumes{tries}"
    )


def _suggest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), 2)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _revisions(source: Source) -> list[str]:
    """Return branches and tags, if the hub lists them."""
    from huggingface_hub import HfApi

    with suppress(Exception):  # a remark in an error message: whatever goes wrong, it is left out
        refs = attend(source.named, lambda: HfApi().list_repo_refs(source.repository, repo_type=source.kind))
        return [ref.name for ref in (*refs.branches, *refs.tags)]
    return []


def _names(source: Source) -> list[str]:
    """Return the owner's repositories, if the hub lists them."""
    from huggingface_hub import HfApi

    owner, _, _ = source.repository.partition("/")
    with suppress(Exception):  # a remark in an error message: whatever goes wrong, it is left out
        if source.kind == "dataset":
            return attend(
                owner, lambda: [repository.id for repository in HfApi().list_datasets(author=owner, limit=1000)]
            )
        return attend(owner, lambda: [repository.id for repository in HfApi().list_models(author=owner, limit=1000)])
    return []
