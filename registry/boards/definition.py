"""Definitions of suites and boards: TOML files that are checked completely before anything is stored."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from registry.db import MAX_INTEGER
from registry.errors import IngestError, ShuffleboardError, UsageError
from registry.files.toml import read_toml
from registry.metrics import METRICS
from registry.names import check_day, check_name, suggest_names
from registry.prompting.variants import parse_variants
from registry.untrusted import RefusedError, check

EVERY_BENCHMARK: Final = "*"
"""Placeholder in a suite for the benchmarks of a board, so that one suite serves boards over different benchmarks."""

Text = Annotated[str, Field(max_length=20_000)]
Reference = Annotated[str, Field(min_length=1, max_length=400)]


def _check_variants(value: tuple[str, ...]) -> tuple[str, ...]:
    """Check that each text names a variant set, and return the texts unchanged."""
    for text in value:
        canonical_variants(text)
    return value


Variants = Annotated[tuple[Reference, ...], AfterValidator(_check_variants)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Task(_Strict):
    """A task of a suite: questions that count as one benchmark, under every protocol and variant set listed.

    benchmarks: one, or several whose questions are joined. subjects, options, limit: only questions of these subjects,
    with this number of options, and at most this number of them in file order. sample, seed: only a random sample of
    these. protocols, variants: every combination is evaluated.
    """

    name: str | None = None
    benchmarks: tuple[Reference, ...] = Field(min_length=1)
    subjects: tuple[Reference, ...] = ()
    options: int | None = Field(default=None, ge=2, le=100)
    limit: int | None = Field(default=None, ge=1, le=MAX_INTEGER)
    sample: int | None = Field(default=None, ge=1, le=MAX_INTEGER)
    seed: int | None = Field(default=None, ge=0, le=MAX_INTEGER)
    protocols: tuple[Reference, ...] = ()
    shots: int | None = Field(default=None, ge=0, le=100)
    variants: Variants = ()

    @model_validator(mode="before")
    @classmethod
    def _accept_single_benchmark(cls, data: Any) -> Any:
        """Accept `benchmark = "x"` as an abbreviation of `benchmarks = ["x"]`."""
        if isinstance(data, dict) and "benchmark" in data:
            rest = {key: value for key, value in data.items() if key != "benchmark"}
            if "benchmarks" in rest:
                message = "give benchmark or benchmarks, not both"
                raise ValueError(message)
            return rest | {"benchmarks": [data["benchmark"]]}
        return data

    @model_validator(mode="after")
    def _check_name_of_joined(self) -> "Task":
        if len(self.benchmarks) > 1 and self.name is None:
            message = "a task that joins benchmarks needs a name"
            raise ValueError(message)
        if len(self.benchmarks) > 1 and self.sample is not None:
            message = "a task that joins benchmarks cannot be sampled; make each benchmark a task of its own"
            raise ValueError(message)
        if self.seed is not None and self.sample is None:
            message = "a seed draws a sample: give sample, or leave out seed"
            raise ValueError(message)
        if EVERY_BENCHMARK in self.benchmarks and (len(self.benchmarks) > 1 or self.name is not None):
            message = f'benchmark "{EVERY_BENCHMARK}" stands for several tasks: give it on its own, without a name'
            raise ValueError(message)
        return self


def canonical_variants(text: str) -> str:
    """Return the canonical spelling of a variant set: `divergent` and `divergent:seed=0` are the same set."""
    try:
        return parse_variants(text).name
    except ShuffleboardError as error:
        raise ValueError(str(error)) from None


def _check_name(what: str, name: str) -> str:
    try:
        return check_name(what, name)
    except ShuffleboardError as error:
        raise ValueError(str(error)) from None


class SuiteDefinition(_Strict):
    """A suite file. protocols, shots and variants are defaults for its tasks."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "short", "variants": ["full"], "tasks": [{"benchmark": "capitals"}]}]}
    )

    name: str
    title: Text = ""
    text: Text = ""
    protocols: tuple[Reference, ...] = ("symbols",)
    shots: int = Field(default=0, ge=0, le=100)
    variants: Variants = ()
    tasks: tuple[Task, ...] = Field(min_length=1, max_length=1000)

    @field_validator("name")
    @classmethod
    def _validate_name(cls, value: str) -> str:
        return _check_name("suite", value)

    @model_validator(mode="after")
    def _check_tasks(self) -> "SuiteDefinition":
        names: set[str] = set()
        for number, task in enumerate(self.tasks, start=1):
            if not (task.variants or self.variants):
                message = f"task {number} has no variants, and the suite gives none"
                raise ValueError(message)
            name = task.name or task.benchmarks[0]
            if name in names:
                message = f"task {number}: {name!r} is used twice; give each task its own name"
                raise ValueError(message)
            names.add(name)
        return self

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Return the benchmarks that the tasks name, in order and without repetition."""
        named = (name for task in self.tasks for name in task.benchmarks if name != EVERY_BENCHMARK)
        return tuple(dict.fromkeys(named))

    @property
    def needs_benchmarks(self) -> bool:
        """Return whether a task contains the placeholder for a board's benchmarks."""
        return any(EVERY_BENCHMARK in task.benchmarks for task in self.tasks)


