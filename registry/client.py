"""A client of another registry's HTTP API, for analysts and scripts. It needs nothing but the standard library.

    >>> from registry.client import Client
    >>> board = Client("https://shuffleboard.example.org")
    >>> rows = board.leaderboard(benchmark="arc-challenge", variants="cyclic")  # doctest: +SKIP
    >>> [(row["rank"], row["model"], row["worst_accuracy"]) for row in rows]  # doctest: +SKIP

What it returns are plain documents, as the API answers them; their types are those of `registry.documents`.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from http.client import HTTPException
from typing import Any, Final, cast
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urljoin, urlsplit
from urllib.request import Request, urlopen

from typing_extensions import TypedDict, Unpack

from registry import __version__
from registry.documents import (
    BenchmarkVersion,
    Board,
    EvaluationDocument,
    EvaluationQuestion,
    LeaderboardRow,
    ListedBoard,
    ListedEvaluation,
    ListedModel,
    MetricValues,
    Prediction,
    Provenance,
)
from registry.errors import NotFoundError, RemoteError, UsageError

TIMEOUT_S: Final = 60.0
_METRICS: Final = tuple(MetricValues.__annotations__)


class Filters(TypedDict, total=False):
    """What the leaderboard and the list of evaluations can be narrowed by. Times are inclusive.

    q: a part of a model's name. subject: metrics are then over its questions alone.
    """

    benchmark: str
    subject: str
    protocol: str
    shots: int
    variants: str
    model: str
    q: str
    family: str
    kind: str
    min_parameters: int
    max_parameters: int
    sealed_from: str | datetime
    sealed_to: str | datetime


class Metrics(TypedDict):
    """An evaluation's metrics by name, None where undefined; `scored` of its `questions` have all their variants."""

    evaluation: int
    metrics: MetricValues
    questions: int
    scored: int
    complete: bool


class MetricsByQuestion(Metrics):
    """The same with those of each question, by its external id."""

    per_question: dict[str, MetricValues]


class Client:
    """The API of the registry at `base_url`, such as https://shuffleboard.example.org.

    token: sent as a bearer token, to this address alone. timeout_s: seconds without an answer until it is given up.
    Methods raise NotFoundError and UsageError with the registry's own words, and RemoteError where it does not answer
    or answers something else.
    """

    def __init__(self, base_url: str, token: str | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise UsageError(
                f"{base_url!r} is no address of a registry; give one such as https://host or http://host:8000"
            )
        self._base = base_url.rstrip("/")
        self._origin = f"{parts.scheme}://{parts.netloc}/"
        self._token = token
        self._timeout_s = timeout_s

    def leaderboard(
        self, *, sort: str | None = None, order: str | None = None, **filters: Unpack[Filters]
    ) -> list[LeaderboardRow]:
        """Every row of the leaderboard that the filters keep: by group, complete evaluations first, best on top.

        sort: a metric or another column; order: "asc" or "desc".
        """
        given = {"sort": sort, "order": order, **filters}
        return [row for page in self._pages("leaderboard", given) for row in page["rows"]]

    def evaluations(self, *, state: str | None = None, **filters: Unpack[Filters]) -> Iterator[ListedEvaluation]:
        """Evaluations with their progress, newest first, a page at a time."""
        for page in self._pages("evaluations", {"state": state, "per_page": 1000, **filters}):
            yield from page["items"]

    def evaluation(self, evaluation_id: int) -> EvaluationDocument:
        """One evaluation with progress, metrics by scope, and provenance."""
        return cast("EvaluationDocument", self._get(f"evaluations/{evaluation_id}"))

    def metrics(self, evaluation_id: int, *, per_question: bool = False) -> Metrics | MetricsByQuestion:
        """An evaluation's metrics; per_question: also those of each question, null for those that have none."""
        document = self._get(f"evaluations/{evaluation_id}")
        counts = self._get(f"evaluations/{evaluation_id}/questions", {"per_page": 1})["counts"]
        found: Metrics = {
            "evaluation": evaluation_id,
            "metrics": document["metrics"],
            "questions": counts["all"],
            "scored": counts["all"] - counts["unscored"],
            "complete": document["complete"],
        }
        if not per_question:
            return found
        by_question = {
            question["external_id"]: cast("MetricValues", {name: question.get(name) for name in _METRICS})
            for question in self.questions(evaluation_id)
        }
        return {**found, "per_question": by_question}

    def questions(self, evaluation_id: int) -> Iterator[EvaluationQuestion]:
        """An evaluation's questions in the benchmark's order, a page at a time."""
        for page in self._pages(f"evaluations/{evaluation_id}/questions", {"per_page": 1000}):
            yield from page["items"]

    def predictions(self, evaluation_id: int, *, per_page: int = 1000) -> Iterator[Prediction]:
        """Every stored prediction of an evaluation by question and variant, fetched so many at a time."""
        for page in self._pages(f"evaluations/{evaluation_id}/predictions", {"limit": per_page}):
            yield from page["items"]

    def provenance(self, evaluation_id: int) -> Provenance:
        """Where an evaluation's numbers come from."""
        return cast("Provenance", self._get(f"evaluations/{evaluation_id}/provenance"))

    def boards(self) -> list[ListedBoard]:
        """Every public board."""
        return cast("list[ListedBoard]", self._get("boards")["items"])

    def board(self, name: str, as_of: str | datetime | None = None) -> Board:
        """A board as it stands, or as it stood at a date (its end) or time; UTC where no zone is given."""
        return cast("Board", self._get(f"boards/{quote(name, safe='')}", {"as_of": as_of}))

    def models(self) -> list[ListedModel]:
        """Every model."""
        return cast("list[ListedModel]", self._get("models")["items"])

    def benchmarks(self) -> list[BenchmarkVersion]:
        """Every public benchmark version."""
        return cast("list[BenchmarkVersion]", self._get("benchmarks")["items"])

    def _pages(self, path: str, given: dict[str, Any]) -> Iterator[Any]:
        page = self._get(path, given)
        yield page
        while page["next"] is not None:
            page = self._open(urljoin(self._origin, page["next"]))
            yield page

    def _get(self, path: str, given: dict[str, Any] | None = None) -> Any:
        kept = {key: value for key, value in (given or {}).items() if value is not None}
        query = urlencode(
            {key: value.isoformat() if isinstance(value, datetime) else value for key, value in kept.items()}
        )
        return self._open(f"{self._base}/api/v1/{path}{'?' if query else ''}{query}")

    def _open(self, address: str) -> Any:
        if not address.startswith(self._origin):
            raise RemoteError(f"{self._base} leads on to another server ({address[:100]}); it is not followed")
        request = Request(  # noqa: S310 - the scheme has been checked
            address, headers={"Accept": "application/json", "User-Agent": f"shuffleboard/{__version__}"}
        )
        if self._token is not None:
            # A redirection elsewhere must not carry it along.
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with urlopen(request, timeout=self._timeout_s) as response:  # noqa: S310
                return _document(address, response.read())
        except HTTPError as error:
            with error:
                raise _problem(address, error.code, error.read()) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise RemoteError(f"{self._base} does not answer ({reason}); check the address and try again") from None


def _document(address: str, body: bytes) -> Any:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise RemoteError(f"{address} does not answer with JSON; is a registry there?")
    return found


def _problem(address: str, status: int, body: bytes) -> Exception:
    """The error that a problem document stands for."""
    try:
        detail = str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return RemoteError(f"{address} answers {status} without saying why; is a registry there?")
    kinds = {400: UsageError, 404: NotFoundError}
    return kinds.get(status, RemoteError)(detail)
