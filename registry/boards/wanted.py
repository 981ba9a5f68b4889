"""Requests for evaluations: one model for the API, the command line, `apply` and their documentation."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from sqlalchemy.orm import Session

from registry.db import MAX_INTEGER
from registry.errors import UsageError
from registry.fields import Between, OneOf, Remedy
from registry.prompting.protocols.store import with_room
from registry.prompting.variants import VariantSetDefinition, parse_variants
from registry.providers.budgets import MOST, set_budget
from registry.queue.estimate import Plan
from registry.queue.evaluations import EvaluationRequest, submit
from registry.tables import QUEUES, Evaluation

Reference = Annotated[str, Field(min_length=1, max_length=400, description="NAME, or NAME@VERSION.")]
Statement = Annotated[str, Field(max_length=500)]
Word = Annotated[str, Field(min_length=1, max_length=200)]
Queue = Annotated[str, OneOf(QUEUES)]
Priority = Annotated[int, Between(-MAX_INTEGER, MAX_INTEGER), Field(description="Higher is scored earlier.")]
Budget = Annotated[
    float,
    Field(
        ge=0, le=MOST, allow_inf_nan=False, description="What asking a provider may cost, in the price list's currency."
    ),
    Remedy(f"give an amount from 0 to {MOST:g}"),
]
_BENCHMARK_FIELDS: Final = (
    "variants",
    "protocol",
    "shots",
    "max_tokens",
    "limit",
    "subjects",
    "options",
    "replicate",
    "sample",
    "seed",
)
"""Fields that are allowed only with a benchmark, because suites and boards define them."""
_SUITE_FIELDS: Final = ("limit", "sample", "seed")
"""Fields that are also allowed with a suite: they make another suite, with fewer questions."""


class Wanted(BaseModel):
    """A request for evaluations: one benchmark under variants, or all that a suite or a board lacks of the model."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        json_schema_extra={"examples": [{"model": "SmolLM2-135M", "benchmark": "capitals", "variants": "cyclic"}]},
    )

    model: Annotated[Reference, Field(description="Model NAME, or NAME@REVISION.")]
    benchmark: Annotated[Reference | None, Field(description="Benchmark NAME, or NAME@VERSION.")] = None
    variants: Annotated[
        Reference | None, Field(description="Kind of variants with its parameters, such as cyclic:repeats=4.")
    ] = None
    suite: Annotated[
        Reference | None, Field(description="Everything in this suite that is still missing: NAME, or NAME@VERSION.")
    ] = None
    board: Annotated[Reference | None, Field(description="Everything that this board still needs of the model.")] = None
    benchmarks: Annotated[
        list[Reference], Field(max_length=100, description="What the suite's * stands for; for suites alone.")
    ] = []
    protocol: Annotated[Word | None, Field(description="How the model is asked. Default: symbols.")] = None
    shots: Annotated[
        Annotated[int, Between(0, 1000)] | None, Field(description="Examples from the few-shot pool. Default: 0.")
    ] = None
    max_tokens: Annotated[
        Annotated[int, Between(1, MAX_INTEGER)] | None,
        Field(
            description="Limit of tokens for thought and answer together, in place of the protocol's; makes "
            "NAME-N-tokens."
        ),
    ] = None
    limit: Annotated[
        Annotated[int, Between(1, MAX_INTEGER)] | None,
        Field(description="Only the first questions in file order; of a suite, of each of its benchmarks."),
    ] = None
    subjects: Annotated[list[Word], Field(max_length=1000, description="Only these subjects.")] = []
    options: Annotated[
        Annotated[int, Between(2, 100)] | None, Field(description="Only questions with this many options.")
    ] = None
    sample: Annotated[
        Annotated[int, Between(1, MAX_INTEGER)] | None,
        Field(
            description="Only a sample of so many of these questions, drawn by the seed; of a suite, of each of its "
            "benchmarks."
        ),
    ] = None
    seed: Annotated[
        Annotated[int, Between(0, MAX_INTEGER)] | None,
        Field(description="Draws the sample; samples of one seed contain each other. Default: 0."),
    ] = None
    priority: Priority = 0
    queue: Annotated[Queue, Field(description="Kind of device; gpu-N: a GPU with N GB or more.")] = "cpu"
    max_workers: Annotated[
        Annotated[int, Between(1, MAX_INTEGER)] | None, Field(description="How many score it at once, at most.")
    ] = None
    replicate: Annotated[bool, Field(description="Score again even if already scored.")] = False
    budget: Budget | None = None
    conflict_of_interest: Annotated[
        Statement | None,
        Field(description="Your tie to the model's maker, or none; shown on boards. Default: nothing is stated."),
    ] = None

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if message := contradiction(dict(self), str):
            raise ValueError(message)
        return self

    def plan(self, *, requester: str | None = None, read_files: bool = False) -> Plan:
        """Return a function that queues the requested evaluations.

        read_files: whether variants may name files on this machine. Raises ProtocolError for unknown variants.
        """
        definition = None if self.variants is None else parse_variants(self.variants, read_files=read_files)

        def submit_all(session: Session) -> list[tuple[Evaluation, bool]]:
            evaluations = self._submit(session, definition, requester)
            if self.budget is not None:
                for evaluation, _ in evaluations:
                    set_budget(session, "evaluation", str(evaluation.id), self.budget)
            return evaluations

        return submit_all

    def _submit(
        self, session: Session, variants: VariantSetDefinition | None, requester: str | None
    ) -> list[tuple[Evaluation, bool]]:
        from registry.boards.store import submit_board, submit_suite  # only submitting needs numpy

        fields = self.model_dump(include={"priority", "queue", "max_workers", "conflict_of_interest"}) | {
            "requester": requester
        }
        if self.board is not None:
            return submit_board(session, self.model, self.board, **fields)
        if self.suite is not None:
            fields |= {"limit": self.limit, "sample": self.sample, "seed": self.seed or 0}
            return submit_suite(session, self.model, self.suite, self.benchmarks, **fields)
        assert variants is not None
        return [submit(session, self._request(session, variants, **fields))]

    def _request(self, session: Session, variants: VariantSetDefinition, **fields: Any) -> EvaluationRequest:
        assert self.benchmark is not None
        protocol = self.protocol or "symbols"
        return EvaluationRequest(
            model=self.model,
            benchmark=self.benchmark,
            variants=variants,
            protocol=protocol if self.max_tokens is None else with_room(session, protocol, self.max_tokens),
            shots=self.shots or 0,
            limit=self.limit,
            subjects=tuple(self.subjects),
            options=self.options,
            sample=self.sample,
            seed=self.seed or 0,
            new_replicate=self.replicate,
            **fields,
        )