def _limit_suffix(limit: int) -> str:
    return f"-first-{limit}"


def _sample_suffix(sample: int, seed: int) -> str:
    return f"-sample-{sample}" + (f"-seed-{seed}" if seed else "")


def part_of_suite(suite: str, limit: int | None, sample: int | None, seed: int | None) -> str | None:
    """Return the name of the suite made by `first_questions` and `sample_suite`; None if neither is needed.

    >>> part_of_suite("short@2", 100, 50, None)
    'short-first-100-sample-50'
    """
    if limit is None and sample is None:
        return None
    first = "" if limit is None else _limit_suffix(limit)
    return suite.partition("@")[0] + first + ("" if sample is None else _sample_suffix(sample, seed or 0))


def first_questions(suite: SuiteDefinition, limit: int) -> SuiteDefinition:
    """Return a copy of a suite that takes only the first questions of each benchmark of each task, for a trial.

    Its name is `NAME-first-LIMIT`. Raises UsageError for a limit out of range.
    """
    if not 1 <= limit <= MAX_INTEGER:
        raise UsageError(f"limit {limit}: give a number from 1 to {MAX_INTEGER}")
    return suite.model_copy(
        update={
            "name": check_name("suite", f"{suite.name}{_limit_suffix(limit)}"),
            "title": f"{suite.title or suite.name} (first {limit} of each benchmark)",
            "tasks": tuple(task.model_copy(update={"limit": min(limit, task.limit or limit)}) for task in suite.tasks),
        }
    )


def sample_suite(suite: SuiteDefinition, sample: int, seed: int) -> SuiteDefinition:
    """Return a copy of a suite that takes only a random sample of the questions of each task.

    Its name is `NAME-sample-N`, with `-seed-S` for a seed other than 0. Raises UsageError for a number out of range, a
    suite with a sample of its own, or a task that joins benchmarks.
    """
    if not 1 <= sample <= MAX_INTEGER:
        raise UsageError(f"sample {sample}: give a number of questions, from 1 to {MAX_INTEGER}")
    if not 0 <= seed <= MAX_INTEGER:
        raise UsageError(f"seed {seed}: give a number from 0 to {MAX_INTEGER}")
    for task in suite.tasks:
        if len(task.benchmarks) > 1:
            raise UsageError(
                f"suite {suite.name}: task {task.name} joins benchmarks and cannot be sampled; submit the benchmarks "
                "one by one, or leave out the sample"
            )
        if task.sample is not None:
            raise UsageError(f"suite {suite.name} already asks a sample; leave out the sample")
    return suite.model_copy(
        update={
            "name": check_name("suite", f"{suite.name}{_sample_suffix(sample, seed)}"),
            "title": f"{suite.title or suite.name} (a sample of {sample} questions of each benchmark, seed {seed})",
            "tasks": tuple(task.model_copy(update={"sample": sample, "seed": seed}) for task in suite.tasks),
        }
    )


@dataclass(frozen=True)
class Asked:
    """One evaluation that a suite requires of every model: a benchmark of a task under one protocol and variant set."""

    task: str
    benchmark: str
    protocol: str
    shots: int
    variants: str
    subjects: tuple[str, ...]
    options: int | None
    limit: int | None
    sample: int | None
    seed: int


