"""A client of a registry's HTTP API, for analysts and scripts. It needs httpx2 and nothing of the server.

    >>> from shuffleboard import Client
    >>> board = Client("https://shuffleboard.example.org")
    >>> rows = board.leaderboard(benchmark="arc-challenge", variants="cyclic")  # doctest: +SKIP
    >>> [(row["rank"], row["model"], row["worst_accuracy"]) for row in rows]  # doctest: +SKIP

Calls that change something need the token of an account that may make them: `Client(address, token=…)`.

Methods return plain documents, as the API does; `/api` on a website shows their keys. Lists of rows and metrics have
`.frame()`, which returns a pandas data frame.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final, Literal, TypedDict, Unpack
from urllib.parse import quote, urljoin, urlsplit

import httpx2

from registry import __version__
from registry.errors import (
    AuthenticationError,
    ContradictionError,
    ForbiddenError,
    IngestError,
    NotFoundError,
    QueueError,
    RemoteError,
    ShuffleboardError,
    UsageError,
)
from registry.files.absent import no_such_file, refuse_pipe
from registry.files.toml import read_toml
from registry.untrusted import decode_answer
from shuffleboard.frames import Document, LazyRows, Metrics, Rows

TIMEOUT_S: Final = 60.0
_TYPES: Final = {
    ".jsonl": "application/x-ndjson",
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
    ".json": "application/json",
    ".eval": "application/zip",
}
"""File extension → the content type of an upload."""
_KEEPALIVE_S: Final = 1.0
"""Seconds for which an idle connection is kept: less than the server's two seconds."""


Queue = Literal["cpu", "gpu", "gpu-16", "gpu-24", "gpu-40", "gpu-80", "gpu-140"]


class Filters(TypedDict, total=False):
    """Filters of the leaderboard and of the list of evaluations. Times are inclusive.

    q: part of a model's name. subject: compute metrics over the questions of this subject only.
    """

    benchmark: str
    subject: str
    protocol: str
    shots: int
    variants: str
    model: str
    q: str
    family: str
    licence: str
    kind: str
    min_parameters: int
    max_parameters: int
    openness: Literal["open", "closed"]
    released_from: str | datetime
    released_to: str | datetime
    sealed_from: str | datetime
    sealed_to: str | datetime
    asked: Literal["one-order", "repeats", "several-orders"]


class Asked(TypedDict, total=False):
    """An evaluation request: `benchmark` and `variants` with their filters, or a suite, or a board.

    benchmarks: replace a suite's *. subjects, limit, options: filters of the benchmark's questions. sample: number of
    questions to draw from these by `seed` (default 0). budget: the most that a provider may charge for each evaluation.
    """

    benchmark: str
    variants: str
    suite: str
    board: str
    benchmarks: Sequence[str]
    protocol: str
    shots: int
    max_tokens: int
    limit: int
    subjects: Sequence[str]
    options: int
    sample: int
    seed: int
    priority: int
    max_workers: int
    budget: float | None
    queue: Queue
    replicate: bool
    conflict_of_interest: str


class ModelToSubmit(TypedDict, total=False):
    """A model to submit: `hub`, its OWNER/NAME on the hub, or `endpoint`, an endpoint's name, with `revision`.

    revision: a branch, tag or commit on the hub, or the model's name on the endpoint. conflict_of_interest: your tie to
    the model's maker, or "none".
    """

    hub: str
    endpoint: str
    revision: str
    dtype: Literal["float32", "bfloat16", "float16"]
    name: str
    note: str
    conflict_of_interest: str
    anonymous: bool


class ModelFacts(TypedDict, total=False):
    """The description of a model revision. location: a name on the hub, or the URL of an endpoint; never a path.

    adapter: a LoRA adapter on the hub; merged: whether it is added to the model's weights.
    """

    location: str
    revision: str
    key: str
    dtype: str
    quantisation: str
    adapter: str
    merged: bool
    family: str
    developer: str
    parameters: int
    licence: str
    released: str
    url: str


class BenchmarkFacts(TypedDict, total=False):
    """The description of a benchmark's file."""

    version: str
    split: str
    language: str
    licence: str
    source: str
    shuffle_options: int
    visibility: Literal["public", "members", "hidden"]


class OutputFacts(TypedDict, total=False):
    """The description of recorded outputs."""

    protocol: str
    shots: int
    select: str
    column: str
    stated: Literal["check", "ignore"]