class ToEstimate(Wanted):
    """A request for an estimate, perhaps with the precision that a sample must reach."""

    precision: Annotated[
        float | None,
        Field(description="Choose the sample whose 95 % intervals reach at most this far to each side, such as 0.02."),
    ] = None

    def with_sample(self, session: Session, *, read_files: bool = False) -> tuple[Wanted, dict[str, Any]]:
        """Return the request with the sample that its precision needs, and how that sample was chosen.

        read_files: as for `plan`. Without a precision the request is returned unchanged, with no explanation; see
        `registry.queue.sample_size`. Raises UsageError if a precision is combined with a suite, a board or a sample.
        """
        if self.precision is None:
            return self, {}
        from registry.queue.sample_size import sample_needed  # this imports numpy

        if self.benchmark is None or self.variants is None:
            raise UsageError("a precision is for one benchmark; leave it out, or give the benchmark")
        if self.sample is not None:
            raise UsageError("a precision chooses the sample; give one of the two")
        request = self._request(session, parse_variants(self.variants, read_files=read_files))
        needed = sample_needed(session, request, self.precision)
        return self.model_copy(update={"sample": needed["sample"]}), needed


def contradiction(fields: Mapping[str, Any], spelled: Callable[[str], str]) -> str | None:
    """Return the contradiction between fields of a `Wanted`, in one line with its remedy; None if there is none.

    spelled: returns the spelling of a field's name in the request.
    """

    def list_set(names: tuple[str, ...]) -> str:
        values = {name: fields.get(name) for name in names}
        present = [name for name, value in values.items() if value not in (None, [], ()) and value is not False]
        return ", ".join(dict.fromkeys(map(spelled, present)))

    source = next((name for name in ("board", "suite") if fields.get(name) is not None), None)
    if source is not None:
        defined = tuple(name for name in _BENCHMARK_FIELDS if source != "suite" or name not in _SUITE_FIELDS)
        extra = list_set((*defined, *{"board": ("suite", "benchmark", "benchmarks"), "suite": ("benchmark",)}[source]))
        if extra:
            return f"a {source} already defines what is asked; leave out {extra}"
        return _check_seed(fields, spelled)
    if fields.get("benchmark") is None:
        return f"{spelled('benchmark')} is missing: give one, or {spelled('suite')}, or {spelled('board')}"
    if fields.get("benchmarks"):
        return f"{spelled('benchmarks')} are what a suite's * stands for; leave them out"
    if fields.get("variants") is None:
        return f"a benchmark is asked under variants; give {spelled('variants')}, such as cyclic"
    return _check_seed(fields, spelled)


def _check_seed(fields: Mapping[str, Any], spelled: Callable[[str], str]) -> str | None:
    if fields.get("seed") is None or fields.get("sample") is not None:
        return None
    return f"{spelled('seed')} draws a sample: give {spelled('sample')}, or leave it out"