def evaluations_asked(suite: SuiteDefinition, benchmarks: Sequence[str] = ()) -> Iterator[Asked]:
    """Yield the evaluations of a suite, task by task. benchmarks: replace EVERY_BENCHMARK."""
    for task in suite.tasks:
        parts = list(benchmarks) if task.benchmarks == (EVERY_BENCHMARK,) else list(task.benchmarks)
        for benchmark in parts:
            for protocol in task.protocols or suite.protocols:
                for variants in task.variants or suite.variants:
                    yield Asked(
                        task.name or benchmark.partition("@")[0],
                        benchmark,
                        protocol,
                        suite.shots if task.shots is None else task.shots,
                        variants,
                        tuple(sorted(task.subjects)),
                        task.options,
                        task.limit,
                        task.sample,
                        task.seed or 0,
                    )


@dataclass(frozen=True)
class Column:
    """A column of a board: a metric on a variant set, under one of the suite's protocols (None: its only one).

    variants: as spelled in the file.
    """

    metric: str
    variants: str
    protocol: str | None = None

    @property
    def name(self) -> str:
        """Return `metric@variants`, with `/protocol` if the file names one."""
        return f"{self.metric}@{self.variants}" + (f"/{self.protocol}" if self.protocol else "")

    @property
    def same_as(self) -> tuple[str, str, str | None]:
        """Return a key that is the same for every spelling of a column."""
        return (self.metric, canonical_variants(self.variants), self.protocol)


def parse_column(text: str) -> Column:
    """Parse a column's name. Raises ValueError with the mistake and the remedy."""
    metric, at, rest = text.partition("@")
    variants, _, protocol = rest.partition("/")
    if not at or not variants:
        message = f"column {text!r}: write it metric@variants, such as right_twice_across_orders@cyclic"
        raise ValueError(message)
    if metric not in METRICS:
        message = f"column {text!r}: no metric {metric!r}{suggest_names(metric, METRICS)}"
        raise ValueError(message)
    canonical_variants(variants)
    return Column(metric, variants, protocol or None)


class SubmissionRules(_Strict):
    """A board's rules for submissions: `text` is free text; the others are enforced on submission.

    accounts: who may submit; empty for every account with the right to submit. per_account, per_model: the most pending
    and approved submissions to the board's suite. per_day: the most submissions of an account within 24 hours, whatever
    their state. sources, dtypes: those accepted; empty for any. same_suite: accept only the board's version of the
    suite, so that protocols, orders and seeds are the board's. statement: whether a conflict of interest must be
    stated, even if it is "none". anonymous: whether submitters may hide their names.
    """

    text: Text = ""
    accounts: tuple[Reference, ...] = ()
    per_account: int | None = Field(default=None, ge=1, le=MAX_INTEGER)
    per_model: int | None = Field(default=None, ge=1, le=MAX_INTEGER)
    per_day: int | None = Field(default=None, ge=1, le=MAX_INTEGER)
    sources: tuple[Literal["hub", "endpoint"], ...] = ()
    dtypes: tuple[Literal["float32", "bfloat16", "float16"], ...] = ()
    same_suite: bool = False
    statement: bool = False
    anonymous: bool = False


def _check_date(text: str) -> str:
    try:
        return check_day("a release date", text)
    except ShuffleboardError as error:
        raise ValueError(str(error)) from None


Day = Annotated[str, AfterValidator(_check_date)]


class ModelChoice(_Strict):
    """The conditions that a model must meet to be on a board. An unknown value meets no condition.

    Ranges are inclusive.
    names, families, developers, licences: the accepted ones; empty for all. openness: whether anyone may download the
    weights. released_from, released_to: days. cost_to: maximum cost of all of a model's evaluations on the board, in
    the currency of the prices. thinking: whether the model's answers there have thoughts.
    """

    names: tuple[Reference, ...] = Field(default=(), max_length=1000)
    families: tuple[Reference, ...] = Field(default=(), max_length=100)
    developers: tuple[Reference, ...] = Field(default=(), max_length=100)
    licences: tuple[Reference, ...] = Field(default=(), max_length=100)
    openness: Literal["open", "closed"] | None = None
    parameters_from: int | None = Field(default=None, ge=0, le=MAX_INTEGER**2)
    parameters_to: int | None = Field(default=None, ge=0, le=MAX_INTEGER**2)
    released_from: Day | None = None
    released_to: Day | None = None
    cost_to: Decimal | None = Field(default=None, ge=0, max_digits=12, decimal_places=6)
    thinking: bool | None = None


SORTED: Final = ("right_twice_across_orders", "right_in_every_order", "worst_accuracy")
"""Metrics by which a board is sorted by default: the first of these that a column has."""


