"""Suite and board files: TOML, read whole and checked before anything is stored."""

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
"""Placeholder for the benchmarks that a board names, so that one suite serves boards over different benchmarks."""

Text = Annotated[str, Field(max_length=20_000)]
Reference = Annotated[str, Field(min_length=1, max_length=400)]


def _check_variants(value: tuple[str, ...]) -> tuple[str, ...]:
    """Check that each text spells a variant set, and return the texts unchanged."""
    for text in value:
        canonical_variants(text)
    return value


Variants = Annotated[tuple[Reference, ...], AfterValidator(_check_variants)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Task(_Strict):
    """One line of a suite: questions that count as one benchmark, under every protocol and variant set listed.

    benchmarks: one, or several whose questions are joined. subjects, options, limit: only questions of these subjects,
    with this number of options, and at most this number of them in file order. sample, seed: only a sample of these,
    drawn by the seed.
    Several protocols and variant sets multiply.
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
    def _one_benchmark(cls, data: Any) -> Any:
        """Accept `benchmark = "x"` as short for `benchmarks = ["x"]`."""
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
    """Return the canonical spelling of a variant set: `divergent` and `divergent:seed=0` are one."""
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
    """A suite file. protocols, shots and variants are defaults of its tasks."""

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
    def _name(cls, value: str) -> str:
        return _check_name("suite", value)

    @model_validator(mode="after")
    def _complete(self) -> "SuiteDefinition":
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
        """Return the benchmarks that its tasks name, in their order, each once."""
        named = (name for task in self.tasks for name in task.benchmarks if name != EVERY_BENCHMARK)
        return tuple(dict.fromkeys(named))

    @property
    def needs_benchmarks(self) -> bool:
        """Return whether some task has the placeholder for a board's benchmarks."""
        return any(EVERY_BENCHMARK in task.benchmarks for task in self.tasks)


def _first(limit: int) -> str:
    return f"-first-{limit}"


def _sample_suffix(sample: int, seed: int) -> str:
    return f"-sample-{sample}" + (f"-seed-{seed}" if seed else "")


def part_of_suite(suite: str, limit: int | None, sample: int | None, seed: int | None) -> str | None:
    """Return the name of the suite that takes a part of each benchmark of another suite; None without a part.

    >>> part_of_suite("short@2", 100, 50, None)
    'short-first-100-sample-50'
    """
    if limit is None and sample is None:
        return None
    first = "" if limit is None else _first(limit)
    return suite.partition("@")[0] + first + ("" if sample is None else _sample_suffix(sample, seed or 0))


def first_questions(suite: SuiteDefinition, limit: int) -> SuiteDefinition:
    """Return a suite with at most `limit` questions of each benchmark of each task, for a trial.

    Its name is `NAME-first-LIMIT`. Raises UsageError for a limit out of range.
    """
    if not 1 <= limit <= MAX_INTEGER:
        raise UsageError(f"limit {limit}: give a number from 1 to {MAX_INTEGER}")
    return suite.model_copy(
        update={
            "name": check_name("suite", f"{suite.name}{_first(limit)}"),
            "title": f"{suite.title or suite.name} (first {limit} of each benchmark)",
            "tasks": tuple(task.model_copy(update={"limit": min(limit, task.limit or limit)}) for task in suite.tasks),
        }
    )


def sample_suite(suite: SuiteDefinition, sample: int, seed: int) -> SuiteDefinition:
    """Return a suite with a sample of the questions of each task.

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
    """One evaluation that a suite requires of every model: a part of a task under one protocol."""

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
    """Yield the evaluations of a suite, task by task; benchmarks: the replacement for EVERY_BENCHMARK."""
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

    variants: as the file spells them.
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
        """Return a key that is equal for two spellings of one column."""
        return (self.metric, canonical_variants(self.variants), self.protocol)


def parse_column(text: str) -> Column:
    """Parse a column's name. Raises ValueError that names the mistake."""
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
    """A board's rules for submissions: `text` in its own words; the others are enforced on submission.

    accounts: who may submit; empty: every account that may submit at all. per_account, per_model: pending and approved
    submissions to the board's suite. per_day: submissions of an account within 24 hours, whatever their state.
    sources, dtypes: empty: any. same_suite: only the board's version of the suite, so that protocols, orders and seeds
    are the board's. statement: whether a conflict of interest must be stated, if only as "none". anonymous: whether
    submitters may leave their names out.
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


def _day(text: str) -> str:
    try:
        return check_day("a release date", text)
    except ShuffleboardError as error:
        raise ValueError(str(error)) from None


Day = Annotated[str, AfterValidator(_day)]


class ModelChoice(_Strict):
    """A board's choice of models; an unknown value meets no condition. Ends are inclusive.

    names, families, developers, licences: any of these; empty: all. openness: whether anyone may download its weights.
    released_from, released_to: days. cost_to: the cost of all of a model's evaluations on the board, in the currency of
    the prices. thinking: whether its answers there have thoughts.
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
"""Metrics that a board is sorted by if it has a column of one."""


class BoardDefinition(_Strict):
    """A board file. suite: `NAME` or `NAME@VERSION`; sort: the column that models are listed by.

    weights: task to how much it counts; a task that is not named counts 1, and 0 leaves it out.
    models: which models it takes; None: all.
    submissions: rules for submitting to it; None: none but the registry's own.
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
    def _name(cls, value: str) -> str:
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
        """Return the columns, in the file's order."""
        return [parse_column(text) for text in self.columns]

    @property
    def sort_column(self) -> str:
        """Return the name of the column that orders the models: `sort`, or the first of SORTED, or the first column."""
        if self.sort is not None:
            return self.sort
        names = [column.name for column in self.parsed_columns]
        return next((name for metric in SORTED for name in names if name.startswith(f"{metric}@")), names[0])


Definition = TypeVar("Definition", SuiteDefinition, BoardDefinition)


def read_suite_file(path: Path) -> SuiteDefinition:
    """Read a suite file. Raises IngestError naming file, place and remedy."""
    return _read(path, SuiteDefinition)


def read_board_file(path: Path) -> BoardDefinition:
    """Read a board file. Raises IngestError naming file, place and remedy."""
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
            known = ", ".join(_keys(kind, first["loc"]))
            problem = f"unknown key; known: {known}"
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
    asked = list(evaluations_asked(suite, board.benchmarks))
    tasks = dict.fromkeys(one.task for one in asked)
    for name in board.weights:
        if name not in tasks:
            raise UsageError(f"board {board.name}: weights: no task {name!r}{suggest_names(name, tasks)}")
    found = [one for one in asked if board.weights.get(one.task, 1)]
    if not found:
        raise UsageError(f"board {board.name}: weights: every task counts 0; give one of them 1")
    return found