class Client:
    """A client of the registry's API at `base_url`, such as https://shuffleboard.example.org.

    token: sent as a bearer token, to this address only. timeout_s: seconds to wait for an answer. Methods raise the
    registry's own errors with its own messages: NotFoundError, UsageError, AuthenticationError and ForbiddenError,
    QueueError for something in the wrong state, IngestError for an invalid file; and RemoteError if the registry does
    not answer, or the address is not a registry's.
    """

    def __init__(self, base_url: str, token: str | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise UsageError(
                f"{base_url!r} is not a valid registry URL; give one such as https://host or http://host:8000"
            )
        self._base = base_url.rstrip("/")
        self._origin = f"{parts.scheme}://{parts.netloc}/"
        # A redirection to another host must not receive the token.
        self._http = httpx2.Client(
            headers={"Accept": "application/json", "User-Agent": f"shuffleboard/{__version__}"}
            | ({} if token is None else {"Authorization": f"Bearer {token}"}),
            timeout=timeout_s,
            limits=httpx2.Limits(keepalive_expiry=_KEEPALIVE_S),
            follow_redirects=True,
        )
        weakref.finalize(self, self._http.close)

    def leaderboard(
        self,
        *,
        sort: str | None = None,
        order: str | None = None,
        above_chance: bool = False,
        **filters: Unpack[Filters],
    ) -> Rows:
        """Return every row of the leaderboard that matches the filters: by group, complete rows first, best on top.

        sort: a metric or another column; order: "asc" or "desc". above_chance: rows also have accuracy on the scale
        from 0 for guessing to 1 for perfect.
        """
        query = {"sort": sort, "order": order, "above_chance": "yes" if above_chance else None, **filters}
        return Rows(row for page in self._pages("leaderboard", query) for row in page["rows"])

    def evaluations(self, *, state: str | None = None, **filters: Unpack[Filters]) -> LazyRows:
        """Return evaluations with their progress, newest first, a page at a time."""
        return self._list("evaluations", {"state": state, "per_page": 1000, **filters})

    def evaluation(self, evaluation_id: int, *, noise_from: int | None = None) -> Document:
        """Return one evaluation with progress, metrics by scope, repeat noise and provenance.

        noise_from: the evaluation whose repeats measure its noise; found automatically by default.
        """
        return self._get(f"evaluations/{evaluation_id}", {"noise_from": noise_from})

    def metrics(
        self,
        evaluation_id: int,
        *,
        per_question: bool = False,
        noise_from: int | None = None,
    ) -> Metrics:
        """Return an evaluation's metrics and repeat noise.

        per_question: include each question's metrics, null if undefined. noise_from: as for `evaluation`.
        """
        query = {"per_question": "yes" if per_question else None, "noise_from": noise_from}
        return Metrics(self._get(f"evaluations/{evaluation_id}/metrics", query))

    def questions(self, evaluation_id: int) -> LazyRows:
        """Return an evaluation's questions in the benchmark's order, a page at a time."""
        return self._list(f"evaluations/{evaluation_id}/questions", {"per_page": 1000})

    def predictions(self, evaluation_id: int, *, per_page: int = 1000) -> LazyRows:
        """Return every stored prediction of an evaluation by question and variant, fetched in pages of this size."""
        return self._list(f"evaluations/{evaluation_id}/predictions", {"limit": per_page})

    def provenance(self, evaluation_id: int) -> Document:
        """Return the origin of an evaluation's numbers."""
        return self._get(f"evaluations/{evaluation_id}/provenance")

    def compare(self, a: int, b: int) -> Document:
        """Compare two evaluations of one benchmark question by question: every metric of `a` minus that of `b`.

        The document's `relation` is "same revision" or "another revision" of one model, or "another model".
        """
        return self._get("compare", {"a": a, "b": b})

    def verify(self, evaluation_id: int) -> Document:
        """Verify a sealed evaluation: recompute its stored values from its answers; needs the scope `maintain`."""
        return self._get(f"evaluations/{evaluation_id}/verification")

    def boards(self) -> Rows:
        """Return every visible board."""
        return self._items("boards")

    def board(self, name: str, as_of: str | datetime | None = None) -> Document:
        """Return a board as it is now, or at a date (its end) or time, UTC if it has no zone."""
        return self._get(f"boards/{quote(name, safe='')}", {"as_of": as_of})

    def models(self) -> Rows:
        """Return every model."""
        return self._items("models")

    def benchmarks(self) -> Rows:
        """Return every visible benchmark version."""
        return self._items("benchmarks")

    # Submissions

    def submissions(self, *, state: str | None = None, mine: bool = False) -> LazyRows:
        """Return submissions, undecided ones first: your own, or everyone's for maintainers."""
        return self._list("submissions", {"state": state, "mine": "yes" if mine else None, "per_page": 1000})

    def submission(self, submission_id: int) -> Document:
        """Return one submission: the request, the decision, and the resulting evaluations."""
        return self._get(f"submissions/{submission_id}")

    def submit_model(self, suite: str, **model: Unpack[ModelToSubmit]) -> Document:
        """Request that a model be evaluated on a suite; a maintainer decides."""
        return self._send("POST", "submissions", {"suite": suite, **model})

    def estimate_submission(self, submission_id: int) -> Document:
        """Estimate the cost of a submission, for its submitter and for maintainers."""
        return self._get(f"submissions/{submission_id}/estimate")

    def approve_submission(
        self,
        submission_id: int,
        *,
        reason: str | None = None,
        queue: Queue = "cpu",
        priority: int = 0,
        budget: float | None = None,
    ) -> Document:
        """Approve a submission: register its model and queue the suite's missing evaluations.

        budget: the most that providers may charge.
        """
        body = {"reason": reason, "queue": queue, "priority": priority, "budget": budget}
        return self._send("POST", f"submissions/{submission_id}/approve", body)

    def reject_submission(self, submission_id: int, reason: str) -> Document:
        """Reject a submission, with the reason that its submitter reads."""
        return self._send("POST", f"submissions/{submission_id}/reject", {"reason": reason})

    def withdraw_submission(self, submission_id: int) -> Document:
        """Withdraw your own submission while it awaits a decision."""
        return self._send("POST", f"submissions/{submission_id}/withdraw")

    # For maintainers

    def add_model(
        self, name: str, kind: Literal["huggingface", "openai", "external"], **facts: Unpack[ModelFacts]
    ) -> Document:
        """Register a model revision. The document's `added` states whether it is new."""
        return self._send("POST", "models", {"name": name, "kind": kind, **facts})

    def import_benchmark(self, path: Path | str, name: str, **facts: Unpack[BenchmarkFacts]) -> Document:
        """Import a benchmark from a table, .jsonl or .parquet file.

        The document's `imported` states whether it is new.
        """
        return self._upload("benchmarks", Path(path), {"name": name, **facts})

    def set_visibility(
        self,
        benchmark: str,
        visibility: Literal["public", "members", "hidden"],
        version: str | None = None,
        *,
        public_from: str | datetime | None = None,
    ) -> Document:
        """Change who may see a benchmark: all of its versions, or one version.

        public_from: a later date or time from which everyone may see it, UTC if it has no zone.
        """
        moment = public_from.isoformat() if isinstance(public_from, datetime) else public_from
        body = {"visibility": visibility, "version": version, "public_from": moment}
        return self._send("PATCH", f"benchmarks/{quote(benchmark, safe='')}", body)

    def submit_evaluations(self, model: str, **asked: Unpack[Asked]) -> Document:
        """Queue the missing evaluations of a request."""
        return self._send("POST", "evaluations", {"model": model, **asked})

    def estimate_evaluations(self, model: str, *, precision: float | None = None, **asked: Unpack[Asked]) -> Document:
        """Return the estimated cost of a request; nothing is queued.

        precision: choose the sample whose 95 % intervals reach at most this far to either side.
        """
        wanted = {"model": model, **asked} | ({} if precision is None else {"precision": precision})
        return self._send("POST", "evaluations/estimate", wanted)

    def move_evaluation(self, evaluation_id: int, action: Literal["pause", "resume", "cancel", "retry"]) -> Document:
        """Pause, resume, cancel or retry an evaluation."""
        return self._send("POST", f"evaluations/{evaluation_id}/{action}")

    def import_outputs(
        self, path: Path | str, model: str, benchmark: str, variants: str, **facts: Unpack[OutputFacts]
    ) -> Document:
        """Import recorded outputs from a file. Importing them again creates a new replicate."""
        fields = {"model": model, "benchmark": benchmark, "variants": variants, **facts}
        return self._upload("evaluations/import", Path(path), fields)

    def replay_evaluation(
        self, evaluation_id: int, *, benchmark: str | None = None, protocol: str | None = None
    ) -> Document:
        """Create a new evaluation from stored answers: `evaluation` with its `source`. No model is called.

        benchmark: NAME@VERSION whose keys are used. protocol: the protocol whose rules read the stored texts.
        """
        return self._send("POST", f"evaluations/{evaluation_id}/replay", {"benchmark": benchmark, "protocol": protocol})

    def import_suite(self, definition: Mapping[str, Any] | Path) -> Document:
        """Load a suite from its definition or its TOML file."""
        return self._send("POST", "suites", _definition(definition))

    def import_board(self, definition: Mapping[str, Any] | Path) -> Document:
        """Load a board from its definition or its TOML file."""
        return self._send("POST", "boards", _definition(definition))

    def _pages(self, path: str, given: dict[str, Any]) -> Iterator[Any]:
        page = self._get(path, given)
        yield page
        while page["next"] is not None:
            page = self._open(urljoin(self._origin, page["next"]))
            yield page

    def _get(self, path: str, given: Mapping[str, Any] | None = None) -> Document:
        return self._open(self._address(path, given))

    def _items(self, path: str) -> Rows:
        return Rows(self._get(path)["items"])

    def _list(self, path: str, given: dict[str, Any]) -> LazyRows:
        return LazyRows(row for page in self._pages(path, given) for row in page["items"])

    def _address(self, path: str, given: Mapping[str, Any] | None = None) -> str:
        kept = {key: value for key, value in (given or {}).items() if value is not None}
        query = httpx2.QueryParams(
            {key: value.isoformat() if isinstance(value, datetime) else value for key, value in kept.items()}
        )
        return f"{self._base}/api/v1/{path}{'?' if query else ''}{query}"

    def _send(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> Document:
        """Send a request with a JSON document, leaving out keys that are None."""
        kept = None if document is None else {key: value for key, value in document.items() if value is not None}
        return self._ask(method, self._address(path), document=kept)

    def _upload(self, path: str, file: Path, given: Mapping[str, Any]) -> Document:
        kind = _TYPES.get(file.suffix.lower())
        if kind is None:
            raise UsageError(f"{file.name}: unknown kind of file; use {', '.join(_TYPES)}")
        refuse_pipe(file)
        try:
            with file.open("rb") as stream:
                return self._ask("POST", self._address(path, given), file=stream, kind=kind)
        except FileNotFoundError:
            raise no_such_file(file) from None

    def _open(self, address: str) -> Document:
        return self._ask("GET", address)

    def _ask(
        self,
        method: str,
        address: str,
        *,
        document: Mapping[str, Any] | None = None,
        file: IO[bytes] | None = None,
        kind: str | None = None,
    ) -> Document:
        if not address.startswith(self._origin):
            raise RemoteError(f"{self._base} redirects to another server ({address[:100]}); redirects are not followed")
        headers = {} if kind is None else {"Content-Type": kind}
        try:
            response = self._http.request(method, address, json=document, content=file, headers=headers)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise RemoteError(f"{self._base} does not answer ({reason}); check the address and try again") from None
        if response.status_code == httpx2.codes.NO_CONTENT:
            return {}
        if response.is_error:
            raise _problem(response, is_file=file is not None)
        return _document(response)


def _document(response: httpx2.Response) -> Document:
    try:
        document = decode_answer(response.content, sys.maxsize)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise RemoteError(f"{response.url} does not answer with JSON; is a registry there?")
    return document


def _definition(definition: Mapping[str, Any] | Path) -> Mapping[str, Any]:
    """Return a definition, reading it from a file if it is a path."""
    if not isinstance(definition, Path):
        return definition
    return read_toml(definition)


def _problem(response: httpx2.Response, *, is_file: bool) -> Exception:
    """Return the error in a problem document."""
    try:
        document = decode_answer(response.content)
        detail = str(document["detail"])
    except (ValueError, KeyError, TypeError):
        status = response.status_code
        return RemoteError(f"{response.url} answers {status} without a reason; check that it is a registry")
    if "contradictions" in document or "keys" in document:
        return ContradictionError(detail, document)
    kinds: dict[int, type[ShuffleboardError]] = {
        400: UsageError,
        401: AuthenticationError,
        403: ForbiddenError,
        404: NotFoundError,
        409: QueueError,
        413: IngestError,
        422: IngestError if is_file else UsageError,
    }
    return kinds.get(response.status_code, RemoteError)(detail)