class BoardDefinition(_Strict):
    """A board file. suite: `NAME` or `NAME@VERSION`; sort: the column by which models are listed.

    weights: task to weight; the default is 1, and 0 leaves a task out.
    models: the conditions for models; None for all models.
    submissions: rules for submitting to it; None for only the registry's own.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "orders", "suite": "short", "columns": ["right_twice_across_orders@full", "accuracy@full"]}
            ]
        }
    )

    name: str
    title: Text = ""
    text: Text = ""
    suite: Reference
    benchmarks: tuple[Reference, ...] = ()
    columns: tuple[Reference, ...] = Field(min_length=1, max_length=100)
    sort: Reference | None = None
    weights: dict[Reference, Annotated[int, Field(ge=0, le=1000)]] = Field(default={}, max_length=1000)
    models: ModelChoice | None = None
    submissions: SubmissionRules | None = None

    @field_validator("name")
    @classmethod
    def _validate_name(cls, value: str) -> str:
        return _check_name("board", value)

    @field_validator("columns")
    @classmethod
    def _check_columns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        columns = [parse_column(text).same_as for text in value]
        for text, column in zip(value, columns, strict=True):
            if columns.count(column) > 1:
                message = f"column {text!r} is listed twice; remove one"
                raise ValueError(message)
        return value

    @model_validator(mode="after")
    def _check_sort(self) -> "BoardDefinition":
        names = [column.name for column in self.parsed_columns]
        if self.sort is not None and self.sort not in names:
            message = f"sort {self.sort!r} is not a column; use one of {', '.join(names)}"
            raise ValueError(message)
        return self

    @property
    def parsed_columns(self) -> list[Column]:
        """Return the parsed columns, in the file's order."""
        return [parse_column(text) for text in self.columns]

    @property
    def sort_column(self) -> str:
        """Return the column that orders the models: `sort`, the first with a metric of SORTED, or the first column."""
        if self.sort is not None:
            return self.sort
        names = [column.name for column in self.parsed_columns]
        return next((name for metric in SORTED for name in names if name.startswith(f"{metric}@")), names[0])


Definition = TypeVar("Definition", SuiteDefinition, BoardDefinition)


def read_suite_file(path: Path) -> SuiteDefinition:
    """Read a suite file. Raises IngestError naming the file, the key and the remedy."""
    return _read(path, SuiteDefinition)


def read_board_file(path: Path) -> BoardDefinition:
    """Read a board file. Raises IngestError naming the file, the key and the remedy."""
    return _read(path, BoardDefinition)


def _read(path: Path, kind: type[Definition]) -> Definition:
    return parse_definition(read_toml(path), kind, path.name)


def parse_definition(document: dict[str, Any], kind: type[Definition], source: str) -> Definition:
    """Parse a definition from a document. Raises IngestError naming the first mistake."""
    try:
        check(document)
        return kind.model_validate(document)
    except RefusedError as error:
        raise IngestError(f"{source}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        problem = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            keys = ", ".join(_keys(kind, first["loc"]))
            problem = f"unknown key; known: {keys}"
        raise IngestError(f"{source}: {place + ': ' if place else ''}{problem}") from None


def _keys(kind: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    parts: dict[int | str, type[BaseModel]] = {"tasks": Task, "submissions": SubmissionRules, "models": ModelChoice}
    return list(parts.get(location[0], kind).model_fields)


def as_document(definition: SuiteDefinition | BoardDefinition) -> dict[str, Any]:
    """Convert a definition to plain JSON, for storing and for its digest."""
    document = definition.model_dump(mode="json")
    if isinstance(definition, BoardDefinition) and definition.models is not None:
        document["models"] = definition.models.model_dump(mode="json", exclude_defaults=True)
    return document


def entries_asked(suite: SuiteDefinition, board: BoardDefinition) -> list[Asked]:
    """Return the evaluations that a board takes from its suite: all except those in tasks with weight 0."""
    evaluations = list(evaluations_asked(suite, board.benchmarks))
    tasks = dict.fromkeys(evaluation.task for evaluation in evaluations)
    for name in board.weights:
        if name not in tasks:
            raise UsageError(f"board {board.name}: weights: no task {name!r}{suggest_names(name, tasks)}")
    counted = [evaluation for evaluation in evaluations if board.weights.get(evaluation.task, 1)]
    if not counted:
        raise UsageError(f"board {board.name}: weights: every task counts 0; give one of them 1")
    return counted
